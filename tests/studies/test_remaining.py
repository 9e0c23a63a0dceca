"""When a study will be done."""

import json

import pytest

from statetrace.cli import study_view
from statetrace.studies.grid import Cell
from statetrace.studies.remaining import remaining_seconds
from statetrace.studies.survey import CellState


def cell(state, step=None, pace=None, planned=100):
    outcome = {"state": state, "final": {}} if state in ("finished", "failed") else None
    return CellState(
        Cell(f"{state}-{step}", {}, {}),
        state,
        step,
        planned,
        outcome=outcome,
        planned=planned,
        pace=pace,
    )


@pytest.mark.parametrize(
    ("states", "seconds"),
    [
        ([cell("waiting"), cell("running", 1)], None),  # nothing to go by
        ([cell("finished", 100, 2.0)], 0.0),
        ([cell("finished", 100, 2.0), cell("waiting")], 200.0),
        ([cell("running", 50, 2.0)], 100.0),
        ([cell("running", 50, 2.0), cell("waiting"), cell("waiting")], 500.0),
        ([cell("running", 50, 1.0), cell("running", 50, 3.0), cell("waiting")], 200.0),
        ([cell("finished", 100, 1.0), cell("waiting", planned=300)], 300.0),
    ],
)
def test_remaining_time(states, seconds):
    assert remaining_seconds(states) == seconds


def test_the_summary_and_the_json_say_it():
    states = (cell("running", 50, 2.0), cell("waiting"))
    assert "; about 5 min left, until " in str(study_view.summary(states))
    about = json.loads(study_view.as_json(states))
    assert about["remaining_seconds"] == 300
    assert [each["state"] for each in about["cells"]] == ["running", "waiting"]
    assert about["until"].startswith("20")
