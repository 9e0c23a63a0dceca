"""The Ray engine on a real local cluster, with a worker killed in the middle."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from statetrace.errors import StatetraceError
from statetrace.studies import supervise
from statetrace.studies.engines import make_pool
from tests.studies.conftest import (
    SLOWER,
    a_worker_in_the_middle,
    assert_unharmed,
    look_often,
    prepared,
)

DRIVER = """
import json, os, signal, sys
import pytest
from pathlib import Path
from statetrace.studies import supervise
from statetrace.studies.engines import make_pool
from statetrace.studies.folder import Study
from tests.studies.conftest import a_worker_in_the_middle, look_often

study, record = Study.existing(Path(sys.argv[1])), Path(sys.argv[2])
messages = []
look_often(pytest.MonkeyPatch())

def kill(states):
    worker = None if record.exists() else a_worker_in_the_middle(study)
    if worker:
        record.write_text(json.dumps(worker))
        os.kill(worker[1], signal.SIGKILL)

pool = make_pool("ray", study, 2, None, None)
assert pool.size == 2
states = supervise.supervise(study, pool, kill, messages.append)
assert {state.state for state in states} == {"finished"}
print(json.dumps(messages))
"""


@pytest.mark.slow
def test_a_killed_ray_worker_costs_nothing_but_steps(tmp_path, left_alone):
    study, record = prepared(tmp_path, **SLOWER), tmp_path / "killed.json"
    command = [sys.executable, "-c", DRIVER, str(study.path), str(record)]
    root = Path(__file__).parents[2]
    aborted = 0
    while (driver := _run(command, root)).returncode == -signal.SIGABRT and aborted < 5:
        aborted += 1  # Ray's core aborts a driver now and then; the next one continues the study
    assert driver.returncode == 0, driver.stderr
    (name, pid) = json.loads(record.read_text())
    assert pid != os.getpid()
    if not aborted:
        messages = json.loads(driver.stdout.splitlines()[-1])
        assert any("WorkerCrashed" in message for message in messages), messages
    assert study.outcome(study.cell(name))["tries"] >= 2
    assert_unharmed(study, left_alone)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_a_lost_node_and_a_shared_gpu(tmp_path, monkeypatch, left_alone):
    """An existing cluster by its address. Its head runs nothing; its one node has a GPU, as far as
    Ray knows, that two runs share until the node is killed with both of them."""
    look_often(monkeypatch)
    import ray
    from ray.cluster_utils import Cluster

    study = prepared(tmp_path, **SLOWER)
    head = {"num_cpus": 0, "num_gpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(num_cpus=2, num_gpus=1)
    lost, said, shared = [], [], []

    def lose(states):
        shared.append("GPU" in ray.cluster_resources() and "GPU" not in ray.available_resources())
        found = a_worker_in_the_middle(study) if not lost else None
        if found:
            lost.append(found[0])
            cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(num_cpus=2, num_gpus=1)

    try:
        pool = make_pool("ray", study, None, 0.5, cluster.address)
        assert pool.size == 2
        states = supervise.supervise(study, pool, lose, said.append)
    finally:
        cluster.shutdown()
    assert any(shared), "two runs share the GPU"
    assert {one.state for one in states} == {"finished"}
    assert any("died" in words for words in said)
    assert study.failures(study.cell(lost[0]))[0]["why"].endswith("died")
    assert_unharmed(study, left_alone)


@pytest.mark.parametrize(
    ("about", "words"),
    [
        (("dask", None, None, None), "engine 'dask' is unknown; use one of local, ray"),
        (("local", 0, None, None), "jobs 0 is too small"),
        (("local", None, 1.5, None), "gpus_per_run 1.5 is not a share"),
        (("local", None, None, "auto"), "address 'auto' is for --engine ray"),
    ],
)
def test_refused(tmp_path, about, words):
    engine, jobs, share, address = about
    with pytest.raises(StatetraceError, match=words):
        make_pool(engine, prepared(tmp_path), jobs, share, address)
