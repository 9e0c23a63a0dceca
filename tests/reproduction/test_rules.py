"""Rules come out either way, and measurements are what made-up results say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from reproduction.claim import Claim, answer, settings, size
from reproduction.export import keep
from reproduction.measured import Measured, of_correlation, of_deviation, share_of
from reproduction.measures import heads as of_heads
from reproduction.measures import probing as of_probing
from reproduction.measures import studies as of_studies
from reproduction.results import Results
from reproduction.rules import (
    AGREES,
    DIFFERS,
    NOT_REACHED,
    AtLeast,
    AtMost,
    Inside,
    Near,
    Unmeasured,
    judge,
)
from reproduction.speed import LOSSES, speed
from reproduction.stages import rows as stages_of
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.lenses.result import LensResult
from statetrace.runs import Run
from tests.reproduction.made import write_csv, write_json, write_study

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
