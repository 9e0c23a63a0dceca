"""Two processes over gloo give the loss curve of one, copied (DDP) or sharded (FSDP2)."""

import subprocess
import sys

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
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--standalone", "-m", "statetrace", "train", "--resume", "--out", str(out)]
    return subprocess.run(
        command + flags(TOY | SETTINGS | changes), capture_output=True, text=True, timeout=300
    )


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


def test_a_batch_that_cannot_be_shared(tmp_path):
    done = torchrun(tmp_path / "run", processes=3)
    assert done.returncode != 0
    assert "error: batch 32 cannot be shared by 3 processes in 2 parts each" in done.stderr
