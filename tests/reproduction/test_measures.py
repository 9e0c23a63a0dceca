"""Measures on tables whose numbers are known."""

import numpy as np
import pytest

from reproduction.lens_model import AA, PAA, LensModel
from reproduction.measures import choice, lengths, patching, training
from reproduction.measures.registry import find
from reproduction.model_selection import Selection
from reproduction.models_table import map_label
from reproduction.tables import Missing, Tables
from statetrace.errors import StatetraceError
from tests.reproduction.conftest import add_patching


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([1, 2, 4, 8, 16], 1), ([1, 5, 9, 13, 17], 0), ([1, 1, 1, 16, 16], 0), ([16], 0)],
)
def test_bend_is_one_for_doubling_and_zero_for_equal_steps(counts, expected):
    assert patching.bend(counts) == pytest.approx(expected)


def test_prefixes_of_a_doubling_model(project):
    add_patching(project, "zoo/made-associative", [1, 2, 4, 8])
    model = LensModel(Tables(project), "zoo/made-associative")
    assert patching.front_bend(model).value > 0.5
    assert patching.splits_apart(model).value == 0
    assert map_label(model) == AA


def test_regions_weigh_both_kinds_of_pairs_equally(project):
    add_patching(
        project, "zoo/made-parity-associative", [1, 1, 2, 4, 8], [1, 8, 8, 8, 8], n=(20, 80)
    )
    model = LensModel(Tables(project), "zoo/made-parity-associative")
    assert patching.plateau(model, "half").value == pytest.approx(0.5)
    assert patching.settled_depth(model, "opposite parity").value == pytest.approx(1 / 4)
    assert map_label(model) == PAA
    cells, n = patching.grid(model, "prefix", "balanced")
    assert n == 100
    assert cells[1, 3] == pytest.approx(0.5)


def test_errors_of_balanced_maps_are_those_of_two_halves(project):
    add_patching(project, "zoo/made-associative", [1, 2], n=(16, 64), spread=0.4)
    model = LensModel(Tables(project), "zoo/made-associative")
    assert patching.errors(model, "prefix", "balanced")[0, 0] == pytest.approx(
        1.96 * np.hypot(0.4 / 4, 0.4 / 8) / 2, rel=1e-3
    )


def test_a_model_without_pairs_has_no_number(project):
    add_patching(project, "zoo/made-associative", [1, 2], n=(0, 0))
    with pytest.raises(Missing):
        patching.front_bend(LensModel(Tables(project), "zoo/made-associative"))


def row(**changed):
    return {"verdict": AA, "cutoff": 10, "parity_cutoff": 10, "length": 20, "longest": 40,
            "accuracy": 0.5, "step": 100, "early_step": 50, "early_verdict": AA, "early_cutoff": 5,
            "early_parity_cutoff": 5, "taught_parity": False, "parity_lead": 0.0, "study": "made",
            "regime": "scratch", "model": "gpt2", "width": 64} | changed  # fmt: skip


def test_cutoffs_are_equal_to_five_percent_and_within_training():
    models = [row(), row(cutoff=40, parity_cutoff=42), row(parity_cutoff=11), row(cutoff=None)]
    assert lengths.cutoffs(models, equal=True).detail == "1 of 2"
    assert lengths.cutoffs(models, equal=False).detail == "1 of 2"


def test_leads_leave_out_models_that_were_taught_parity():
    models = [row(), row(parity_lead=0.4), row(parity_lead=0.9, taught_parity=True)]
    models.append(row(parity_lead=None))
    assert training.leads(models, together=True).detail == "1 of 2"
    assert training.midway_cutoffs(models).n == 3


def test_early_readings_count_models_that_were_trained_on():
    models = [
        row(),
        row(early_verdict=PAA),
        row(verdict=PAA, early_verdict=PAA),
        row(early_step=100),
    ]
    measured = training.early_reading(models)
    assert (measured.n, measured.detail) == (3, "2 of 3 equal")


def test_regimes_are_compared_within_a_model_or_pair_of_studies():
    models = [row(regime="topic-1", model="pythia")] * 3 + [row(verdict=PAA, model="pythia")] * 6
    models += [row(regime="topic-1", verdict=PAA)] * 2
    effect = choice.regime_effect(models, "topic-1")
    assert (effect.n, effect.detail) == (9, "AA 3 of 3 against 0 of 6")
    pairs = [["made", "other"]]
    with pytest.raises(Missing):
        choice.regime_effect(models, "topic-1", pairs)
    moved = [r | {"study": "other"} if r["regime"] == "topic-1" else r for r in models]
    assert choice.regime_effect(moved, "topic-1", pairs).detail == "AA 3 of 5 against 0 of 6"


def test_one_model_of_a_kind_gives_no_interval():
    measured = choice.ahead([row(cutoff=None), row(verdict=PAA), row(verdict=PAA)], "cutoff")
    assert measured.value == 31
    assert measured.text() == "31 (no interval)"
    with pytest.raises(Missing):
        choice.ahead([row()], "cutoff")


def test_a_wrong_measure_or_argument_is_refused():
    with pytest.raises(StatetraceError, match=r"no measure 'patching\.front_bent'"):
        find("patching.front_bent", {})
    with pytest.raises(StatetraceError, match="splitt"):
        find("patching.front_bend", {"splitt": "all"})


def test_selected_rows_count_each_run_once(selection):
    rows = selection.rows({"study": ["tiny-orders", "tiny-split"]})
    assert len(rows) == len({r["run_key"] for r in rows}) == 42
    assert len(selection.rows({"study": "tiny-split"})) == 24


def test_lens_models_show_each_run_at_its_latest(selection):
    folders = [
        m.folder for m in selection.lens_models({"mechanism": "PAA", "size": "paper"}, "patching")
    ]
    assert folders[:2] == ["pythia-160m-parity-associative", "pythia-160m-20k-parity-associative"]
    assert folders[2:4] == ["gpt2-parity-associative", "pythia-160m-second-parity-associative"]
    geometry = selection.lens_models({"mechanism": "PAA", "size": "paper"}, "geometry")
    assert "pythia-160m-earlier-parity-associative" in [m.folder for m in geometry[:2]]
    by_map = selection.lens_models(
        {"mechanism": "AA", "by": "patching", "size": "paper"}, "patching"
    )
    assert [m.name for m in by_map[:3]] == [
        "Pythia-160M, step 70,000", "GPT-2, step 20,000", "GPT-2 after topic-1, seed 0",
    ]  # fmt: skip


def test_a_new_model_arrives_as_a_folder(project):
    add_patching(project, "zoo/new-parity-associative", [1, 1, 2, 4, 8], [1, 8, 8, 8, 8])
    chosen = Selection(Tables(project)).lens_models(
        {"mechanism": "PAA", "size": "small"}, "patching"
    )
    assert "zoo/new-parity-associative" in [m.folder for m in chosen]
