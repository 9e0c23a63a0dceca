"""Rules come out either way, and measurements are what made-up results say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.signatures import signature
from statetrace.reproduction import of_heads, of_maps, of_patching, of_probing, of_studies
from statetrace.reproduction.claim import Claim, answer, settings, size
from statetrace.reproduction.keep import keep
from statetrace.reproduction.measured import Measured, of_correlation, of_deviation, share_of
from statetrace.reproduction.results import Results
from statetrace.reproduction.rules import (
    AGREES,
    DIFFERS,
    NOT_REACHED,
    AtLeast,
    AtMost,
    Inside,
    Near,
    OneOf,
    Unmeasured,
    judge,
)
from statetrace.reproduction.speed import LOSSES, STEPS, speed
from statetrace.reproduction.stages import rows as stages_of
from statetrace.runs import Run
from statetrace.training.recipe import Recipe
from tests.reproduction.made import STEP, write_csv, write_json, write_patching, write_study

AA, PAA = "associative", "parity-associative"


def number(value, low=None, high=None, n=10):
    return Measured(value, n, "models", low, high)


@pytest.mark.parametrize(
    ("rule", "found", "judgement"),
    [
        (Inside(0.5), number(0.4, 0.2, 0.6), AGREES),
        (Inside(0.5), number(0.1, 0.0, 0.3), DIFFERS),
        (Inside(0.5, least=20), number(0.1, 0.0, 0.3), NOT_REACHED),
        (Inside(0.5), number(0.5), NOT_REACHED),
        (Inside(0.5), number(0.4, 0.0, 0.9), NOT_REACHED),
        (AtLeast(0.5), number(float("nan")), NOT_REACHED),
        (Near(90, 10), number(81.0), AGREES),
        (Near(90, 10), number(79.0), DIFFERS),
        (Near(90, 10), number(85.0, 81.0, 99.0), AGREES),
        (Near(90, 10), number(81.0, 78.0, 84.0), NOT_REACHED),
        (Near(90, 10), number(75.0, 70.0, 79.0), DIFFERS),
        (Near(90, 10), number(90.0, 70.0, 110.0), NOT_REACHED),
        (OneOf((0.5, 1), 0.05), number(0.96), AGREES),
        (OneOf((0.5, 1), 0.05), number(0.87), DIFFERS),
        (AtLeast(0.5), number(0.9, 0.6, 1.0), AGREES),
        (AtLeast(0.5), number(0.2, 0.1, 0.4), DIFFERS),
        (AtLeast(0.5), number(0.6, 0.3, 0.8), NOT_REACHED),
        (AtLeast(0.5), number(0.5), AGREES),
        (AtLeast(0.5, least=11), number(0.9), NOT_REACHED),
        (AtMost(0.1), number(0.1), AGREES),
        (AtMost(0.1), number(0.2, 0.15, 0.3), DIFFERS),
        (AtMost(0.1), number(0.1, 0.05, 0.3), NOT_REACHED),
        (Unmeasured(), number(1.0), NOT_REACHED),
        (AtLeast(0), Measured(None), NOT_REACHED),
    ],
)
def test_rules_both_ways(rule, found, judgement):
    assert judge(rule, found) == judgement


@pytest.mark.parametrize("n", [4, 5, 10, 40])
def test_a_share_is_not_likelier_to_agree_the_farther_away_it_is(n):
    """Wilson's intervals are narrowest at 0 and 1."""
    grades = [judge(Inside(0.4), share_of(count, n, "models", ())) for count in range(n + 1)]
    ours = grades[round(0.4 * n)]
    assert ours == (AGREES if n > 10 else NOT_REACHED)
    assert ours == AGREES or AGREES not in grades


