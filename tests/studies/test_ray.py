"""The Ray engine on a real local cluster, with a worker killed in the middle."""

import os
import signal

import pytest

from statetrace.errors import StatetraceError
from statetrace.studies import supervise
from statetrace.studies.engines import make_pool
from tests.studies.conftest import a_worker_in_the_middle, contents, prepared, undisturbed


def test_a_killed_ray_worker_costs_nothing_but_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "POLL", 0.02)
    whole = undisturbed(tmp_path, seeds=3)
    study = prepared(tmp_path, seeds=3)
    killed, said = [], []

    def kill(states):
        found = a_worker_in_the_middle(study) if not killed else None
        if found:
            os.kill(found[1], signal.SIGKILL)
            killed.append(found)

    pool = make_pool("ray", study, 2, None, None)
    assert pool.size == 2
    states = supervise.supervise(study, pool, kill, said.append)
    assert {one.state for one in states} == {"finished"}
    assert killed
    (name, pid) = killed[0]
    assert pid != os.getpid()
    assert any("WorkerCrashed" in words for words in said), said
    assert study.outcome(study.cell(name))["tries"] == 2
    assert contents(study) == contents(whole)


@pytest.mark.parametrize(
    ("about", "words"),
    [
        (("dask", None, None, None), "engine 'dask' is unknown; use one of local, ray"),
        (("local", 0, None, None), "jobs 0 is too few"),
        (("local", None, 1.5, None), "gpus_per_run 1.5 is no share"),
        (("local", None, None, "auto"), "address 'auto' is for --engine ray"),
    ],
)
def test_refused(tmp_path, about, words):
    engine, jobs, share, address = about
    with pytest.raises(StatetraceError, match=words):
        make_pool(engine, prepared(tmp_path), jobs, share, address)
