"""Figures of a study: shares of mechanisms by factor, and cutoffs."""

from itertools import pairwise

import pytest

from statetrace.errors import StatetraceError
from statetrace.report.figures import study_cutoffs, study_proportions, study_shares
from statetrace.report.files import write_figures
from statetrace.report.page import report
from tests.report.test_page import numbers


def row(family, regime, seed, verdict, cutoff, parity):
    return {
        "cell": f"{family}_{regime}_{seed}",
        "state": "finished",
        "family": family,
        "regime": regime,
        "seed": seed,
        "verdict": verdict,
        "cutoff": cutoff,
        "parity_cutoff": parity,
        "longest": 48,
        "parity_accuracy": 0.9,
    }


ROWS = [
    row("gpt2", "plain", 0, "associative", 26, 26),
    row("gpt2", "plain", 1, "parity-associative", 25, None),
    row("gpt2", "<b>topic", 0, "associative", 30, 30),
    row("pythia", "plain", 0, "parity-associative", 20, 40),
]


@pytest.fixture
def study(tmp_path, monkeypatch):
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.json").write_text("{}")
    monkeypatch.setattr(study_shares, "study_rows", lambda path: (ROWS, ["family", "regime"]))
    return folder


def test_bars_stand_on_each_other_and_fill_the_whole(study):
    chart = study_proportions(study)
    assert [panel.title for panel in chart.panels] == ["family: gpt2", "family: pythia"]
    first = chart.panels[0]
    assert [name for _, name in first.ticks] == ["plain", "<b>topic"]
    for i in range(2):
        bars = sorted((bar.start[i], bar.start[i] + bar.y[i]) for bar in first.marks)
        assert bars[0][0] == 0
        assert bars[-1][1] == pytest.approx(1)
        assert all(low[1] == pytest.approx(high[0]) for low, high in pairwise(bars))
    assert "1 of 2" in first.marks[0].texts[0]


def test_a_cutoff_beyond_what_was_tried_is_shown_there(study):
    marks = {mark.name: mark for mark in study_cutoffs(study).panels[0].marks}
    assert sorted(marks["parity-associative"].y) == [40, 49]
    assert marks["associative"].x == marks["associative"].y


def test_the_page_and_the_files(study, tmp_path):
    html = report([study])
    assert "4 of 4 runs have finished" in html
    assert "<b>topic" not in html
    names = [figure["name"] for figure in numbers(html)["figures"]]
    assert names == ["study-proportions", "study-cutoffs"]
    made, missing = write_figures(study, tmp_path / "out", "pdf")
    assert [path.name for path in made] == ["study-proportions.pdf", "study-cutoffs.pdf"]
    assert not missing


def test_a_study_without_verdicts_says_so(study, monkeypatch):
    monkeypatch.setattr(study_shares, "study_rows", lambda path: ([], ["family"]))
    with pytest.raises(StatetraceError, match="has a verdict yet"):
        study_proportions(study)
    assert not any(f["cells"][0]["shots"][0]["views"] for f in numbers(report([study]))["figures"])