@pytest.mark.parametrize(
    ("verdicts", "judgement"),
    [
        ([AA] * 8 + [PAA] * 8, AGREES),
        ([AA] * 4 + [PAA] * 4, NOT_REACHED),  # 22 to 78%: too wide to say
        ([PAA] * 8, DIFFERS),
        ([AA] * 8, DIFFERS),
        ([AA, PAA, None, None], NOT_REACHED),
        ([None] * 4, NOT_REACHED),
        ([AA] * 8 + [PAA] * 8 + ["unlearned"] * 20, AGREES),
    ],
)
def test_a_claim_about_shares(tmp_path, verdicts, judgement):
    """Half of the models that learned the task are AA: unlearned and waiting ones do not count."""
    write_study(tmp_path, "made", verdicts)
    claim = Claim("x", "§0", "half", "50%", "none.toml", of_studies.share(AA, "made"), Inside(0.5))
    assert answer(claim, Results(tmp_path)).judgement == judgement


def test_a_share_has_its_interval_n_and_file(tmp_path):
    write_study(tmp_path, "made", [AA] * 3 + [PAA] + [None])
    found = of_studies.share(AA, "made")(Results(tmp_path))
    assert found == share_of(
        3, 4, "models", ("results/made/results.csv",), "of 5 planned", found.size
    )
    assert found.size == "gpt2, 6 layers, width 64, S3, length 20"
    assert found.text() == "**75%** (30% to 95%), n = 4 models; 3 of 4; of 5 planned"


def test_ahead_changes_sign(tmp_path):
    def study(better):
        rows = []
        for mechanism in (AA, PAA):
            write_study(tmp_path, "part", [mechanism] * 5)
            rows += [
                row | {"cutoff": (12 if mechanism == better else 8) + i % 2}
                for i, row in enumerate(Results(tmp_path).study("part"))
            ]
        write_csv(tmp_path / "results" / "made" / "results.csv", rows)
        return of_studies.ahead("cutoff", "made")(Results(tmp_path))

    for better, judgement in ((AA, AGREES), (PAA, DIFFERS)):
        assert judge(AtLeast(0), study(better)) == judgement


def test_what_models_knew_at_the_end_of_a_stage(tmp_path):
    """By the last row of a cell; cells of other regimes have none."""
    verdicts = [AA, PAA, AA, PAA]
    write_study(tmp_path, "made", verdicts)
    cells = [row["cell"] for row in Results(tmp_path).study("made")]
    ends = [("1-state", 0.1, 0.1), ("2-state", 1.0, 0.99), ("2-state", 1.0, 0.2)]
    rows = [
        {"cell": cell, "stage": stage, "length": 6, "state": state, "next": 12, "next_state": more}
        for cell, which in zip(cells, ([0, 1], [2], [2]), strict=False)
        for stage, state, more in (ends[number] for number in which)
    ]
    write_csv(tmp_path / "results" / "made" / "stages.csv", rows)

    def goes_on(end, mechanism):
        return (end["next_state"] > 0.9) == (mechanism == AA)

    found = of_studies.after_stage("made", goes_on)(Results(tmp_path))
    assert found.text() == (
        "**67%** (21% to 94%), n = 3 models; 2 of 3; lengths 6 and 12; associative 2; "
        "parity-associative 1"
    )
    assert found.sources == ("results/made/stages.csv", "results/made/results.csv")


def test_stages_of_a_study(tmp_path):
    """Of cells whose sequences become longer: what was right at a stage's end."""
    stages = [{"objective": "state", "length": n, "steps": 10} for n in (2, 4)]
    recipe = Recipe().override({"length": 4, "steps": 20})
    made = {"plain": recipe.to_dict(), "longer": recipe.to_dict() | {"stage": stages}}
    cells = [{"name": name, "recipe": one} for name, one in made.items()]
    write_json(tmp_path / "study.json", {"cells": cells})
    known = {"state": [1.0, 0.9, 0.3, 0.2], "parity": [1.0, 1.0, 0.6, 0.5]}
    lines = [
        {
            "kind": "evaluation",
            "stage": "1-state",
            "accuracy_by_length": {"state": [], "parity": []},
        },
        {"kind": "evaluation", "stage": "1-state", "accuracy_by_length": known},
        {"kind": "training", "stage": "2-state"},
    ]
    log = tmp_path / "cells" / "longer" / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(stages_of(tmp_path)) == [
        {"cell": "longer", "stage": "1-state", "length": 2, "state": 0.9, "parity": 1.0,
         "next": 4, "next_state": 0.2, "next_parity": 0.5}
    ]  # fmt: skip
    with pytest.raises(StatetraceError, match=r"has no study\.json"):
        list(stages_of(tmp_path / "cells"))


