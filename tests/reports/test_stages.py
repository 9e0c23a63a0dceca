"""What each stage of a curriculum left behind, from the log of a run."""

import json
import shutil

import pytest

from statetrace.errors import StatetraceError
from statetrace.reports.figures.after_stages import stages
from statetrace.reports.figures.chart import Band, Line, ReferenceLine
from statetrace.reports.files import write_figures
from statetrace.reports.page import report
from statetrace.reports.run_results import newest, stage_names
from tests.reports.made_studies import make_study
from tests.reports.test_page import numbers


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("staged") / "study") / "cells"


def marks(panel, kind):
    return [mark for mark in panel.marks if isinstance(mark, kind)]


def test_a_panel_for_each_stage_and_one_over_all_steps(cells):
    chart = stages(newest(cells / "pythia_length_seed-0"))
    titles = [panel.title for panel in chart.panels]
    assert titles == ["after 2 actions", "after 4 actions", "after 8 actions", "over all stages"]
    state, parity = marks(chart.panels[0], Line)
    assert state.y == [1, 1, *[0.3] * 6]
    assert parity.y == [1, 1, *[0.6] * 6]
    assert [band.start for band in marks(chart.panels[0], Band)] == [2.5]
    assert not marks(chart.panels[2], Band), "the last stage trains on all lengths"
    assert {rule.at for rule in marks(chart.panels[0], ReferenceLine)} == {3}
    steps = marks(chart.panels[3], Line)[0]
    assert steps.x == [10, 20, 30], "the steps of a stage come after those of the one before it"
    assert [rule.at for rule in marks(chart.panels[3], ReferenceLine)] == [10, 20]


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([("state", 10), ("state", 25), ("state", None)], ["10 actions", "25 actions"]),
        ([("topic", None), ("state", None)], ["topic", "state"]),
        ([("parity", 5), ("state", None)], ["parity of 5 actions", "state of 100 actions"]),
        ([("state", None), ("state", None)], ["stage 1: state", "stage 2: state"]),
        ([("topic", None), ("parity", None), ("topic", None)], ["stage 1: topic"]),
    ],
)
def test_stages_are_told_apart(chain, expected):
    given = [{"objective": objective, "length": length} for objective, length in chain]
    names = stage_names(given, 100)
    assert names[: len(expected)] == expected
    assert len(set(names)) == len(chain)


def test_only_runs_with_stages_have_it(cells, run, tmp_path):
    empty = tmp_path / "empty"
    shutil.copytree(cells / "gpt2_length_seed-0", empty)
    (empty / "metrics.jsonl").unlink()
    with pytest.raises(StatetraceError, match="has no evaluations"):
        stages(newest(empty))
    with pytest.raises(StatetraceError, match="was not trained here"):
        stages(newest(run))
    with pytest.raises(StatetraceError, match="in one stage"):
        stages(newest(cells / "gpt2_plain_seed-0"))
    alone = numbers(report([run]))["figures"]
    assert "stages" not in [figure["name"] for figure in alone]
    both = {p["name"]: p for p in numbers(report([run, cells / "gpt2_length_seed-0"]))["figures"]}
    mine, theirs = (column["states"][0] for column in both["stages"]["columns"])
    assert "was not trained here" in mine["missing"]
    assert theirs["tables"][0]["rows"][0] == ["2 actions", "5", "5"]


def test_it_is_a_file_too(cells, tmp_path):
    made, _ = write_figures(cells / "gpt2_length_seed-0", tmp_path, "svg", ["stages"])
    assert [path.name for path in made] == ["stages.svg"]
    made, missing = write_figures(cells / "gpt2_length_seed-0", tmp_path, "svg")  # no lens yet
    assert [path.name for path in made] == ["stages.svg"]
    assert not missing


def test_a_damaged_log_is_a_line_and_not_a_crash(cells, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(cells / "gpt2_length_seed-0", bad)
    record = {"kind": "evaluation", "step": 1, "stage": "1-state"}
    (bad / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    figures = {figure["name"]: figure for figure in numbers(report([bad]))["figures"]}
    assert figures["stages"]["columns"][0]["states"][0]["missing"].startswith("The log is not as")
