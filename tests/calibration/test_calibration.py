"""The calibration set is what the docs say, and the shipped weights and page come from it."""

import dataclasses
import json

import numpy as np
import pytest

from calibration.fitting import fit, halves, judge, quality, report
from calibration.labelled import LENGTHS, label, measured, specs
from statetrace.config.compile_spec import CompileSpec
from statetrace.mechanisms.verdict import LensWeights, calibrated

ELSEWHERE = {"stride", "quotient", "second", "share"}
"""Options of models that are none of the four algorithms."""


@pytest.fixture(scope="module")
def results(request):
    return request.config.rootpath / "results" / "calibration"


def rows_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_two_hundred_models_with_every_option_varied():
    compiled = [spec for spec in specs() if label(spec) != "unlearned"]
    assert len(compiled) >= 200
    assert specs() == specs()
    for field in {each.name for each in dataclasses.fields(CompileSpec)} - ELSEWHERE:
        assert len({getattr(spec, field) for spec in compiled}) > 1, field
    assert {spec.length for spec in compiled} == set(LENGTHS)
    assert {label(spec) for spec in specs()} == {
        "sequential",
        "parallel",
        "associative",
        "parity-associative",
        "unlearned",
    }


def test_the_measures_that_are_kept_are_of_these_models(results):
    rows = rows_of(results / "measures.jsonl")
    known = specs()
    assert len(rows) == len(known)
    for row in rows:
        spec = known[row["number"]]
        kept = CompileSpec(**row["spec"])
        assert kept.noise <= spec.noise + 1e-12  # halved where it was too much
        assert dataclasses.replace(kept, noise=spec.noise) == spec
        assert row["label"] == label(spec)
        assert (row["accuracy"] >= 0.98) == (row["label"] != "unlearned")


def test_one_of_them_measured_again(results):
    """Number 60, an associative model of length 8: the numbers are the same, up to rounding."""
    row = next(row for row in rows_of(results / "measures.jsonl") if row["number"] == 60)
    again = measured(specs()[60])
    assert again["label"] == row["label"]
    for lens in ("depth", "probing"):
        for name, distance in row["measures"][lens].items():
            assert again["measures"][lens][name] == pytest.approx(distance, abs=0.03)


def test_the_shipped_weights_and_page_are_up_to_date(results, request, tmp_path):
    report(rows_of(results / "measures.jsonl"), results / "trained.jsonl", tmp_path)
    made = json.loads((tmp_path / "weights.json").read_text())
    weights, _ = calibrated()
    assert made["count"] == pytest.approx(dict(weights.count), abs=0.01)
    assert made["against"] == pytest.approx(dict(weights.against), abs=0.01)
    page = (request.config.rootpath / "docs" / "calibration.md").read_text()
    assert (tmp_path / "calibration.md").read_text() == page


def row(number, right, wrong, label="associative"):
    names = ["associative", "parity-associative"]
    distances = {"associative": right, "parity-associative": wrong}
    measures = {"algorithms": names, **dict.fromkeys(("patching", "depth", "probing"), distances)}
    return {"number": number, "label": label, "fast": "mixed", "measures": measures}


def test_quality_counts_what_it_says():
    flat = LensWeights(
        dict.fromkeys(("patching", "depth", "probing"), 1.0),
        dict.fromkeys(("patching", "depth", "probing"), 0.01),
        dict.fromkeys(("generalization", "attention", "dynamics"), 1.0),
        0.0,
    )
    good, bad = row(0, 0.0, 0.5), row(1, 0.5, 0.0)
    assert judge(good, flat)[0] == "associative"
    assert judge(bad, flat)[0] == "parity-associative"
    found = quality([good, bad], flat)
    assert found["right"] == 0.5
    assert found["confident_mistakes"] == 1
    assert found["calibration_error"] == pytest.approx(0.5, abs=0.01)
    even, odd = halves([good, bad])
    assert (even, odd) == ([good], [bad])


def test_evidence_that_says_nothing_is_mixed():
    flat = calibrated()[0]
    nothing = row(0, 0.2, 0.2)
    nothing["measures"]["algorithms"] = [
        "sequential",
        "parallel",
        "associative",
        "parity-associative",
    ]
    for lens in ("patching", "depth", "probing"):
        nothing["measures"][lens] = dict.fromkeys(nothing["measures"]["algorithms"], 0.2)
    name, sure = judge(nothing, flat)
    assert name == "mixed"
    assert sure > 0.5


def test_fitting_finds_the_lens_that_tells():
    """Where only depth knows the answer, depth gets the most weight."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(40):
        label = ("associative", "parity-associative")[number % 2]
        one = row(number, 0.2, 0.2, label)
        for lens in ("patching", "probing"):
            one["measures"][lens] = {k: float(rng.uniform(0.1, 0.3)) for k in one["measures"][lens]}
        depth = {k: 0.1 if k == label else 0.3 for k in one["measures"]["depth"]}
        one["measures"]["depth"] = depth
        rows.append(one)
    weights = fit(rows)
    assert weights.count["depth"] > 1.5 * weights.count["patching"]
    assert weights.count["depth"] > 1.5 * weights.count["probing"]
