"""Two processes over gloo give the loss curve of one, copied (DDP) or sharded (FSDP2)."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from statetrace.runs import Run
from statetrace.training.loop import train
from tests.training.conftest import TOY, Recorder, flags, toy
from tests.training.test_loop import weights

SETTINGS = {"dropout": 0.0, "accumulate": 2}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("one") / "run")
    train(toy(**SETTINGS), run, Recorder())
    return run


def torchrun(out, processes=2, **changes):
    command = ["-m", "statetrace", "train", "--resume", "--out", str(out)]
    return together([*command, *flags(TOY | SETTINGS | changes)], processes)


def together(command, processes=2):
    """The command in several processes that know of each other."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--nproc-per-node", str(processes)]
    return subprocess.run([*launcher, *command], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_two_processes_train_like_one(alone, tmp_path, parallel, model):
    one = alone
    if model != "gpt2":
        one = Run(tmp_path / "one")
        train(toy(**SETTINGS, model=model), one, Recorder())
    done = torchrun(tmp_path / "two", parallel=parallel, model=model)
    assert done.returncode == 0, done.stderr
    two = Run(tmp_path / "two")
    for kind in ("training", "evaluation"):
        mine, theirs = ([r["loss"] for r in run.metrics(kind)] for run in (one, two))
        assert theirs == pytest.approx(mine, abs=2e-5)
    mine, theirs = weights(one), weights(two)
    for name in mine:
        torch.testing.assert_close(theirs[name], mine[name], atol=2e-4, rtol=0)
    assert two.info["hardware"]["processes"] == 2


def test_a_sharded_run_resumes_from_a_run_of_one_process(alone, tmp_path):
    """Checkpoints hold whole tensors, so they do not care how many processes there were."""
    run = Run(tmp_path / "run")
    recipe = toy(**SETTINGS, parallel="fsdp")
    train(recipe, run, Recorder(stop_after=[13]))
    done = torchrun(run.path, parallel="fsdp")
    assert done.returncode == 0, done.stderr
    mine, theirs = ([r["loss"] for r in one.metrics("training")] for one in (alone, run))
    assert theirs == pytest.approx(mine, abs=2e-5)


THREADS = """
import pathlib, sys
from statetrace.runs import Run
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from statetrace.config.recipe import Recipe

def threads():
    return {task.read_text().strip() for task in pathlib.Path("/proc/self/task").glob("*/comm")}

class Watch(Callback):
    def on_evaluation(self, record):
        assert any("gloo" in name for name in threads()), threads()

here = pathlib.Path(sys.argv[1])
train(Recipe.read(here / "recipe.toml"), Run(here / "run"), Watch())
assert not any("gloo" in name for name in threads()), threads()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are read from /proc")
@pytest.mark.new_interpreter
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_no_thread_of_the_group_outlives_training(tmp_path, parallel):
    """Such a thread may abort the process when the interpreter ends, after all work is done."""
    (tmp_path / "threads.py").write_text(THREADS)
    (tmp_path / "recipe.toml").write_text(toy(parallel=parallel).to_toml())
    done = together([str(tmp_path / "threads.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr


def test_a_batch_that_cannot_be_shared(tmp_path):
    done = torchrun(tmp_path / "run", processes=3)
    assert done.returncode != 0
    assert "error: batch 32 cannot be shared by 3 processes in 2 parts each" in done.stderr
