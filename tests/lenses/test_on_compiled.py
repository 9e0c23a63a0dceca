"""Lenses on models whose algorithm is known, against what the algorithm's table predicts.

The pairs of a patching grid and of a signature are the same for equal seeds, so every cell of
every pair can be compared, not just means.
"""

from functools import cache

import numpy as np
import pytest

from statetrace.interventions.spec import GridSpec
from statetrace.lenses.attention import attention
from statetrace.lenses.compiled import task_of
from statetrace.lenses.generalization import generalization
from statetrace.lenses.geometry import geometry
from statetrace.lenses.patching import patching
from statetrace.lenses.probing import probing
from statetrace.lenses.specs import (
    AttentionSpec,
    GeneralizationSpec,
    GeometrySpec,
    PatchingSpec,
    ProbingSpec,
)
from statetrace.mechanisms.signatures import signature
from statetrace.models.compiled import CompileSpec, compile_model
from tests.models.compiled.cases import program, program_rows

WHERE = {"prefix": "prefix", "suffix": "suffix", "window1": "window"}  # signature -> grid
SCANS = [
    CompileSpec(algorithm="associative", length=16),
    CompileSpec(algorithm="associative", length=11, parity="hidden", start_marker=False),
    CompileSpec(algorithm="associative", length=8, before=1, between=1, after=2, heads=3),
    CompileSpec(algorithm="associative", length=8, group="S4", basis="plain"),
    CompileSpec(algorithm="associative", length=6, group="A5"),
    CompileSpec(algorithm="sequential", length=9),
    CompileSpec(algorithm="sequential", length=6, notation="receives", between=1),
    CompileSpec(algorithm="sequential", length=6, group="S4", parity="hidden"),
    CompileSpec(algorithm="strided", length=9, stride=2, parity="hidden"),
    CompileSpec(algorithm="chunked", length=8, stride=3, start_marker=False, between=1),
]
COUNTS = [
    CompileSpec(algorithm="parity-associative", length=16),
    CompileSpec(algorithm="parity-associative", length=9, counter="average", start_marker=False),
    CompileSpec(algorithm="parity-associative", length=8, before=1, between=1, after=1),
    CompileSpec(algorithm="parallel", length=10, counter="average"),
    CompileSpec(algorithm="parallel", length=7, counter="average", start_marker=False, after=1),
]


def name(spec):
    return f"{spec.algorithm}-{spec.group}-{spec.length}"


@cache
def patched(spec, pairs=60, seed=0):
    """(where, metric) -> [rows, columns, pairs], and the prediction at the model's own rows."""
    grids = tuple(GridSpec(where, "substitution") for where in WHERE.values())
    asked = PatchingSpec(pairs=pairs, grids=grids, seed=seed)
    result = patching(compile_model(spec), task_of(spec), asked)
    assert (result.summary["accuracy"], result.summary["pairs_left_out"]) == (1.0, 0)
    values = {
        (where, metric): result.arrays[f"{where}-substitution-resid.{metric}"]
        for where in WHERE
        for metric in ("nld", "probability")
    }
    expected = signature(program(spec), task_of(spec).group, spec.length, pairs=pairs, seed=seed)
    parity = task_of(spec).group.parity
    ends = [result.arrays[f"{which}_state"] for which in ("clean", "corrupted")]
    splits = {"all": np.ones(len(ends[0]), dtype=bool)}
    if parity is not None:
        splits["same"] = parity[ends[0]] == parity[ends[1]]
        splits["opposite"] = ~splits["same"]
    assert {split: chosen.sum() for split, chosen in splits.items()} == expected.pairs
    return values, expected, splits


def predicted(expected, spec, where, split, columns):
    return expected.patching[where, split][program_rows(spec), :columns]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("spec", SCANS, ids=name)
