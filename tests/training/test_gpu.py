"""What only a GPU can show: compiled bfloat16 training resumes bit for bit. The CPU twins of these
tests are in test_loop.py and always run."""

import copy

import pytest
import torch

from statetrace.config.settings import TrainingSettings
from statetrace.groups import group
from statetrace.models import ModelSpec, build
from statetrace.models.predict import predict
from statetrace.runs import Run
from statetrace.studies.stacked import train_together
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training import setup
from statetrace.training.auxiliary import AuxiliaryTask, ModelWithAuxiliary
from statetrace.training.callback import Callback
from statetrace.training.evaluate import loss
from statetrace.training.fused import FusedStep
from statetrace.training.loop import train
from statetrace.training.parallel import World
from statetrace.training.trainer import Trainer
from tests.training.conftest import Recorder, staged, toy
from tests.training.test_loop import assert_same_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize(
    ("model", "settings"),
    [("gpt2", {}), ("pythia", {"grow": 0.5}), ("pythia", {"program": False})],
    ids=["program with dropout", "program, growing", "compiled"],
)
def test_resuming_on_cuda_changes_nothing(tmp_path, model, settings):
    """With evaluations of another shape in between."""
    recipe = toy(device="cuda", model=model, length=11, **settings)
    whole, parts = Run(tmp_path / "whole"), Run(tmp_path / "parts")
    train(recipe, whole, Recorder())
    for stop in (5, 9):
        train(recipe, parts, Recorder(stop_after=[stop]), resume=True)
    train(recipe, parts, Recorder(), resume=True)
    assert_same_run(whole, parts)


def test_data_lives_on_the_gpu():
    plan = setup.make_plan(toy(device="cuda"), World(0, 1, torch.device("cuda", 0)))
    trainer = Trainer(plan, Run("nowhere"), setup.make_model(plan))
    assert plan.training_split.actions.is_cuda
    assert plan.training_split.batch(0, 0, 8).tokens.is_cuda
    assert trainer.uses_fused_step


@pytest.mark.parametrize("name", ["gpt2", "pythia"])
def test_the_fused_step_on_cuda_is_as_near_to_float32_as_autocast(name):
    """Gradients in bfloat16, by kernels, against those of the model in float32."""
    spec = ModelSpec(name, layers=2, width=64, heads=2, dropout=0.0)
    model = build(spec, 7, 24, 0).cuda().train()
    generator = torch.Generator().manual_seed(0)
    tokens, targets = torch.randint(0, 7, (2, 16, 12), generator=generator).cuda()
    gradients = {}
    for mixed in (False, True):
        other = copy.deepcopy(model)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=mixed):
            logits = predict(other, tokens)
        loss(logits, targets).backward()
        gradients[mixed] = torch.cat([p.grad.flatten() for p in other.parameters()])
    step = FusedStep([model], TrainingSettings(), loss, torch.bfloat16)
    step._gradients(tokens[None], targets[None])
    roles = {name: role for role, name in step.shape.names.items()}
    grads = [step.weights.grad[roles[n]][0].float().flatten() for n, _ in model.named_parameters()]
    usual = (gradients[True] - gradients[False]).norm()
    assert (
        (torch.cat(grads) - gradients[False]).norm() < 1.5 * usual < 0.05 * gradients[False].norm()
    )


@pytest.mark.parametrize("layer", [None, 1, 2])
def test_a_graph_repeats_what_calls_do(layer):
    """Also with an auxiliary classifier."""
    spec = ModelSpec("gpt2", layers=2, width=32, heads=2, dropout=0.1)
    of = group("S3")
    weights = []
    for graphs in (True, False):
        model = build(spec, 7, 24, 0).cuda().train()
        read = []
        if layer is not None:
            task = AuxiliaryTask(of, of.quotient("parity"), True, layer, 1.0, Vocabulary.plain(6))
            read = [ModelWithAuxiliary(model, task).cuda()]
        step = FusedStep([model], TrainingSettings(), loss, torch.bfloat16, read)
        step.graphs = graphs
        generator = torch.Generator().manual_seed(0)
        for index in range(5):
            tokens, targets = torch.randint(0, 6, (2, 1, 8, 12), generator=generator).cuda()
            step(index, tokens, targets, 1e-3, [3])
        trained = [*model.parameters(), *(p for one in read for _, p in one.named_classifier())]
        weights.append([p.detach().clone() for p in trained])
    assert all(p.abs().max() > 0 for p in weights[0])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


@pytest.mark.parametrize(
    ("model", "stages"),
    [
        ("gpt2", []),
        ("pythia", []),
        (
            "gpt2",
            [{"objective": "topic", "table": "paper-1", "steps": 12}, {"auxiliary": "parity"}],
        ),
    ],
    ids=["gpt2", "pythia", "chain"],
)
def test_seeds_together_equal_solo_runs_on_cuda(tmp_path, model, stages):
    """GPT-2's dropout included: its masks are each seed's own."""
    settings = {"device": "cuda", "precision": "float32", "model": model}
    recipes = [staged(*stages, **settings, seed=seed) for seed in (0, 1, 5)]
    runs = [Run(tmp_path / f"run-{n}") for n in range(3)]
    assert train_together(recipes, runs, Callback()).step == 24
    for number, (recipe, run) in enumerate(zip(recipes, runs, strict=True)):
        alone = Run(tmp_path / f"alone-{number}")
        train(recipe, alone, Recorder())
        assert run.metrics("auxiliary") or len(recipe.stages) == 1
        for ours, theirs in zip(run.metrics(), alone.metrics(), strict=True):
            assert ours.get("loss", 0) == pytest.approx(theirs.get("loss", 0), rel=1e-3)


@pytest.mark.parametrize(
    "settings", [{"model": "mamba", "heads": None, "dropout": None}, {"form": "text"}]
)
def test_recurrent_and_text_models_train_on_cuda(tmp_path, settings):
    run = Run(tmp_path / "run")
    train(toy(device="cuda", **settings), run, Recorder())
    first, last = run.evaluations()[0], run.evaluations()[-1]
    assert last["loss"] < first["loss"]


def test_a_chain_resumes_on_cuda(tmp_path):
    """A new CUDA graph at the boundary, whether a process passes it or starts after it."""
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
