"""Trained models evaluated together, as a study does: the same records and verdicts as alone."""

import json
import shutil
from pathlib import Path

import pytest

from statetrace.analysis import Analyzer
from statetrace.runs import Run
from statetrace.studies.evaluate import evaluate_checkpoints

RESULTS = Path(__file__).parents[2] / "results" / "tiny-split" / "cells"
STEP = 6500


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two solve different lengths."""
    folder = tmp_path_factory.mktemp("cells")
    names = ("seed-0", "seed-1", "seed-2")
    return [Run(shutil.copytree(RESULTS / name, folder / name)) for name in names]


def test_together_as_one_by_one(runs):
    alone = [evaluate_checkpoints([run], STEP, "cpu", "standard", store=False)[0] for run in runs]
    assert not any((run.path / "lenses").exists() for run in runs)
    together = evaluate_checkpoints(runs, STEP, "cpu", "standard", store=True)
    assert len({json.dumps(record["evidence"]) for record in alone}) == len(runs)
    for run, one, other in zip(runs, alone, together, strict=True):
        evidence, rounded = other["evidence"], {"abs": 1.5e-4}  # records have four digits
        for lens, numbers in one["evidence"].items():
            assert evidence[lens] == pytest.approx(numbers, **rounded)
        assert other["confidence"] == pytest.approx(one["confidence"], **rounded)
        assert one | {"evidence": evidence, "confidence": other["confidence"]} == other
        stored = Analyzer(run)
        judged = stored.verdict()
        assert "loaded" not in vars(stored)  # from the results in the folder
        assert (judged.mechanism, judged.says) == (other["mechanism"], other["says"])
    quick = evaluate_checkpoints(runs, STEP, "cpu", "quick", store=False)
    for record, other in zip(quick, together, strict=True):
        assert record == {name: other[name] for name in record}
