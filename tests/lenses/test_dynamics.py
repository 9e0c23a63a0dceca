"""Logs of made-up runs, whose story is known."""

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.lenses.dynamics import dynamics, first_reached, surplus
from statetrace.lenses.parts.changepoints import segments
from statetrace.lenses.specs import DynamicsSpec
from statetrace.runs import Run
from statetrace.tasks.word_problem import word_problem

STEPS = np.arange(0, 2001, 50)


def rising(at, width=150):
    """From 0 to 1 around a step."""
    return 1 / (1 + np.exp(-(STEPS - at) / (width / 4)))


def write(folder, state_known, parity_known, lengths=4):
    """A log in which the state is known with one probability, else parity with another."""
    run = Run(folder)
    folder.mkdir(parents=True)
    run.write_info({"format": 1})
    for i, step in enumerate(STEPS):
        p, q = state_known[i], parity_known[i]
        parity = p + (1 - p) * (q + (1 - q) / 2)
        state = p + (1 - p) * (q / 3 + (1 - q) / 6)
        record = {"kind": "evaluation", "step": int(step), "loss": float(1.8 * (1 - state))}
        record["accuracy_by_length"] = {"state": [state] * lengths, "parity": [parity] * lengths}
        run.append(record)
    return run


def look(run):
    return dynamics(None, word_problem("S3", 4), DynamicsSpec(run=str(run.path)))


def test_parity_first(tmp_path):
    result = look(write(tmp_path / "r", rising(1500), rising(500)))
    assert result.summary["lead"]["parity"]["share"] > 0.5
    starts = result.summary["phases"]
    assert any(350 <= start <= 650 for start in starts)
    assert any(1350 <= start <= 1650 for start in starts)
    reached = {
        (r["what"], r["threshold"]): r["step"] for r in result.rows(measure="reached", length=4)
    }
    assert reached["parity", 0.9] < 700 < 1300 < reached["state", 0.9]


def test_lockstep(tmp_path):
    result = look(write(tmp_path / "r", rising(900), np.zeros(len(STEPS))))
    assert abs(result.summary["lead"]["parity"]["share"]) < 1e-9


def test_what_is_never_reached_is_empty(tmp_path):
    result = look(write(tmp_path / "r", np.zeros(len(STEPS)), rising(500)))
    steps = [row["step"] for row in result.rows(what="state", measure="reached")]
    assert steps == [None] * len(steps)


def test_a_lucky_evaluation_does_not_count():
    steps = np.array([0, 10, 20, 30, 40])
    assert first_reached(steps, np.array([0.1, 0.99, 0.2, 0.99, 0.99]), 0.9) == 30
    assert first_reached(steps, np.array([0.1, 0.1, 0.2, 0.2, 0.99]), 0.9) == 40


def test_surplus_of_a_guesser_is_nothing():
    known = np.linspace(0, 1, 11)
    state, parity = known + (1 - known) / 6, known + (1 - known) / 2
    assert surplus(state, parity, 6, 2) == pytest.approx(np.zeros(11), abs=1e-12)
    assert surplus(np.array([1 / 3]), np.array([1.0]), 6, 2) == pytest.approx([0.4])


@pytest.mark.parametrize("breaks", [[], [20], [15, 40]])
def test_change_points_of_broken_lines(breaks):
    rng = np.random.default_rng(len(breaks))
    slopes = [0.0, 1.0, -0.5]
    pace = np.zeros(60)
    for start, slope in zip([0, *breaks], slopes, strict=False):
        pace[start:] = slope
    series = np.stack([pace.cumsum(), -pace.cumsum()], axis=1) + rng.normal(0, 0.1, (60, 2))
    starts = segments(series, most=6)
    assert len(starts) == len(breaks) + 1
    assert starts == pytest.approx([0, *breaks], abs=2)


def test_too_little_to_see(tmp_path):
    run = Run(tmp_path)
    run.write_info({"format": 1})
    assert "needs two or more" in look(run).notes[0]
    with pytest.raises(StatetraceError, match="holds no run"):
        look(Run(tmp_path / "nowhere"))