@pytest.mark.parametrize(
    ("small", "large", "judgement"),
    [([AA] * 12, [PAA] * 12, DIFFERS), ([PAA] * 12, [AA] * 12, AGREES),
     ([AA, PAA] * 6, [PAA, AA] * 6, NOT_REACHED)],
)  # fmt: skip
def test_gaps_of_a_factor(tmp_path, small, large, judgement):
    """Is AA rarer in the small models?"""
    rows = []
    for width, verdicts in ((64, small), (128, large)):
        write_study(tmp_path, "part", verdicts, width=width)
        rows += Results(tmp_path).study("part")
    write_csv(tmp_path / "results" / "made" / "results.csv", rows)
    found = Results(tmp_path)
    gap = of_studies.share_gap(AA, "made", "width", ("64", "128"), "verdict")(found)
    assert judge(AtMost(0), gap) == judgement


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


def test_probes_and_heads_of_made_tables(tmp_path):
    zoo = tmp_path / "results" / "m"
    rows = [
        {"target": target, "position": position, "length": 8, "layer": layer, "metric": "accuracy",
         "mean": value, "std": 0.01 * layer, "n": 100, "chance": values[0]}
        for position in ("last", "any")
        for target, values in (("state", (0.2, 0.2, 1.0)), ("parity", (0.5, 0.95, 1.0)))
        for layer, value in enumerate(values)
    ]  # fmt: skip
    write_csv(zoo / "probing.csv", rows)
    heads = [{"layer": 1, "head": h, "mean": m, "std": 2.0, "low": m - 1, "high": m + 1, "n": 50}
             for h, m in enumerate((10.0, 90.0, 60.0))]  # fmt: skip
    write_csv(zoo / "attention.csv", heads)
    write_json(
        zoo / "attention.json", {"summary": {"top_score_by_chance": 40.0, "score_ceiling": 105.0}}
    )
    found = Results(tmp_path)
    assert of_probing.best_before_last("m", "parity")(found).value == 0.95
    assert of_probing.read_depth("m", "parity")(found).value == 0.5
    assert of_probing.read_depth("m", "state", 1.1)(found).value is None
    assert of_probing.late_gain("m")(found).value == 1.0
    ahead = of_probing.parity_ahead("m")(found)
    assert ahead.value == pytest.approx(0.9)  # parity is 9/10 of the way up where the state is at 0
    assert ahead.words.endswith("; 0.90 at layer 1 of 2")
    parity, state = (of_probing.wilson(np.array(share * 100), 100) for share in (0.95, 0.2))
    off = math.hypot((parity[1] - parity[0]) / 2 / 0.5, (state[1] - state[0]) / 2 / 0.8)
    assert (ahead.low, ahead.high) == pytest.approx((0.9 - off, 0.9 + off))
    close = [row | {"mean": row["chance"]} for row in rows]  # in which nothing can be read
    write_csv(tmp_path / "results/m-second/probing.csv", close)
    both = of_probing.parity_ahead("m")(Results(tmp_path))  # the one where parity gets furthest
    assert (both.value, both.low, both.n) == (ahead.value, ahead.low, 2)
    assert [of_heads.head_score("m", rank)(found).value for rank in (1, 2, 3)] == [90, 60, 10]


