"""When a study will be done."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from statetrace.cli import study_view
from statetrace.studies import leases
from statetrace.studies.grid import Cell
from statetrace.studies.survey import CellState, Survey, remaining_seconds
from tests.studies.conftest import prepared


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


def test_the_pace_of_a_cell_that_was_resumed_in_its_second_stage(tmp_path):
    """20 of its 30 + 30 steps were done in the current session, which is 40 seconds old."""
    stages = '[grid.regime.chain]\nstages = [{objective = "parity"}, {objective = "state"}]'
    study = prepared(tmp_path, seeds=1, grid=stages)
    cell = study.plan.cells[0]
    started = (datetime.now(UTC) - timedelta(seconds=40)).isoformat()
    session = {"started": started, "from_step": 5, "from_stage": "2-state"}
    run = study.run(cell)
    run.write_info({"sessions": [session]})
    run.append({"kind": "training", "step": 25, "stage": "2-state"})
    with leases.take(study.path / "claims", cell.name):
        (state,) = Survey(study).look()
    assert (state.step, state.planned) == (55, 60)
    assert state.pace == pytest.approx(2.0, abs=0.5)


def test_the_pace_of_a_finished_cell_counts_all_its_sessions(tmp_path):
    study = prepared(tmp_path, seeds=1)
    cost = {"seconds": 90.0}  # 80 of them before its worker died
    study.end(study.plan.cells[0], "finished", {"final": {}, "cost": cost, "seconds": 10.0})
    (state,) = Survey(study).look()
    assert state.pace == 90.0 / state.planned
