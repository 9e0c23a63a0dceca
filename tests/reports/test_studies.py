"""Figures of a study: shares of mechanisms by factor and size, cutoffs, the length curriculum."""

from itertools import pairwise

import pytest

from statetrace.errors import StatetraceError
from statetrace.reports.figures.study_parameters import study_sizes
from statetrace.reports.figures.study_shares import study_cutoffs, study_proportions
from statetrace.reports.figures.study_stages import study_lengths
from statetrace.reports.files import write_figures
from statetrace.reports.page import report
from tests.reports.made_studies import CURRICULA, LENGTH, SIZES, make_study
from tests.reports.test_page import numbers


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("studies") / "curricula")


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("studies") / "sizes", SIZES)


def test_bars_have_the_shares_and_their_intervals(study):
    chart = study_proportions(study)
    assert [panel.title for panel in chart.panels] == ["model: gpt2", "model: pythia"]
    first = chart.panels[0]
    assert [name for _, name in first.ticks] == ["plain", "<b>topic", "length"]
    for i in range(3):
        assert sum(bar.y[i] for bar in first.marks) == pytest.approx(1)
        places = sorted((bar.x[i] - bar.width / 2, bar.x[i] + bar.width / 2) for bar in first.marks)
        assert all(left[1] <= right[0] + 1e-9 for left, right in pairwise(places))
    half = first.marks[0]
    assert half.y[0] == 0.5
    assert (half.low[0], half.high[0]) == pytest.approx((0.0945, 0.9055), abs=1e-3)  # 1 of 2
    assert "1 of 2" in half.texts[0]
    assert "2 of 2" in half.texts[1]


def test_a_cutoff_beyond_what_was_tried_is_shown_there(study):
    marks = {mark.name: mark for mark in study_cutoffs(study).panels[0].marks}
    assert set(marks["parity-associative (6)"].y) == {17}
    assert marks["associative (6)"].x == marks["associative (6)"].y


def test_shares_by_size_keep_families_apart(sizes):
    panels = {panel.title: panel for panel in study_sizes(sizes).panels}
    assert list(panels) == ["gpt2", "pythia"]
    lines = {line.name: line for line in panels["gpt2"].marks}
    assert lines["associative"].x == [82_000_000, 1_558_000_000]
    assert lines["associative"].y == pytest.approx([2 / 3, 2 / 3], rel=1e-3)
    assert [text for _, text in panels["pythia"].ticks] == ["70M", "1.01B"]
    assert panels["gpt2"].x_range == panels["pythia"].x_range
    by_name = {line.name: line for line in panels["pythia"].marks}
    assert by_name["parity-associative"].y == [1, 1]


def test_the_length_curriculum_by_mechanism(study):
    chart = study_lengths(study)
    titles = [panel.title for panel in chart.panels]
    assert titles == [f"after {n} actions, 4 runs" for n in (2, 4, LENGTH)]
    lines = {mark.name: mark for mark in chart.panels[1].marks if hasattr(mark, "name")}
    # by association from 4 to 8, and not otherwise
    assert lines["associative: state"].y == [1] * 8
    assert lines["parity-associative: state"].y == [1] * 4 + [0.3] * 4
    assert lines["parity-associative: parity"].dash == "dash"


def test_what_a_study_does_not_vary_is_not_drawn(study, sizes):
    with pytest.raises(StatetraceError, match="differ in size only"):
        study_sizes(study)
    with pytest.raises(StatetraceError, match="trained on growing lengths"):
        study_lengths(sizes)


def test_the_page_and_the_files(study, sizes, tmp_path):
    html = report([study])
    assert "12 of 12 runs have finished" in html
    assert "Verdicts: associative 6 of 12, parity-associative 6 of 12." in html
    assert "<b>topic" not in html
    figures = {figure["name"]: figure for figure in numbers(html)["figures"]}
    assert list(figures) == ["study-proportions", "study-cutoffs", "study-lengths"]
    table = figures["study-lengths"]["columns"][0]["states"][0]["tables"][0]
    assert table["head"][2:] == [f"after {n} actions: state / parity" for n in (2, 4, LENGTH)]
    rows = {row[0]: row[1:] for row in table["rows"]}
    far = "beyond 8 / beyond 8"
    assert rows["gpt2_length_seed-0"] == ["associative", "5 / 5", far, far]
    made, missing = write_figures(study, tmp_path / "out", "pdf")
    names = [f"study-{name}.pdf" for name in ("proportions", "cutoffs", "lengths")]
    assert [path.name for path in made] == names
    assert not missing
    made, _ = write_figures(study, tmp_path / "one", "svg", ["study-lengths"])
    assert [path.name for path in made] == ["study-lengths.svg"]
    with pytest.raises(StatetraceError, match="'patching' is unknown; use one of study"):
        write_figures(study, tmp_path / "none", "svg", ["patching"])
    made, _ = write_figures(sizes, tmp_path / "sizes", "svg")
    assert "study-sizes.svg" in [path.name for path in made]


def test_a_study_without_verdicts_says_so(tmp_path):
    empty = make_study(tmp_path / "empty", CURRICULA, unfinished=12)
    with pytest.raises(StatetraceError, match="has a verdict yet"):
        study_proportions(empty)
    figures = numbers(report([empty]))["figures"]
    assert [figure["name"] for figure in figures] == ["study-proportions", "study-cutoffs"]
    assert not any(figure["columns"][0]["states"][0]["views"] for figure in figures)
