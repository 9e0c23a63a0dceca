"""The number of CPU threads: given, recorded in the run, or measured."""

import json

import pytest
import torch

import statetrace as st
from statetrace.training.callback import Callback
from statetrace.training.cost import use_threads
from tests.training.conftest import TOY, toy


class FakeTrial:
    """A step takes as long as `times` says for the current number of threads."""

    def __init__(self, times):
        self.times, self.tried = times, []

    def seconds(self):
        self.tried.append(torch.get_num_threads())
        return self.times[self.tried[-1]]


@pytest.fixture
def four_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ({4: 1.0, 2: 2.0, 1: 4.0}, 4),
        ({4: 9.0, 2: 2.0, 1: 4.0}, 2),
        ({4: 1.0, 2: 1.05, 1: 1.02}, 1),  # fewer where it hardly matters
    ],
)
def test_the_fastest_is_used(four_threads, times, best):
    trial = FakeTrial(times)
    use_threads(toy(), None, trial)
    assert torch.get_num_threads() == best
    assert trial.tried == [4, 2, 1]


def test_a_given_or_recorded_number_is_not_measured(four_threads, monkeypatch):
    use_threads(toy(threads=3), 2, None)
    assert torch.get_num_threads() == 3
    use_threads(toy(), 2, None)
    assert torch.get_num_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    trial = FakeTrial({})
    use_threads(toy(), None, trial)
    assert trial.tried == []


class Threads(Callback):
    def on_start(self, step, steps):
        self.used = torch.get_num_threads()


def test_a_resumed_run_keeps_its_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    tiny = TOY | {"steps": 2, "evaluate_every": 2, "checkpoint_every": 2}
    st.train(out=tmp_path / "run", **tiny)
    file = tmp_path / "run" / "run.json"
    info = json.loads(file.read_text())
    assert info["hardware"]["threads"] == before
    info["hardware"]["threads"] = before + 1
    file.write_text(json.dumps(info))
    heard = Threads()
    st.train(out=tmp_path / "run", resume=True, steps=4, callback=heard)
    assert heard.used == before + 1
    assert json.loads(file.read_text())["hardware"]["threads"] == before + 1
    assert torch.get_num_threads() == before  # the caller's