def test_patching_a_scan_cell_by_cell(spec, where):
    """Patched or not, an answer is the clean one or the corrupted one, for every pair."""
    values, expected, splits = patched(spec)
    probability, log_odds = values[where, "probability"], values[where, "nld"]
    assert ((probability > 0.9) | (probability < 0.1)).all()
    for split, chosen in splits.items():
        grid = predicted(expected, spec, where, split, probability.shape[1])
        assert set(np.unique(grid)) == {0.0, 1.0}
        wanted = np.broadcast_to(grid[..., None], probability[:, :, chosen].shape)
        np.testing.assert_array_equal(probability[:, :, chosen] > 0.9, wanted == 1)
        np.testing.assert_allclose(log_odds[:, :, chosen], wanted, atol=0.01)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("spec", COUNTS, ids=name)
def test_patching_what_counts_parity_cell_by_cell(spec, where):
    """Parity and the rest have equal weight in the answer, as the signature supposes."""
    values, expected, splits = patched(spec)
    cells = values[where, "nld"]
    for split, chosen in splits.items():
        grid = predicted(expected, spec, where, split, cells.shape[1])
        np.testing.assert_allclose(cells[:, :, chosen].mean(-1), grid, atol=0.01)
    cells = values[where, "probability"]
    assert ((cells > 0.9) | (cells < 0.1)).all()


@pytest.mark.parametrize("spec", COUNTS, ids=name)
def test_only_the_whole_prefix_restores_the_other_parity(spec):
    """Same parity: like the scan that follows. Opposite: the last token alone knows its parity."""
    values, expected, splits = patched(spec)
    restored = values["prefix", "probability"] > 0.9
    counted = np.array(program_rows(spec)) > 0
    opposite = restored[:, :, splits["opposite"]]
    assert opposite[~counted].all()
    assert opposite[counted][:, -1].all()
    assert not opposite[counted][:, :-1].any()
    same = predicted(expected, spec, "prefix", "same", spec.length)
    assert 0 < same[counted][:, :-1].mean() < 1
    assert (restored[:, :, splits["same"]] == (same == 1)[..., None]).all()


COMPOSED = [
    CompileSpec(algorithm="composed-quotient", length=8, group=of, **options)
    for of, options in (
        ("S3", {}),
        ("S4", {"start_marker": False, "between": 1}),
        ("D4", {"notation": "receives"}),
    )
]


@pytest.mark.parametrize("spec", COMPOSED, ids=name)
def test_both_scans_of_a_composed_quotient(spec):
    """Opposite parity is settled by the first scan, in the layers of an associative model; the rest
    of the state by the second."""
    values, expected, splits = patched(spec)
    restored = values["prefix", "probability"] > 0.9
    for split in ("same", "opposite"):
        grid = predicted(expected, spec, "prefix", split, spec.length)
        assert (restored[:, :, splits[split]].all(-1) == (grid == 1)).all()
    fronts = [int(row.all(-1).argmax()) + 1 for row in restored[:, :, splits["same"]]]
    assert sorted(set(fronts)) == [1, 2, 4, 8]
    assert fronts.index(2) > (fronts.index(8) + 1) // 2


PARITY_ASSOCIATIVE = [
    CompileSpec(algorithm="parity-associative", length=length, group=of)
    for of, length in (("S4", 6), ("S5", 5))
]


@pytest.mark.parametrize("spec", PARITY_ASSOCIATIVE, ids=name)
def test_parity_associative_beyond_s3(spec):
    """Which pairs are restored; how unlikely a third answer is differs from the signature's
    one-half, as permutation matrices agree in part."""
    values, expected, splits = patched(spec)
    for where in WHERE:
        restored = values[where, "probability"] > 0.9
        same = predicted(expected, spec, where, "same", restored.shape[1])
        assert set(np.unique(same)) == {0.0, 1.0}
        assert (restored[:, :, splits["same"]] == (same == 1)[..., None]).all()
        grid = predicted(expected, spec, where, "opposite", restored.shape[1])
        assert (restored[:, :, splits["opposite"]].all(-1) == (grid == 1)).all()


def test_the_selective_parallel_model_counts_its_turns_one_after_the_other():
    """Its rows between have no counterpart in the table; the others do."""
    spec = CompileSpec(algorithm="parallel", length=8)
    like = CompileSpec(algorithm="parallel", length=8, counter="average")
    values, _, splits = patched(like)
    grids = tuple(GridSpec(where, "substitution") for where in WHERE.values())
    result = patching(compile_model(spec), task_of(spec), PatchingSpec(pairs=60, grids=grids))
    for where in WHERE:
        got = result.arrays[f"{where}-substitution-resid.nld"]
        for split in ("same", "opposite"):
            here, there = (
                grid[:, :, splits[split]].mean(-1) for grid in (got, values[where, "nld"])
            )
            np.testing.assert_allclose(here[[0, 1, 2, 4, 5]], there[[0, 1, 2, 3, 3]], atol=0.01)


