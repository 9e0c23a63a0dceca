"""Runs that begin with weights from elsewhere: how long their sequences may be, and their names."""

import pytest

from statetrace.errors import StatetraceError
from statetrace.lenses.generalization import generalization
from statetrace.lenses.loading import load_run
from statetrace.lenses.specs import GeneralizationSpec
from statetrace.models import check_label
from statetrace.models.spec import ModelSpec
from statetrace.runs import Run
from statetrace.training.cost import estimate
from statetrace.training.loop import train
from tests.models.conftest import FAST
from tests.models.conftest import toy as hugging_face
from tests.training.conftest import Recorder, staged, toy

THEIRS = {"layers": None, "width": None, "heads": None, "steps": 2}


def folder_of(path, name, **fields):
    kind, usual = FAST[name]
    hugging_face(kind, usual | fields).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A GPT-2 that reads 32 tokens: a start marker and 31 actions."""
    return folder_of(tmp_path_factory.mktemp("short"), "gpt2", max_position_embeddings=32)


@pytest.mark.parametrize(("length", "measured"), [(15, 30), (20, 31), (31, 31)])
def test_a_pretrained_model_is_measured_as_far_as_it_can_read(tmp_path, short, length, measured):
    recipe, run = toy(**THEIRS, pretrained=short, length=length), Run(tmp_path / "run")
    assert train(recipe, run, Recorder()).finished
    assert len(run.evaluations()[-1]["accuracy_by_length"]["state"]) == length
    subject = load_run(run, 2, "cpu")
    few = GeneralizationSpec(sequences=20, bootstrap=5)
    assert generalization(subject.model, subject.task, few).summary["longest"] == measured


def test_also_where_another_stage_comes_first(tmp_path, short):
    chain = {"objective": "parity", "steps": 1}, {"objective": "state", "steps": 1}
    recipe = staged(*chain, **THEIRS | {"pretrained": short, "length": 20})
    assert train(recipe, Run(tmp_path / "run"), Recorder()).finished


def test_sequences_that_do_not_fit_are_refused_by_their_length(tmp_path, short):
    recipe, run = toy(**THEIRS, pretrained=short, length=32), Run(tmp_path / "run")
    message = r"length 32 takes 33 tokens, but '.*' has 32 positions; use length 31 or less"
    with pytest.raises(StatetraceError, match=message):
        train(recipe, run, Recorder())
    assert not run.exists()
    with pytest.raises(StatetraceError, match=message):
        estimate(recipe)


@pytest.mark.parametrize("name", ["pythia-160m", "llama"])
def test_a_name_that_contradicts_the_weights_is_refused(tmp_path, short, name):
    run = Run(tmp_path / "run")
    with pytest.raises(StatetraceError, match=f"model '{name}' contradicts .* the family gpt2"):
        train(toy(**THEIRS | {"pretrained": short, "model": name}), run, Recorder())
    assert not run.exists()


def test_names_that_do_not_contradict(tmp_path, short):
    pythia = folder_of(tmp_path / "pythia", "pythia")
    for name, source in (("gpt2-xl", short), ("pythia", pythia), (short, short)):
        check_label(ModelSpec(name, pretrained=source))
    # gpt2 is what a recipe says that leaves the name out
    assert train(toy(**THEIRS, pretrained=pythia), Run(tmp_path / "run"), Recorder()).finished
