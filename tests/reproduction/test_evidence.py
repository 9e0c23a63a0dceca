"""Rows about what single lenses say of many models, from files made up for the purpose."""

import csv
import json

import pytest

from reproduction.claim import answer
from reproduction.claims import CLAIMS
from reproduction.measures import evidence
from reproduction.results import Results
from reproduction.rules import AGREES, DIFFERS, NOT_REACHED, judge
from tests.reproduction.made import write_csv, write_json

AA, PAA = "associative", "parity-associative"
NAMED = {claim.name: claim for claim in CLAIMS}


def run_of(width, **stage):
    recipe = {
        "task": {"group": "S3", "length": 12},
        "model": {"name": "gpt2", "layers": 4, "width": width},
        "stage": [stage] if stage else [],
    }
    return {"format": 1, "recipe": recipe}


def add_study(root, name, cells):
    """Cells: name -> (verdict, run, numbers by lens)."""
    folder = root / "results" / name
    (folder / "runs").mkdir(parents=True)
    about = {"state": "finished", "group": "S3", "length": 12, "model": "gpt2", "layers": 4,
             "width": 8, "step": 100, "steps": 100, "confidence": 0.9}  # fmt: skip
    rows = [{"cell": cell, "verdict": verdict, **about} for cell, (verdict, _, _) in cells.items()]
    lines = [
        {"cell": cell, "step": 100, "lens": lens, "of": of, "value": value}
        for cell, (_, _, numbers) in cells.items()
        for lens, values in numbers.items()
        for of, value in values.items()
    ]
    for file, table in (("results.csv", rows), ("evidence.csv", lines)):
        with (folder / file).open("w", newline="") as out:
            writer = csv.DictWriter(out, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    for cell, (_, run, _) in cells.items():
        (folder / "runs" / f"{cell}.json").write_text(json.dumps(run))


def seen(patching=AA, probing=AA, score=40.0, lost=0.0, lead=0.02, close=0.1):
    """What lenses say of one model: `close` is how much nearer the nearer mechanism is."""
    distances = {
        lens: {name: 0.1 if name == nearer else 0.1 + close for name in (AA, PAA)}
        for lens, nearer in (("patching", patching), ("probing", probing))
    }
    head = {"score": score, "by chance": 45.0, "parity lost": lost}
    return {**distances, "attention": head, "dynamics": {"parity lead": lead}}


@pytest.fixture
def found(tmp_path):
    taught = run_of(5, objective="state", auxiliary="parity")
    cells = {
        "a": (AA, run_of(1), seen()),
        "b": (AA, run_of(2), seen(score=60.0, lead=0.3)),
        "c": (PAA, run_of(3), seen(PAA, PAA, score=90.0, lost=30.0, lead=0.5)),
        "d": (PAA, run_of(4), seen(PAA, AA, score=90.0, lead=0.5, close=0.001)),
        "e": (PAA, taught, seen(PAA, PAA, lead=0.9)),
    }
    add_study(tmp_path, "tiny", cells)
    add_study(tmp_path, "tiny-control", {"again": cells["a"]})
    folder = tmp_path / "results" / "calibration"
    (folder / "runs").mkdir(parents=True)
    of = {"patching": {AA: 0.2, PAA: 0.1}, "probing": {AA: 0.2, PAA: 0.1}}
    row = {"name": "kept", "label": PAA, "measures": of | {"attention": 0.7, "dynamics": 0.05}}
    unknown = {"name": "unknown", "label": AA, "measures": of | {"attention": 0.5}}
    (folder / "trained.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(unknown)}\n")
    (folder / "runs" / "kept.json").write_text(json.dumps(run_of(6)))
    return Results(tmp_path)


def test_a_model_counts_once_and_only_with_its_run(found):
    there = evidence.models(found)
    assert (
        len(there) == 6
    )  # five cells and one of the calibration: "again" is "a", unknown has none
    assert [one.mechanism for one in there].count(AA) == 2
    assert {one.source for one in there} == {
        "results/calibration/trained.jsonl", "results/tiny/evidence.csv",
    }  # fmt: skip


def test_lenses_agree_where_both_can_tell(found):
    """The one that is as near to either is not counted, nor is a parallel model."""
    said = evidence.lenses_agree(found)
    assert (said.value, said.n) == (1, 5)
    assert "1 more of 6 are as near to either" in said.words


def test_lenses_that_do_not_agree(tmp_path):
    cells = {
        "a": (AA, run_of(1), seen()),
        "b": (PAA, run_of(2), seen(PAA, AA, lead=0.5)),
        "c": ("parallel", run_of(3), seen(PAA, AA, lead=0.5)),
    }
    add_study(tmp_path, "tiny", cells)
    said = evidence.lenses_agree(Results(tmp_path))
    assert (said.value, said.n) == (0.5, 2)
    assert "0 more of 2" in said.words
    assert said.words.endswith("sides with patching in 1 of 1")


def test_heads_by_what_they_score_beyond_chance(found):
    """A claim about all models hangs on the one that fits it least."""
    most, least = (evidence.head_surplus(AA, extreme)(found) for extreme in (max, min))
    assert (most.value, least.value, most.n) == (15, -5, 2)
    assert "above chance in 1 of 2, by 30 points, as the verdict asks, in 0" in most.words
    assert judge(NAMED["aa-no-heads"].rule, most) == DIFFERS
    assert judge(NAMED["aa-no-heads"].rule, least) == AGREES
    assert judge(NAMED["paa-heads"].rule, evidence.head_surplus(PAA, min)(found)) == DIFFERS  # e's
    assert evidence.head_surplus("sequential", max)(found).value is None


def test_heads_that_are_needed(found):
    """The paper removes none, so that nothing is judged."""
    claim = NAMED["heads-needed"]
    said = claim.measure(found)
    assert (said.value, said.n) == (pytest.approx(1 / 3), 3)  # c; not d, not e
    assert judge(claim.rule, said) == NOT_REACHED


def test_the_log_of_those_that_were_not_taught_parity(found):
    together = evidence.share(lambda one: one.together, lambda one: one.logged, AA)(found)
    assert (together.value, together.n) == (0.5, 2)
    phases = evidence.share(lambda one: not one.together, lambda one: one.logged, PAA)(found)
    assert (phases.value, phases.n) == (pytest.approx(2 / 3), 3)  # e was taught it


def test_nothing_kept_is_nothing_measured(tmp_path):
    assert evidence.models(Results(tmp_path)) == []
    assert evidence.lenses_agree(Results(tmp_path)).value is None


def test_heads_of_the_papers_size_model_by_model(tmp_path):
    """Of two PAA models the one with less counts; one of them loses parity with its head."""
    for name, score, chance, lost in (
        ("gpt2-parity-associative", 60.0, 45.0, 0.3),
        ("pythia-160m-parity-associative", 90.0, 45.0, 0.01),
    ):
        head = {"measure": "head score", "name": "parity", "layer": 1, "head": 0, "mean": score,
                "std": 1.0, "low": score - 2, "high": score + 2, "n": 100}  # fmt: skip
        write_csv(tmp_path / "results" / name / "attention.csv", [head])
        ablation = [{"heads": "top 1", "method": "mean", "drop": {"parity": lost}}]
        summary = {"top_score_by_chance": chance, "quotient": "parity", "ablation": ablation}
        write_json(tmp_path / "results" / name / "attention.json", {"summary": summary})
    found = Results(tmp_path)
    one = answer(NAMED["paa-heads"], found)
    assert (one.found.value, one.found.low, one.found.n) == (15, 13, 2)
    assert (one.found.at_size, one.judgement) == (True, AGREES)
    assert one.found.words.endswith("60.0 (45.0), 90.0 (45.0)")
    assert answer(NAMED["heads-needed"], found).found.value == 0.5
    assert answer(NAMED["aa-no-heads"], found).found.value is None