PROBED = [
    CompileSpec(algorithm="associative", length=16),
    CompileSpec(algorithm="associative", length=16, parity="hidden", before=1, start_marker=False),
    CompileSpec(algorithm="sequential", length=10),
    CompileSpec(algorithm="parity-associative", length=16),
    CompileSpec(algorithm="parity-associative", length=9, counter="average"),
    CompileSpec(algorithm="parallel", length=9, counter="average"),
]


@cache
def probed(spec, lengths):
    asked = ProbingSpec(subsets=1, train=1500, test=1500, controls=(), lengths=lengths)
    result = probing(compile_model(spec), task_of(spec), asked)
    expected = signature(program(spec), task_of(spec).group, spec.length, pairs=1)
    return result, expected


@pytest.mark.parametrize("spec", PROBED, ids=name)
def test_probes_read_what_the_table_holds(spec):
    lengths = tuple(sorted({6, 9, spec.length}))
    result, expected = probed(spec, lengths)
    here = np.ix_(program_rows(spec), [length - 1 for length in lengths])
    state = result.arrays["state/none/accuracy"]
    np.testing.assert_allclose(state, expected.state_probe[here], atol=0.06)
    shown = expected.parity_probe["hidden" if spec.parity == "hidden" else "linear"][here]
    parity = result.arrays["parity/none/probability"]
    np.testing.assert_allclose(parity, shown, atol=0.06)
    if spec.parity != "hidden":
        np.testing.assert_allclose(result.arrays["parity/none/accuracy"], shown, atol=0.06)


def test_accuracy_of_a_probe_of_hidden_parity_is_a_coin_per_state():
    """The probe's own probability is one half, whichever state: the label it prefers for a state
    depends on which states its training sequences had a few more of."""
    result, _ = probed(PROBED[1], (6, 9, 16))
    accuracy = result.arrays["parity/none/accuracy"][-1] * 6
    np.testing.assert_allclose(result.arrays["parity/none/probability"][-1], 0.5, atol=0.01)
    np.testing.assert_allclose(accuracy, accuracy.round(), atol=0.25)  # whole states


CUTOFFS = [
    *((CompileSpec(algorithm="associative", length=n, group=of), n + 1, n + 1)
      for n, of in ((8, "S3"), (16, "S3"), (8, "S4"))),
    (CompileSpec(algorithm="associative", length=8, parity="hidden"), 9, 9),
    (CompileSpec(algorithm="associative", length=8, noise=0.005, before=1), 9, 9),
    (CompileSpec(algorithm="sequential", length=8), 9, 9),
    (CompileSpec(algorithm="sequential", length=11, start_marker=False), 12, 12),
    (CompileSpec(algorithm="parity-associative", length=8), 9, None),
    (CompileSpec(algorithm="parity-associative", length=16, counter="average"), 17, None),
    (CompileSpec(algorithm="parity-associative", length=8, group="S4"), 9, None),
    (CompileSpec(algorithm="parallel", length=8), None, None),
    (CompileSpec(algorithm="parallel", length=12, start_marker=False), None, None),
    (CompileSpec(algorithm="parity-only", length=8), 1, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "state", "parity"), CUTOFFS, ids=[name(spec) for spec, *_ in CUTOFFS]
)
def test_cutoffs(spec, state, parity):
    """A scan whose length is a power of two, and a chain, know nothing beyond; a count goes on."""
    asked = GeneralizationSpec(sequences=400, bootstrap=10)
    summary = generalization(compile_model(spec), task_of(spec), asked).summary
    assert summary["longest"] == 2 * spec.length
    cutoff = summary["cutoff"]
    assert (cutoff["state"]["first_below"], cutoff["parity"]["first_below"]) == (state, parity)


