"""Figures and the page from results in memory, without a run folder."""

import pytest

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.reports.figures.catalogue import CATALOGUE, figures_of
from statetrace.reports.page import report, write_report
from statetrace.reports.run_results import RunResults, newest
from tests.reports.made import VERDICT
from tests.reports.test_page import numbers, visible


@pytest.fixture(scope="module")
def memory(run):
    """The results of a run folder, loaded and without their folder."""
    results = newest(run).all()
    return RunResults(results, group("S3"), 6, "mine", verdict=VERDICT)


def test_every_figure_of_a_lens_is_the_same_as_from_the_folder(run, memory):
    folder = newest(run)
    measured = folder.all()
    entries = [entry for entry in CATALOGUE if entry.lens in measured]
    assert len(entries) >= 10
    for entry in entries:
        first, second = (next(iter(entry.views(results)))[1]() for results in (folder, memory))
        assert first.rows() == second.rows()


def test_the_page_is_written_and_names_missing_lenses(memory, tmp_path):
    partial = RunResults([memory.need("patching")], group("S3"), 6, "part")
    size = write_report([memory, partial], tmp_path / "report.html")
    assert size > 1_000_000
    figures = {figure["name"]: figure for figure in numbers(report([memory, partial]))["figures"]}
    mine, part = (column["states"][0] for column in figures["probes"]["columns"])
    assert mine["views"]
    assert (part["missing"], part["command"]) == (
        "No probing results yet.",
        'model.analyze(["probing"])',
    )
    assert "model.verdict()" in visible(report([partial]))


def test_missing_results_say_how_to_compute_them():
    empty = RunResults([], group("S3"), 6)
    with pytest.raises(StatetraceError, match=r"no depth results yet; `model.analyze"):
        empty.need("depth")
    assert empty.about == "S3, length 6"


def test_the_catalogue_lists_the_figures_of_a_lens():
    assert [entry.name for entry in figures_of("probing")] == ["probes", "probes-by-length"]
    assert [entry.lens for entry in figures_of("of-a-plug-in")] == ["of-a-plug-in"]


def test_a_chart_has_a_short_repr_and_saves_itself(memory, tmp_path):
    chart = figures_of("patching")[0].draw(memory)
    assert repr(chart).startswith("<Chart patching: prefix substitution, all pairs")
    assert len(repr(chart)) < 100
    for suffix in ("png", "pdf", "svg"):
        chart.save(str(tmp_path / f"chart.{suffix}"))
        assert (tmp_path / f"chart.{suffix}").stat().st_size > 1000
