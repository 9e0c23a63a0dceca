"""Probes of all layers, of several models, and of several subsets, on tables made up for it."""

import pytest

from reproduction.claim import answer
from reproduction.claims import CLAIMS
from reproduction.measures import deviations as of_deviations
from reproduction.measures import probing as of_probing
from reproduction.model_selection import A, P
from reproduction.results import Missing, Results
from reproduction.rules import AGREES, DIFFERS, NOT_REACHED, judge
from tests.reproduction.made import write_csv, write_json

NAMED = {claim.name: claim for claim in CLAIMS}


def write_probes(root, folder, parity, state=None, n=2000, std=0.01):
    """Accuracies by layer."""
    state = state or (0.2,) * len(parity)
    rows = [
        {"target": target, "position": "last", "length": 8, "layer": layer, "metric": "accuracy",
         "mean": value, "std": std[layer] if isinstance(std, tuple) else std, "n": n, "chance": 0.5}
        for target, values in (("parity", parity), ("state", state))
        for layer, value in enumerate(values)
    ]  # fmt: skip
    write_csv(root / "results" / folder / "probing.csv", rows)


@pytest.mark.parametrize(
    ("parity", "judgement"),
    [
        ((0.5, 0.52, 0.49, 0.5, 0.97), AGREES),
        ((0.5, 0.8, 0.5, 0.5, 0.97), DIFFERS),  # one layer is enough, wherever it lies
        ((0.5, 0.61, 0.5, 0.5, 0.97), NOT_REACHED),
    ],
)
def test_no_layer_before_the_last_may_have_parity(tmp_path, parity, judgement):
    write_probes(tmp_path, f"zoo/{A}", parity)
    claim = NAMED["aa-parity-probe"]
    assert judge(claim.rule, claim.measure(Results(tmp_path))) == judgement


@pytest.mark.parametrize(
    ("parity", "state", "judgement"),
    [
        ((0.5, 1.0, 1.0, 1.0), (0.2, 0.3, 0.95, 1.0), AGREES),
        ((0.5, 0.6, 1.0, 1.0), (0.2, 0.3, 0.95, 1.0), DIFFERS),  # with the state, not before it
    ],
)
def test_parity_comes_before_the_state(tmp_path, parity, state, judgement):
    write_probes(tmp_path, f"zoo/{P}", parity, state)
    claim = NAMED["paa-parity-probe"]
    assert judge(claim.rule, claim.measure(Results(tmp_path))) == judgement


def test_more_layers_widen_the_interval(tmp_path):
    """The best of many is high by luck, too."""
    write_probes(tmp_path, "few", (0.53, 0.9))
    write_probes(tmp_path, "many", (0.53, *[0.5] * 11, 0.9))
    few, many = (
        of_probing.best_before_last(name, "parity")(Results(tmp_path)) for name in ("few", "many")
    )
    assert few.value == many.value == 0.53
    assert few.low > 0.5 > many.low


@pytest.mark.parametrize(
    ("last", "judgement"),
    [((0.97, 0.5), AGREES), ((0.97, 0.87), DIFFERS), ((0.5, 0.5), DIFFERS), ((0.97,), NOT_REACHED)],
)
def test_parity_is_linear_in_some_and_not_in_others(tmp_path, last, judgement):
    """Two models are asked for, one of each kind."""
    for folder, value in zip((f"zoo/{A}", "s5-associative"), last, strict=False):
        write_probes(tmp_path, folder, (0.5, value))
    claim = NAMED["aa-parity-last"]
    assert judge(claim.rule, claim.measure(Results(tmp_path))) == judgement


def test_s5_by_models_that_were_not_taught_parity(tmp_path):
    task = {"group": "S5", "length": 8}
    model = {"name": "gpt2", "layers": 2, "width": 16}
    training = {"steps": 10, "seed": 0}
    for name, parity, stages in (
        ("s5-associative", (0.5, 0.5, 0.6), []),
        ("s5-parity-associative", (0.5, 1.0, 1.0), [{"objective": "parity"}]),
    ):
        write_probes(tmp_path, name, parity)
        recipe = {"task": task, "model": model, "training": training, "stage": stages}
        write_json(tmp_path / "results" / name / "run.json", {"recipe": recipe})
    one = answer(NAMED["s5-probing"], Results(tmp_path))
    assert (one.found.value, one.found.n, one.judgement) == (1, 1, NOT_REACHED)
    assert one.found.words.endswith("no PAA model that was not taught parity")
    recipe = {"task": task, "model": model, "training": training, "stage": []}
    write_json(tmp_path / "results/s5-parity-associative/run.json", {"recipe": recipe})
    assert answer(NAMED["s5-probing"], Results(tmp_path)).judgement == AGREES


def test_cells_of_table_1(tmp_path):
    """The paper's own numbers agree with themselves; others do not, nor do other depths."""
    claim = NAMED["table-1-cells"]
    with pytest.raises(Missing):
        claim.measure(Results(tmp_path))
    for factor, share in ((1, 1.0), (9, 1.0), (11, 0.0)):
        for model in (A, P):
            rows = []
            for target in ("state", "parity"):
                rows += [
                    {"target": target, "position": "last", "length": 8, "layer": layer,
                     "metric": "accuracy", "mean": 0.5, "std": factor * std, "n": 9, "chance": 0.5}
                    for layer, std in enumerate(of_deviations.TABLE_1[model, target])
                ]  # fmt: skip
            write_csv(tmp_path / "results/zoo" / model / "probing.csv", rows)
        found = claim.measure(Results(tmp_path))
        assert (found.value, found.n) == (share, 52)
        assert found.words.endswith("rank correlation of all 1.00")
        assert judge(claim.rule, found) == (AGREES if share else DIFFERS)
    write_probes(tmp_path, f"zoo/{A}", (0.5, 0.5))
    with pytest.raises(Missing):
        claim.measure(Results(tmp_path))


def test_table_1_is_the_papers():
    """Its largest and smallest number, and one of each column."""
    table = of_deviations.TABLE_1
    assert {len(column) for column in table.values()} == {13}
    numbers = [value for column in table.values() for value in column]
    assert (min(numbers), max(numbers)) == (8.97e-7, 5.59e-4)
    assert [column[9] for column in table.values()] == [2.96e-4, 6.85e-5, 2.36e-5, 3.53e-6]