def test_a_scan_reaches_the_next_power_of_two():
    spec = CompileSpec(algorithm="associative", length=5)
    asked = GeneralizationSpec(sequences=400, bootstrap=10)
    cutoff = generalization(compile_model(spec), task_of(spec), asked).summary["cutoff"]
    assert cutoff["state"]["first_below"] == 9


LOOK = AttentionSpec(examples=20, ablation_sizes=(1,), ablation_examples=64, controls=2)


@pytest.mark.parametrize("algorithm", ["parity-associative", "parallel"])
@pytest.mark.parametrize("seed", range(3))
def test_the_head_that_counts_parity_is_found_and_needed(algorithm, seed):
    spec = CompileSpec(algorithm=algorithm, length=16, seed=seed, heads=3, before=1)
    summary = attention(compile_model(spec), task_of(spec), LOOK).summary
    assert summary["top_heads"][0]["layer"] == 2  # the first block that is not spare
    assert summary["top_heads"][0]["score"] > 90
    left = {
        (lost["heads"], lost["method"]): summary["accuracy"]["parity"] - lost["drop"]["parity"]
        for lost in summary["ablation"]
    }
    for method in ("zero", "mean"):
        assert left["top 1", method] == pytest.approx(0.5, abs=0.06)
        assert left["control 1", method] == 1.0


def test_the_average_counter_has_no_parity_head():
    spec = CompileSpec(algorithm="parity-associative", length=16, heads=1, counter="average")
    result = attention(compile_model(spec), task_of(spec), LOOK)
    (first,) = result.rows(measure="head score", layer=1)
    assert first["mean"] == 0.0


@pytest.mark.parametrize("between", [0, 1])
@pytest.mark.parametrize("algorithm", ["associative", "parity-associative"])
def test_the_attention_tree_of_a_scan_is_binary(algorithm, between):
    spec = CompileSpec(algorithm=algorithm, length=16, heads=1, between=between)
    summary = attention(compile_model(spec), task_of(spec), LOOK).summary
    edges = [number for number in summary["tree_edges"] if number]
    spans = [span for span in summary["tree_span"] if span is not None]
    assert (summary["tree_distance"], summary["tree_coverage"], summary["tree_depth"]) == (0, 1, 4)
    assert (edges, spans) == ([8, 4, 2, 1], [1, 2, 4, 8])


def test_the_attention_tree_of_the_other_two():
    chain, none = (
        attention(compile_model(spec), task_of(spec), LOOK).summary
        for spec in (
            CompileSpec(algorithm="sequential", length=12, heads=1),
            CompileSpec(algorithm="parallel", length=12, heads=1),
        )
    )
    assert chain["tree_reached"] == list(range(12, 0, -1))
    assert (none["tree_depth"], none["tree_distance"]) == (0, 1)


def shape(spec):
    asked = GeometrySpec(sequences=600, permutations=0, points=0)
    return geometry(compile_model(spec), task_of(spec), asked)


@pytest.mark.parametrize(("start_marker", "seed"), [(True, 0), (True, 1), (False, 0)])
def test_parity_beside_the_rest_is_a_prism(start_marker, seed):
    spec = CompileSpec(
        algorithm="parity-associative", length=16, start_marker=start_marker, seed=seed
    )
    result = shape(spec)
    assert result.summary["prism_last"]["score"] > 0.98
    assert result.summary["prism_last"]["by"] == "then 132"  # the complement times the odd element
    before = [r["value"] for r in result.rows(measure="quotient_accuracy", name="parity")]
    assert before[0] < 0.6
    assert before[1:] == [1.0] * 6


@pytest.mark.parametrize(
    ("parity", "share", "factor"),
    [("linear", 0.2, 1 / 3), ("hidden", 0.0, 0.0)],
)
def test_a_state_register_is_no_prism(parity, share, factor):
    """Six states equally far from one another, or the corners of two triangles with one centre."""
    summary = shape(CompileSpec(algorithm="associative", length=16, parity=parity)).summary
    assert summary["quotient_share"]["parity"] == pytest.approx(share, abs=0.01)
    assert summary["prism_last"]["parity"] == pytest.approx(factor, abs=0.01)
    assert summary["prism_last"]["score"] < 0.2
