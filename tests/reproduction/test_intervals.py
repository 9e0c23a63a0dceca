"""Intervals hold what they should, by made-up numbers whose spread is known."""

import numpy as np
import pytest

from reproduction.export import keep
from reproduction.measures import heat_maps as of_maps
from reproduction.measures import patching as of_patching
from reproduction.measures import probing as of_probing
from reproduction.measures import text as of_text
from reproduction.measures import theory
from reproduction.results import Results
from statetrace.lenses.parts.intervals import median_interval, wilson
from statetrace.lenses.result import LensResult
from statetrace.runs import Run
from tests.reproduction.made import write_csv, write_patching


@pytest.mark.parametrize("n", [1, 2, 7, 30, 200])
def test_the_interval_of_a_median_holds_it(n):
    """Of draws whose median is 0 and whose mean does not exist; at least as often as it says."""
    draws = np.random.default_rng(n).standard_cauchy((2000, n))
    ends = np.array([median_interval(row) for row in draws])
    held = ((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean()
    assert held >= (0.94 if n > 5 else 1 - 2 * 0.5**n - 0.03)
    if n == 200:
        assert held < 0.99  # nor is it wider than it has to be
        assert (ends[:, 1] - ends[:, 0]).mean() < 1


def test_medians_are_kept_with_their_intervals(tmp_path):
    """One wild pair moves neither; pairs of one parity have none."""
    values = np.append(np.arange(99.0), 1e9)
    columns = {
        "where": ["suffix"], "what": ["deletion"], "window": [None], "kind": ["resid"],
        "layer": [0], "head": [None], "position": [0], "split": ["all"], "metric": ["nld"],
        "mean": [1.0], "std": [1.0], "low": [0.0], "high": [2.0], "n": [100],
    }  # fmt: skip
    columns = {k: v + v if k != "split" else ["all", "same parity"] for k, v in columns.items()}
    arrays = {"suffix-deletion-resid.rows": np.array([[0, -1]])}
    arrays |= {"suffix-deletion-resid.nld": values[None, None]}
    Run(tmp_path / "run").write_info({"format": 1})
    LensResult("patching", {}, columns, arrays).save(tmp_path / "run/lenses")
    keep(tmp_path / "run", tmp_path / "results/m")
    one, other = Results(tmp_path).table("results/m/patching.csv")
    low, high = median_interval(values)
    assert (one["median"], one["median_low"], one["median_high"]) == (49.5, low, high)
    assert 35 < low < 45 < 55 < high < 65
    assert other["median"] is other["median_low"] is None


def test_a_map_of_medians_has_an_interval_where_its_cells_have(tmp_path):
    """Of four actions the last two can be deleted; of the second of these that is not sure."""

    def write(**further):
        rows = [
            {"where": "suffix", "what": "deletion", "layer": layer, "position": position,
             "split": "all", "metric": "nld", "mean": 0.0, "std": 0.0, "n": 9, "median": median}
            | {name: ends[position] for name, ends in further.items()}
            for layer in range(3)
            for position, median in enumerate((1.0, 1.0, 0.4, 0.1))
        ]  # fmt: skip
        write_csv(tmp_path / "results/m/patching.csv", rows)
        measure = of_patching.of_grid("m", "suffix", "all", of_maps.ignored_suffix)
        return measure(Results(tmp_path))

    bare = write()
    assert (bare.value, bare.low, bare.high) == (2 / 4, None, None)
    sure = write(median_low=(0.9, 0.9, 0.3, 0.0), median_high=(1.0, 1.0, 0.45, 0.2))
    assert (sure.value, sure.low, sure.high) == (2 / 4, 2 / 4, 2 / 4)
    open_ended = write(median_low=(0.9, 0.4, 0.3, 0.0), median_high=(1.0, 1.0, 0.6, 0.2))
    assert (open_ended.value, open_ended.low, open_ended.high) == (2 / 4, 1 / 4, 3 / 4)


def test_depth_is_as_sure_as_its_layers(tmp_path):
    def rows(off):
        return [
            {"length": length, "layer": layer, "split": "all", "mean": mean, "std": 0.1,
             "low": mean - off if off else None, "high": mean + off if off else None, "n": 50}
            for length, layers in ((2, (1.0, 0.0, 0.0)), (8, (1.0, 1.0, 0.5)))
            for layer, mean in enumerate(layers)
        ]  # fmt: skip

    write_csv(tmp_path / "results/m/depth.csv", rows(0.1))
    found = of_patching.depth_needed("m", "all")(Results(tmp_path))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 0.9, 2.1))
    write_csv(tmp_path / "results/m/depth.csv", rows(None))
    found = of_patching.depth_needed("m", "all")(Results(tmp_path))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))


def test_probabilities_have_at_most_the_interval_of_shares(tmp_path):
    rows = [
        {"target": target, "position": "last", "length": 8, "layer": layer, "metric": metric,
         "mean": value, "std": 0.0, "n": 400, "chance": 0.2}
        for target, metric, values in (
            ("parity", "accuracy", (0.5, 1.0)), ("state", "probability", (0.2, 0.25))
        )
        for layer, value in enumerate(values)
    ]  # fmt: skip
    write_csv(tmp_path / "results/m/probing.csv", rows)
    found = of_probing.once_known("m", "parity", "state")(Results(tmp_path))
    low, high = wilson(np.array(100), 400)
    assert (found.value, found.low, found.high) == (0.25, low, high)
    draws = np.random.default_rng(0).beta(1, 3, (1000, 400)).mean(1)  # probabilities, mean 1/4
    assert ((draws > low) & (draws < high)).mean() > 0.95


def test_means_of_models_have_the_mean_of_their_intervals(tmp_path):
    """One map is sure; in the other the layer in the middle may need two actions or four."""
    write_patching(tmp_path, "text-scratch-0", (1, 2, 3, 4, 8))
    write_patching(tmp_path, "text-scratch-1", (1, 2, 3, 4, 8))
    rows = Results(tmp_path).table("results/text-scratch-1/patching.csv")
    for row in rows:
        if row["layer"] == 2 and row["position"] in (1, 2):
            row |= {"mean": 0.45 + 0.1 * (row["position"] - 1), "std": 0.15}
    write_csv(tmp_path / "results/text-scratch-1/patching.csv", rows)
    found = of_text.mean_of_folders("text-scratch", "patching", of_text.bend_of)(Results(tmp_path))
    two, three, four = (of_maps.bend((1, 2, middle, 4, 8)) for middle in (2, 3, 4))
    assert found.value == pytest.approx(three)
    assert found.low == pytest.approx((three + four) / 2)
    assert found.high == pytest.approx((three + two) / 2)
    assert "over the sequences of each" in found.words


def test_the_plateau_in_theory_is_as_sure_as_its_pairs(tmp_path):
    few, many = (theory.plateau_in_theory(16, pairs)(Results(tmp_path)) for pairs in (50, 500))
    for one in (few, many):
        assert one.low < one.value < one.high
    assert many.high - many.low < (few.high - few.low) / 2
