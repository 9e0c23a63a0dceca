"""The table of training steps and the comparison of loss curves, from made-up files."""

import numpy as np
import pytest

from reproduction.results import Results
from reproduction.speed import LOSSES, STEPS, speed
from statetrace.errors import StatetraceError
from tests.reproduction.made import STEP, write_json


def test_speed_of_made_steps(tmp_path):
    assert speed(Results(tmp_path)) == [
        "## Speed", "", "A training step: not measured.", "", "Loss curves: not measured.", ""
    ]  # fmt: skip
    write_json(tmp_path / STEPS, [STEP, STEP | {"variant": "another run", "ratio": None}])
    rng = np.random.default_rng(0)
    plain, ours = rng.normal(2, 0.1, (2, 3, 100))
    write_json(tmp_path / LOSSES, {"m plain": plain.tolist(), "m ours": ours.tolist()})
    text = "\n".join(speed(Results(tmp_path)))
    assert "| pythia-160m | made up | 10.0 | 500 | 3.0 | 20.0 | a GPU | 2026-01-01 |" in text
    assert "| another run | 10.0 | 500 | 3.0 | – |" in text
    assert "torch 9.9" in text
    assert "10.0 ms, 20.0 times. **reached**" in text
    assert "**agrees**" in text
    write_json(tmp_path / LOSSES, {"m plain": plain.tolist(), "m ours": (ours + 1).tolist()})
    assert "**differs**" in "\n".join(speed(Results(tmp_path)))
    for row in (STEP | {"ms": 14.1}, STEP | {"ratio": 16.9}, STEP | {"ratio": None}):
        write_json(tmp_path / STEPS, [row])
        assert "**not reached yet**" in "\n".join(speed(Results(tmp_path)))
    write_json(tmp_path / STEPS, [STEP | {"ratio": None}, STEP | {"ms": 20.0}])  # not in one run
    assert "**not reached yet**" in "\n".join(speed(Results(tmp_path)))


@pytest.mark.parametrize("field", ["ms", "hardware"])
def test_a_step_that_lacks_something_is_refused(tmp_path, field):
    write_json(tmp_path / STEPS, [STEP, {k: v for k, v in STEP.items() if k != field}])
    with pytest.raises(StatetraceError, match=f"row 1 has no {field}: .*made up"):
        speed(Results(tmp_path))


def test_losses_are_also_put_into_the_range_of_plain_ones(tmp_path):
    """Whatever the rule says of them: half of ours lie between the two plain runs here."""
    ours = [[1.5] * 50 + [9.0] * 50] * 2
    curves = {"m plain": [[1.0] * 100, [2.0] * 100], "m ours": ours}
    write_json(tmp_path / LOSSES, curves)
    said = "\n".join(speed(Results(tmp_path)))
    assert "50% of our windows lie between" in said
    assert "where 33% of runs of one kind would" in said
