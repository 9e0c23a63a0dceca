"""One thread per process: the tests run in two processes, and idle threads that spin would make
both many times slower. No network: nothing here may depend on a hub. Kernels for GPUs are run by
Triton's interpreter where there is none; Triton asks for that before it is first imported.
Nothing may depend on how busy the machine is: no deadlines."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests import forkserver

pytest_plugins = ["tests.slow"]

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

if not os.path.exists("/dev/nvidia0"):
    os.environ["TRITON_INTERPRET"] = "1"

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_configure(config):
    config.fork_server = forkserver.start()


def pytest_unconfigure(config):
    if config.fork_server:
        config.fork_server.communicate()


@pytest.fixture(autouse=True)
def _new_interpreter(request, monkeypatch):
    if request.node.get_closest_marker("new_interpreter"):
        monkeypatch.setenv("STATETRACE_FORK", "0")
