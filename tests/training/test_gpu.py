"""What only a GPU can show: compiled bfloat16 training resumes bit for bit. The CPU twins of these
tests are in test_loop.py and always run."""

import pytest
import torch

from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.loop import train
from statetrace.training.parallel import World
from statetrace.training.trainer import Trainer
from tests.training.conftest import Recorder, staged, toy
from tests.training.test_loop import assert_same_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_resuming_on_cuda_changes_nothing(tmp_path, model):
    """With evaluations of another shape in between, and GPT-2's dropout."""
    recipe = toy(device="cuda", model=model, length=11)
    whole, parts = Run(tmp_path / "whole"), Run(tmp_path / "parts")
    train(recipe, whole, Recorder())
    for stop in (5, 9):
        train(recipe, parts, Recorder(stop_after=[stop]), resume=True)
    train(recipe, parts, Recorder(), resume=True)
    assert_same_run(whole, parts)


def test_data_lives_on_the_gpu():
    plan = setup.make_plan(toy(device="cuda"), World(0, 1, torch.device("cuda", 0)))
    trainer = Trainer(plan, Run("nowhere"), setup.make_model(plan))
    assert trainer.split.actions.is_cuda
    assert trainer.split.batch(0, 0, 8).tokens.is_cuda
    assert setup.wants_compile(plan)


def test_a_chain_resumes_on_cuda(tmp_path):
    """Compiled anew at the boundary, whether one process passes it or another starts behind it."""
    chain = staged(
        {"objective": "topic", "table": "paper-1", "steps": 12},
        {"objective": "state", "steps": 16, "auxiliary": "parity"},
        device="cuda",
        length=11,
    )
    whole, parts = Run(tmp_path / "whole"), Run(tmp_path / "parts")
    train(chain, whole, Recorder())
    for stop in (5, 7, 9):  # in the first stage, at its last step, in the second
        train(chain, parts, Recorder(stop_after=[stop]), resume=True)
    train(chain, parts, Recorder(), resume=True)
    assert_same_run(whole, parts)
