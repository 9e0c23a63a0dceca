"""Every family trains and resumes from its checkpoint bit for bit, and the lenses read it."""

import dataclasses

import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.attention import attention
from statetrace.lenses.loading import load_run
from statetrace.lenses.patching import patching
from statetrace.lenses.registry import LENSES, make_spec
from statetrace.lenses.specs import PatchingSpec
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.loop import train
from statetrace.training.parallel import World
from tests.training.conftest import Recorder, toy
from tests.training.test_loop import assert_same_run

SMALL = {"steps": 16, "evaluate_every": 16, "checkpoint_every": 6}
FAMILIES = {
    "pythia": {},
    "llama": {},
    "qwen": {},
    "gemma": {},
    "mamba": {"heads": None, "learning_rate": 1e-2},
}
QUICK = {
    "patching": {"pairs": "6"},
    "probing": {"train": "100", "test": "40", "subsets": "2", "lengths": "6"},
    "geometry": {"sequences": "60", "permutations": "10"},
    "generalization": {"sequences": "40", "bootstrap": "10"},
}


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    recipe = toy(model=request.param, **SMALL, **FAMILIES[request.param])
    run = Run(tmp_path_factory.mktemp("run") / request.param)
    train(recipe, run, Recorder())
    return recipe, run


def test_it_trains(trained):
    _, run = trained
    first, last = run.metrics("evaluation")
    assert last["loss"] < first["loss"] - 0.05


def test_it_resumes_bit_for_bit(trained, tmp_path):
    recipe, whole = trained
    run = Run(tmp_path / "run")
    train(recipe, run, Recorder(stop_after=[9]))
    train(recipe, run, Recorder(), resume=True)
    assert_same_run(run, whole)


@pytest.mark.parametrize("lens", QUICK)
def test_lenses_that_need_no_attention_read_it(trained, lens):
    _, run = trained
    subject = load_run(run, None, "cpu")
    spec = make_spec(lens, QUICK[lens])
    assert LENSES[lens].look(subject.model, subject.task, spec, lambda share: None).rows()


def test_where_there_is_no_attention_it_is_said_in_a_sentence(trained):
    _, run = trained
    subject = load_run(run, None, "cpu")
    recurrent = run.recipe["model"]["name"] == "mamba"
    result = attention(subject.model, subject.task)
    assert bool(result.rows()) != recurrent
    if recurrent:
        assert "'mamba' models do not have attention" in result.notes[0]
        heads = PatchingSpec(grids=(GridSpec(rows="head"),), pairs=4)
        with pytest.raises(StatetraceError, match="no 'head' was found in this 'mamba' model"):
            patching(subject.model, subject.task, heads)


def test_which_models_are_compiled_and_which_use_the_fused_step_on_cuda():
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")

    def on_cuda(**changes):
        plan = setup.make_plan(toy(**changes), World(0, 1, torch.device("cpu")))
        config = setup.make_model(plan).config
        plan = dataclasses.replace(plan, world=World(0, 1, torch.device("cuda")))
        tokens = plan.task.vocabulary.tokens(plan.task.length)
        program = setup.use_fused_step(plan, config, tokens)
        return program, setup.use_compile(plan, program)

    assert on_cuda() == (True, False)
    assert on_cuda(program=False) == (False, True)
    assert on_cuda(model="llama") == (False, True)
    assert on_cuda(accumulate=2) == (False, True)
    assert on_cuda(length=127) == (True, False)
    assert on_cuda(length=128) == (False, True)  # and its start marker
    assert on_cuda(length=64, precision="float32") == (False, True)
    assert on_cuda(width=260, heads=2) == (False, True)
    assert on_cuda(model="pythia", width=48, heads=2) == (False, True)  # heads of 24, rotated
    assert on_cuda(group="S7") == (False, True)  # 5,041 words
    assert on_cuda(model="mamba", heads=None) == (False, False)
    assert on_cuda(model="mamba", heads=None, compile=True) == (False, True)
