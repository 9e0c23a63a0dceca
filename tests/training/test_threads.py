"""The number of CPU threads: given, recorded in the run, or measured."""

import json

import pytest
import torch

import statetrace as st
from statetrace.files import write_json
from statetrace.runs import Run
from statetrace.training.callback import Callback
from statetrace.training.cost import use_threads
from statetrace.training.loop import train
from tests.training.conftest import TOY, toy


class FakeTrial:
    """Remembers with how many threads it was called."""

    def __init__(self):
        self.tried = set()

    def step(self):
        self.tried.add(torch.get_num_threads())


@pytest.fixture
def four_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_threads_are_measured_unless_given_or_recorded(four_threads):
    trial = FakeTrial()
    use_threads(toy(), None, lambda: trial)
    assert trial.tried == {1, 2, 4}
    for recipe, recorded, used in [(toy(threads=3), 2, 3), (toy(), 2, 2)]:
        use_threads(recipe, recorded, None)  # there is no trial
        assert torch.get_num_threads() == used


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
    write_json(file, info)
    heard = Threads()
    st.train(out=tmp_path / "run", resume=True, steps=4, callback=heard)
    assert heard.used == before + 1
    assert json.loads(file.read_text())["hardware"]["threads"] == before + 1
    assert torch.get_num_threads() == before  # the caller's


def test_training_itself_keeps_them_and_says_where_it_cannot(tmp_path, monkeypatch, recorder):
    """Without the Python interface too, as in the cells of a study."""
    run, before = Run(tmp_path / "run"), torch.get_num_threads()
    train(toy(steps=2, checkpoint_every=2), run, Threads())
    for cores, used, message in [(1, 1, f"{before + 2} CPU threads"), (8, before + 2, None)]:
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        run.write_info(run.info | {"hardware": {"threads": before + 2}})
        heard, recorded = Threads(), recorder()
        heard.on_message = recorded.on_message
        train(toy(steps=2 + cores, checkpoint_every=2), run, heard, resume=True)
        assert heard.used == run.info["sessions"][-1]["threads"] == used
        assert [message in each for each in recorded.messages] == ([True] if message else [])
        assert torch.get_num_threads() == before
