"""Which lens results a verdict can use, setting by setting."""

import dataclasses

import pytest

from statetrace.config.compile_spec import CompileSpec
from statetrace.lenses.compiled import task_of
from statetrace.lenses.registry import LENSES, make_spec
from statetrace.mechanisms.collect_evidence import collect_evidence
from statetrace.mechanisms.compatibility import incompatibility
from statetrace.mechanisms.mastery import COLLECTED
from statetrace.models.compiled import compile_model

COMPILED = CompileSpec("S3", "associative", 6)


@pytest.fixture(scope="module")
def model():
    return compile_model(COMPILED)


def look(model, lens, **settings):
    return LENSES[lens].look(model, task_of(COMPILED), make_spec(lens, settings))


def why(result, length=6):
    return incompatibility(result, task_of(COMPILED).group, length)


@pytest.mark.parametrize(
    ("group", "algorithm"), [("S3", "associative"), ("D4", "parallel"), ("A4", "associative")]
)
def test_collected_evidence_can_be_used(group, algorithm):
    spec = CompileSpec(group, algorithm, 6)
    task = task_of(spec)
    found = collect_evidence(compile_model(spec), task, lenses=COLLECTED)
    assert set(found) == set(COLLECTED)
    assert {
        lens: incompatibility(result, task.group, 6) for lens, result in found.items()
    } == dict.fromkeys(found)


@pytest.mark.parametrize(
    ("lens", "settings", "words"),
    [
        ("depth", {"lengths": "3", "pairs": "50"}, "lengths 3 instead of 2 3 4 6"),
        ("depth", {"pairs": "20"}, "pairs 20 instead of 50 or more"),
        ("patching", {"length": "4", "pairs": "30"}, "length 4 instead of 6"),
        ("patching", {"corrupt_at": "2", "pairs": "30"}, "corrupt_at 2 instead of 0"),
        (
            "patching",
            {"grids": "window3-deletion-head", "pairs": "30"},
            "grids window3-deletion-head without prefix-substitution-resid",
        ),
        ("attention", {"first": "100"}, "first 100 instead of 5"),
        ("attention", {"last": "7"}, "last 7 instead of 6"),
        ("attention", {"ablation_sizes": "2"}, "ablation_sizes 2 without 1"),
        ("generalization", {"longest": "6"}, "longest 6 instead of 12"),
        ("generalization", {"threshold": "0.5"}, "threshold 0.5 instead of 0.98"),
        ("probing", {"targets": "state", "train": "800"}, "targets without parity"),
        ("probing", {"lengths": "2", "train": "800"}, "lengths 2 6 instead of 5 6"),
    ],
)
def test_another_question(model, lens, settings, words):
    assert why(look(model, lens, **settings)) == words


@pytest.mark.parametrize(
    ("lens", "settings"),
    [
        ("depth", {"pairs": "50", "seed": "3"}),
        ("patching", {"pairs": "25", "grids": "suffix-deletion,prefix-substitution"}),
        ("attention", {"examples": "30", "seed": "2", "ablation_sizes": "1,2", "top": "1"}),
        ("generalization", {"sequences": "300", "bootstrap": "10", "seed": "1"}),
        ("probing", {"train": "900", "test": "300", "controls": "shuffled", "subsets": "2"}),
    ],
)
def test_the_same_question(model, lens, settings):
    result = look(model, lens, **settings)
    assert why(result) is None
    if lens != "generalization":  # which looks at all lengths
        assert why(result, 5) is not None


def test_older_generalization_does_not_say_how_far_it_could_read(model):
    result = look(model, "generalization")
    short = {**result.summary, "longest": 9}
    assert why(dataclasses.replace(result, summary=short)) == "longest 9 instead of 12"
    assert why(dataclasses.replace(result, summary=short | {"readable": 9})) is None
    del short["readable"]
    assert why(dataclasses.replace(result, summary=short)) is None


def test_gather_makes_again_what_asked_something_else(model):
    usual = collect_evidence(
        model, task_of(COMPILED), lenses=("generalization", "depth", "patching")
    )
    odd = look(model, "depth", lengths="3", pairs="50")
    again = collect_evidence(model, task_of(COMPILED), usual | {"depth": odd})
    assert again["depth"].summary == usual["depth"].summary
    assert again["patching"] is usual["patching"]
