"""Every compiled model says the product of the actions so far, whatever else it is made to be."""

import pytest

from statetrace.groups import group
from statetrace.lenses.compiled import check_compiled
from statetrace.models.compiled import CompileSpec, compile_model
from tests.models.compiled.cases import (
    ALGORITHMS,
    PAIRS,
    accuracy,
    check,
    counts,
    predictions,
    sequences,
    variants,
)

# What does not change the answers, each away from its default.
OPTIONS = {
    "no start marker": {"start_marker": False},
    "the other notation": {"notation": "receives"},
    "the average counter": {"counter": "average"},
    "hidden parity": {"parity": "hidden"},
    "spare layers": {"before": 1, "between": 2, "after": 1},
    "one head": {"heads": 1},
    "plain basis": {"basis": "plain"},
    "no room beyond": {"reach": 7, "heads": 3, "seed": 7},
    "everything": {
        "start_marker": False, "notation": "receives", "before": 2, "between": 1, "after": 3,
        "heads": 4, "basis": "plain", "seed": 3, "sharpness": 40.0, "reach": 11,
    },
}  # fmt: skip


def applies(of: str, name: str, option: str) -> bool:
    if option == "the average counter":
        return counts(name)
    return option != "hidden parity" or (not counts(name) and of.startswith("S"))


@pytest.mark.parametrize("length", [1, 2, 3, 5, 16])
@pytest.mark.parametrize(("of", "name"), PAIRS)
def test_always_right(of, name, length):
    assert accuracy(CompileSpec(group=of, algorithm=name, length=length)) == 1.0


@pytest.mark.parametrize(
    ("of", "name", "option"),
    [(*pair, option) for pair in PAIRS for option in OPTIONS if applies(*pair, option)],
)
def test_no_option_changes_the_answers(of, name, option):
    spec = CompileSpec(group=of, algorithm=name, length=7, **OPTIONS[option])
    assert accuracy(spec, random=100) == 1.0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_combination_of_options_on_every_sequence(name):
    """Of S3 at length 3, with spare layers."""
    combinations = variants(
        name,
        start_marker=(True, False),
        notation=("moves", "receives"),
        heads=(1, 2, 3, 4),
        basis=("plain", "random"),
    )
    wrong = [
        chosen
        for seed, chosen in enumerate(combinations)
        if accuracy(CompileSpec(algorithm=name, length=3, seed=seed, between=1, **chosen)) < 1
    ]
    assert len(combinations) in (48, 64)
    assert wrong == []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_sequence_of_length_six(name):
    spec = CompileSpec(algorithm=name, length=6)
    assert check_compiled(compile_model(spec), spec, 50_000) == (1.0, 6**6, True)


LONG = [
    *(("S3", name, 64) for name in ALGORITHMS[1:]),
    *(("S5", name, 32) for name in ("sequential", "associative", "parity-associative")),
    *((of, "parallel", length) for of, length in (("D4xZ2", 31), ("D4xZ2", 64), ("S4", 64))),
    ("S3", "sequential", 40),
    ("S3", "parity-associative", 100),
]


@pytest.mark.parametrize(("of", "name", "length"), LONG)
def test_long_sequences(of, name, length):
    """Where rounding errors would pile up, most of all in one count after another."""
    assert accuracy(CompileSpec(group=of, algorithm=name, length=length), random=30) == 1.0


def test_the_check_sees_a_wrong_model():
    """One row of the unembedding taken for another makes some answers wrong."""
    spec = CompileSpec(length=4)
    model = compile_model(spec)
    model.lm_head.weight.data[2] = model.lm_head.weight.data[1] + 0.1
    assert check(model, spec) < 0.9


def test_the_check_of_random_sequences_counts_them():
    spec = CompileSpec(length=8)
    assert check_compiled(compile_model(spec), spec, 70) == (1.0, 70, False)
    accuracy, tried, exhaustive = check_compiled(compile_model(spec), spec, 0)
    assert (accuracy != accuracy, tried, exhaustive) == (True, 0, False)


@pytest.mark.parametrize("start_marker", [True, False])
def test_parity_only_knows_parity_and_guesses_the_rest(start_marker):
    spec = CompileSpec(algorithm="parity-only", length=12, start_marker=start_marker)
    tried = sequences(spec, 300)
    parity = group("S3").parity
    answers = predictions(compile_model(spec), spec, tried)
    assert (parity[answers] == parity[tried.states]).all()
    assert (answers == tried.states).mean() == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize(
    ("name", "layers"),
    [("sequential", 15), ("associative", 4), ("parity-associative", 6), ("parallel", 5)],
)
def test_depth(name, layers):
    """length - 1; log2 of it; that, counting parity and dividing by it; the same for any length."""
    assert compile_model(CompileSpec(algorithm=name, length=16)).config.n_layer == layers
    spared = CompileSpec(algorithm=name, length=16, before=1, between=2, after=3)
    assert compile_model(spared).config.n_layer == 1 + layers + 2 * (layers - 1) + 3


def test_counting_takes_no_more_layers_for_longer_sequences():
    assert compile_model(CompileSpec(algorithm="parallel", length=30)).config.n_layer == 5