def test_odd_attention_counts_attention(tmp_path):
    """Uniform attention gives odd actions their share; a head that looks at them alone, all."""
    odd = [True, False, True, False]
    uniform = [[1 / (t + 1) if i <= t else 0.0 for i in range(4)] for t in range(4)]
    only = [[float(i == 0) for i in range(4)] for t in range(4)]
    for maps, share in (([uniform], 14 / 27 + 0.0), ([uniform, only], 1.0)):
        drawn = {"maps": maps, "odd": odd, "heads": [[1, 0]] * len(maps)}
        write_json(tmp_path / "results/m/drawn.json", drawn)
        found = of_heads.odd_attention("m")(Results(tmp_path))
        expected = np.mean([1 / 2, 2 / 3, 1 / 2]) if share < 1 else 1.0
        assert found.value == pytest.approx(expected)
        assert found.n == 3


def test_speed_of_made_steps(tmp_path):
    assert speed(Results(tmp_path)) == [
        "## Speed", "", "A training step: not measured.", "", "Loss curves: not measured.", ""
    ]  # fmt: skip
    write_json(tmp_path / STEPS, [STEP, STEP | {"variant": "another run", "ratio": None}])
    rng = np.random.default_rng(0)
    plain, ours = rng.normal(2, 0.1, (2, 3, 100))
    write_json(tmp_path / LOSSES, {"m plain": plain.tolist(), "m ours": ours.tolist()})
    text = "\n".join(speed(Results(tmp_path)))
    assert "| pythia-160m | made up | 10.0 | 500 | 3.0 | 20.0 | a GPU | 2026-01-01 |" in text
    assert "| another run | 10.0 | 500 | 3.0 | – |" in text
    assert "torch 9.9" in text
    assert "10.0 ms, 20.0 times. **reached**" in text
    assert "**agrees**" in text
    write_json(tmp_path / LOSSES, {"m plain": plain.tolist(), "m ours": (ours + 1).tolist()})
    assert "**differs**" in "\n".join(speed(Results(tmp_path)))
    for row in (STEP | {"ms": 14.1}, STEP | {"ratio": 16.9}, STEP | {"ratio": None}):
        write_json(tmp_path / STEPS, [row])
        assert "**not reached yet**" in "\n".join(speed(Results(tmp_path)))
    write_json(tmp_path / STEPS, [STEP | {"ratio": None}, STEP | {"ms": 20.0}])  # not in one run
    assert "**not reached yet**" in "\n".join(speed(Results(tmp_path)))


@pytest.mark.parametrize("field", ["ms", "hardware"])
def test_a_step_that_lacks_something_is_refused(tmp_path, field):
    write_json(tmp_path / STEPS, [STEP, {k: v for k, v in STEP.items() if k != field}])
    with pytest.raises(StatetraceError, match=f"row 1 has no {field}: .*made up"):
        speed(Results(tmp_path))


def test_bad_files_are_named(tmp_path):
    found = Results(tmp_path)
    with pytest.raises(StatetraceError, match=r"'results/none/results\.csv' is missing"):
        found.study("none")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(StatetraceError, match=r"'bad\.json' cannot be read"):
        found.json("bad.json")
    with pytest.raises(StatetraceError, match=r"there is no recipe 'none\.toml'"):
        settings(tmp_path, "none.toml")
    write_json(tmp_path / LOSSES, {"m plain": [[1.0]]})
    with pytest.raises(StatetraceError, match="no curves 'm ours'; it has m plain"):
        speed(Results(tmp_path))


def test_size_follows_what_a_recipe_extends(tmp_path):
    Path(tmp_path / "a.toml").write_text('[settings]\ngroup = "S3"\nlength = 9\nlayers = 2\n')
    Path(tmp_path / "b.toml").write_text('extends = "a.toml"\n[grid]\nmodel = ["x", "y"]\n')
    assert size(tmp_path, "b.toml") == "x / y, 2 layers, S3, length 9"


