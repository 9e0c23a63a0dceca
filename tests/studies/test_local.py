"""The local engine: killed workers, killed drivers, and two drivers on one study."""

import os
import signal

from statetrace.studies import supervise
from statetrace.studies.engines.local import LocalPool, default_jobs
from statetrace.studies.folder import Study
from statetrace.studies.survey import Survey
from tests.studies.conftest import (
    SLOWER,
    a_worker_in_the_middle,
    assert_unharmed,
    begin,
    contents,
    look_often,
    prepared,
    study_file,
    wait_for,
)


def test_jobs_follow_cores_and_gpus():
    assert default_jobs(8, 0, None) == 8
    assert default_jobs(8, 2, None) == 2
    assert default_jobs(8, 2, 0.5) == 4
    assert default_jobs(8, 2, 0.3) == 6
    assert default_jobs(4, 8, 0.1) == 4


def test_a_killed_worker_costs_nothing_but_steps(tmp_path, monkeypatch, left_alone):
    look_often(monkeypatch)
    study = prepared(tmp_path, **SLOWER)
    killed = []

    def kill(states):
        found = a_worker_in_the_middle(study) if not killed else None
        if found:
            os.kill(found[1], signal.SIGKILL)
            killed.append(found[0])

    said = []
    states = supervise.supervise(study, LocalPool(study, 2, 0), kill, said.append)
    assert {one.state for one in states} == {"finished"}
    assert killed
    assert any("signal 9" in words for words in said)
    assert study.failures(study.cell(killed[0]))[0]["why"].endswith("died")
    assert_unharmed(study, left_alone)


def test_two_drivers_one_of_them_killed_and_status_from_a_third_terminal(tmp_path, left_alone):
    file, out = study_file(tmp_path, seeds=4, **SLOWER), tmp_path / "study"
    drivers = [begin(file, "--out", out, "--jobs", 1) for _ in range(2)]
    try:
        study = wait_for(lambda: (out / "study.json").exists() and Study(out))
        found = wait_for(
            lambda: a_worker_in_the_middle(study) or any(d.poll() is not None for d in drivers)
        )
        assert found is not True, [d.communicate()[0] for d in drivers if d.poll() is not None]
        status = begin("status", out)
        running = {one.cell.name for one in Survey(study).look() if one.state == "running"}
        told, _ = status.communicate(timeout=600)
        assert status.returncode == 0, told
        assert running
        assert "of 4 cells have ended" in told
        assert all(f"seed-{n}" in told for n in range(4))
        drivers[0].kill()
        words, _ = drivers[1].communicate(timeout=600)
        assert drivers[1].returncode == 0, words
    finally:
        for driver in drivers:
            driver.kill()
            driver.communicate()
    assert contents(left_alone).items() <= contents(study).items()
    sessions = [len(study.run(cell).info["sessions"]) for cell in study.plan.cells]
    claims = [len(list((out / "claims").glob(f"{c.name}.*"))) for c in study.plan.cells]
    # an early look makes two sittings; the killed driver's worker stopped at most one cell between
    assert sum(sessions) <= 2 * 4 + 1
    assert sum(claims) <= 4 + 1
    assert (out / "results.csv").exists()
