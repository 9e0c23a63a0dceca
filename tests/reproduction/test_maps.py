"""Numbers of patching maps, from made-up ones and from algorithms that run."""

import numpy as np
import pytest

from reproduction.measures import heat_maps as of_maps
from reproduction.measures import patching as of_patching
from reproduction.results import Results
from statetrace.mechanisms.signatures import signature
from tests.reproduction.made import write_csv, write_json, write_patching


def test_deletion_maps():
    cells = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.2, 0.1], [0.1, -0.9, 0.0, 0.0]])
    assert of_maps.ignored_suffix(cells)[0] == 2 / 4


@pytest.mark.parametrize(
    ("spacings", "layers"),
    [
        ((1, 2, 4, 8, 16, None), 4),  # hierarchically, as the algorithm has it
        ((1, 1, 2, 4, None, None), 2),
        ((1, 8, None, None, None, None), 1),
        ((1, None, None, None, None, None), 0),  # all at once
        ((16, 8, 4, 2, 1, 1), 0),  # the wrong way round
    ],
)
def test_single_actions_that_get_sparser(spacings, layers):
    """Every so many actions one counts, with either sign; the last action is not asked."""
    cells = np.zeros((len(spacings), 33))
    cells[:, -1] = 1
    for layer, spacing in enumerate(spacings):
        if spacing:
            cells[layer, :-1:spacing] = (-1) ** layer
    found, words = of_maps.thinning_layers(cells)
    assert found == layers
    assert words.startswith("single actions that count, of 32, by layer: ")


def test_single_actions_deleted_early_and_late(tmp_path):
    """Nine layers of four actions; the last action, and the last layer, do not count."""

    def write(counts):
        rows = [
            {"where": "window", "what": "deletion", "layer": layer, "position": position,
             "split": "all", "metric": "nld", "mean": 9.0, "std": 0.0, "n": 9,
             "median": -1.0 if position < count or position == 3 else 0.1}
            for layer, count in enumerate(counts)
            for position in range(4)
        ]  # fmt: skip
        write_csv(tmp_path / "results/m/patching.csv", rows)
        return [of_patching.alone("m", late)(Results(tmp_path)) for late in (False, True)]

    early, late = write([3, 3, 2, 2, 1, 1, 0, 1, 3])
    assert (early.value, early.n) == (1.0, 3)
    assert (late.value, late.n) == (pytest.approx(1 / 6), 6)
    assert late.words.endswith("layers 6 to 7 of 8, 9 pairs")
    early, late = write([1, 3, 3, 3, 3, 3, 3, 3, 3])
    assert early.value == pytest.approx(1 / 3)
    assert late.value == 1.0


@pytest.mark.parametrize(
    ("fronts", "bend", "leap"),
    [
        ([1, 2, 4, 8, 16], 1, 0.5),  # doubling
        ([1, 1, 2, 4, 8, 16, 16, 16], 1, 0.5),  # beginning late, with layers to spare
        ([1, 16, 16, 16], 0, 15 / 16),  # parallel
        ([1, 6, 11, 16], 0, 5 / 16),  # by equal steps
        ([1, 2, 3, 4, 5], 0, 1 / 16),  # one by one, too few layers
        ([1, 11, 15, 16], -1, 10 / 16),  # by smaller and smaller steps
    ],
)
def test_fronts_of_made_maps(tmp_path, fronts, bend, leap):
    write_patching(tmp_path, "m", fronts, length=16)
    found = Results(tmp_path)
    bent = of_patching.of_grid("m", "prefix", "all", of_maps.front_bend)(found)
    assert (bent.value, bent.n) == (pytest.approx(bend, abs=0.01), 9)
    assert f"layer by layer: {' '.join(map(str, fronts))};" in bent.words
    share = of_patching.of_grid("m", "prefix", "all", of_maps.largest_leap)(found)
    assert share.value == leap
    assert of_patching.apart("m")(found).value == 0


@pytest.mark.parametrize("length", [20, 32, 64, 100])
def test_only_association_bends(length):
    """By running the algorithms; cut off at a length that is no power of 2, doubling bends less."""
    fronts = {
        name: signature(name, "S3", length).restores("opposite" if name == "parallel" else "same")
        for name in ("sequential", "parallel", "associative", "parity-associative")
    }
    bends = {name: of_maps.bend(one) for name, one in fronts.items()}
    assert bends["sequential"] == bends["parallel"] == 0
    assert bends["associative"] == bends["parity-associative"] > 0.7
    if length == 64:
        assert bends["associative"] == 1


def test_pairs_left_out_are_told(tmp_path):
    write_patching(tmp_path, "m", [1, 2, 4, 8])

    def said():
        found = Results(tmp_path)
        every, same = (
            of_patching.of_grid("m", "prefix", split, of_maps.largest_leap)(found)
            for split in ("all", "same parity")
        )
        return every.text(), same.text(), of_patching.deviation("m", "all")(found).words

    assert all("n = 9 pairs" in text for text in said()[:2])
    for without in (0, 3):
        summary = {"pairs_asked": 9 + without, "pairs_left_out": without}
        write_json(tmp_path / "results/m/patching.json", {"summary": summary})
        every, same, deviation = said()
        assert ("n = 9 of 12 pairs" in every) == ("3 of 12 pairs left out" in deviation)
        assert ("n = 9 of 12 pairs" in every) == bool(without)
        assert "n = 9 pairs" in same


def test_regions_of_half_and_of_all(tmp_path):
    """Layer 1 settles parity of eight actions: from then on pairs of opposite parity need all of
    them. What is restored in any model, as all by the whole sequence, does not count."""
    write_patching(tmp_path, "m", [1, 2, 4, 8], opposite=[1, 6, 8, 8])
    found = Results(tmp_path)
    whole = of_patching.restored("m")(found)
    assert (whole.value, whole.words.split(";")[0]) == (1, "over 2 cells")
    half = of_patching.plateau("m")(found)
    assert half.words == "over 8 cells; 9 of 9 pairs have the same parity"
    middle = of_patching.plateau("m", "opposite parity")(found)
    assert (middle.value, middle.words) == (0, "over 8 cells")
    write_patching(tmp_path, "m", [1, 8, 8, 8])
    assert of_patching.restored("m")(Results(tmp_path)).value is None