def test_what_is_kept_of_a_run(tmp_path):
    """Numbers are shortened, places on the machine left out; nothing to keep is told."""
    run = tmp_path / "run"
    info = {"format": 1, "foreign": {"group": "S3", "folder": "/somewhere"}}
    Run(run).write_info(info)
    with pytest.raises(StatetraceError, match="has no results of lenses"):
        keep(run, tmp_path / "kept")
    columns = {"what": ["state"], "length": [3], "accuracy": [1 / 3]}
    LensResult("generalization", {}, columns, summary={"curves": [1], "a": 2 / 3}).save(
        run / "lenses"
    )
    written = keep(run, tmp_path / "kept")
    assert [file.name for file in written] == [
        "run.json", "generalization.json", "generalization.csv"
    ]  # fmt: skip
    assert (tmp_path / "kept/generalization.csv").read_text() == (
        "what,length,accuracy\nstate,3,0.3333\n"
    )
    kept = [json.loads(file.read_text()) for file in written[:2]]
    assert kept[0]["foreign"] == {"group": "S3"}
    assert kept[1]["summary"] == {"a": 0.6667}
    columns |= {"accuracy": [1 / 9]}
    LensResult("geometry", {}, columns).save(run / "lenses")
    LensResult("geometry", {}, columns | {"length": [2]}).save(run / "lenses" / "length-2")
    keep(run, tmp_path / "shorter", length=2)
    assert (tmp_path / "shorter/generalization.csv").exists()
    assert (tmp_path / "shorter/geometry.csv").read_text().endswith("state,2,0.1111\n")
    trees = {
        f"tree{n}_{part}": np.zeros((edges, 3) if part == "edges" else edges)
        for n, edges in enumerate((1, 4, 2))
        for part in ("edges", "weights", "actions")
    }
    LensResult("attention", {"weight": 0.5}, {"measure": []}, trees).save(run / "lenses")
    points = {"pca_means": np.array([[[1.0, 2, 3], [np.nan] * 3]]), "point_states": np.zeros(1)}
    points |= {"pca_points": np.zeros((1, 1, 3))}
    LensResult("geometry", {}, columns, points).save(run / "lenses")
    drawn = json.loads(keep(run, tmp_path / "drawn")[-1].read_text())
    assert len(drawn["tree"]["edges"]) == 4  # the fullest
    assert drawn["tree"]["above"] == 0.5
    assert drawn["last"]["means"] == [[1, 2, 3], None]  # no sequence reached the second state
    older = {"subject": {"step": 3}}
    LensResult("depth", {}, columns, **older).save(run / "lenses")
    LensResult("patching", {}, columns, subject={"step": 4}).save(run / "lenses")
    with pytest.raises(StatetraceError, match="has results of steps 3 and 4"):
        keep(run, tmp_path / "mixed")
    with pytest.raises(StatetraceError, match="length-3' is missing"):
        keep(run, tmp_path / "shorter", length=3)


def test_intervals_of_deviations():
    """Near the exact ones of chi-squared with 9 degrees of freedom, 2.700 and 19.023."""
    low, high = of_deviation(1.0, 10)
    assert low == pytest.approx((9 / 19.023) ** 0.5, rel=0.01)
    assert high == pytest.approx((9 / 2.700) ** 0.5, rel=0.01)
    assert of_deviation(1.0, 1) == (0.0, math.inf)
    assert of_deviation(1.0, 2)[1] == math.inf


def test_intervals_of_correlations():
    """0.5 of 28: Fisher's z is 0.549 with an error of 0.2."""
    assert of_correlation(0.5, 28) == pytest.approx((math.tanh(0.157), math.tanh(0.941)), abs=0.001)
    assert of_correlation(0.9, 3) == (-1.0, 1.0)
    assert of_correlation(1.0, 50)[1] <= 1.0


def test_losses_are_also_put_into_the_range_of_plain_ones(tmp_path):
    """Whatever the rule says of them: half of ours lie between the two plain runs here."""
    ours = [[1.5] * 50 + [9.0] * 50] * 2
    curves = {"m plain": [[1.0] * 100, [2.0] * 100], "m ours": ours}
    write_json(tmp_path / LOSSES, curves)
    said = "\n".join(speed(Results(tmp_path)))
    assert "50% of our windows lie between" in said
    assert "where 33% of runs of one kind would" in said
