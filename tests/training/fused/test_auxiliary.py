"""The auxiliary classifier in the fused training step against autograd."""

import copy

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from statetrace.config.settings import TrainingSettings
from statetrace.groups import group
from statetrace.models import ModelSpec, build
from statetrace.models.predict import predict
from statetrace.runs import Run
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.auxiliary import AuxiliaryTask, ModelWithAuxiliary
from statetrace.training.callback import Callback
from statetrace.training.evaluate import loss
from statetrace.training.fused import FusedStep, plain
from statetrace.training.fused.shape import rotation, shape_of
from statetrace.training.fused.transformer import FusedTransformer
from statetrace.training.fused.weights import StackedWeights
from statetrace.training.loop import train
from statetrace.training.optimizer import adamw, set_learning_rate
from tests.training.conftest import staged
from tests.training.test_stages import assert_same_bytes, killed

SETTINGS = TrainingSettings(weight_decay=0.1, clip=0.5, learning_rate=1e-2)
LAYERS, BATCH, LENGTH = 3, 5, 9
EVERY_KIND = pytest.mark.parametrize(
    ("name", "layer", "action"),
    [("gpt2", 2, False), ("gpt2", 3, True), ("pythia", 2, True), ("pythia", 3, False)],
)


def models(name, layer, action, seeds):
    """Models of S3 and classifiers that are no longer at zero."""
    s3 = group("S3")
    task = AuxiliaryTask(s3, s3.quotient("parity"), action, layer, 0.7, Vocabulary.plain(6))
    spec = ModelSpec(name, layers=LAYERS, width=32, heads=4, dropout=0.0)
    built = []
    for seed in range(seeds):
        model = ModelWithAuxiliary(build(spec, 7, 2 * LENGTH, seed).train(), task)
        torch.nn.init.normal_(model.classifier.weight, std=0.3)
        torch.nn.init.normal_(model.classifier.bias, std=0.3)
        built.append(model)
    return built


def fused_step(ours):
    return FusedStep([model.model for model in ours], SETTINGS, loss, torch.float32, ours)


def batches(seeds, steps):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        both = torch.randint(0, 6, (2, seeds, BATCH, LENGTH), generator=generator)
        both[0, :, :, 0], both[1, :, :, 0] = 6, -100
        yield both[0], both[1]


def backward(model, tokens, targets):
    value = loss(predict(model, tokens), targets)
    (value + model.loss(model.logits, targets)).backward()
    return value.detach()


@EVERY_KIND
def test_gradients_are_those_of_both_losses(name, layer, action):
    ours = models(name, layer, action, 2)
    theirs = copy.deepcopy(ours)
    step = fused_step(ours)
    ((tokens, targets),) = batches(2, 1)
    losses = step._gradients(tokens, targets)
    for number, model in enumerate(theirs):
        value = backward(model, tokens[number], targets[number])
        torch.testing.assert_close(losses[number], value)  # the task's alone
        named = dict(model.model.named_parameters()) | dict(model.named_classifier())
        assert named.keys() == set(step.shape.names.values())
        for role, parameter in step.shape.names.items():
            torch.testing.assert_close(
                step.weights.grad[role][number], named[parameter].grad, rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("name", ["gpt2", "pythia"])
@pytest.mark.parametrize("layer", [1, 3])
def test_gradients_by_kernels_and_of_all_layers_at_once_are_the_same(name, layer):
    """And every gradient is written: they were full of NaN."""
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    from statetrace.training.fused import kernels

    (model,) = models(name, layer, True, 1)
    shape = shape_of(model.model).with_classifier(layer)
    ((tokens, targets),) = batches(1, 1)
    gradients = []
    for ops, at_once in ((plain, False), (kernels, True)):
        other = copy.deepcopy(model)
        named = dict(other.model.named_parameters()) | dict(other.named_classifier())
        weights = StackedWeights([named], shape, torch.float32, joined=True)
        for group_ in weights.groups:
            group_.grad[0].fill_(float("nan"))
        rotations = rotation(other.model, shape, 2 * LENGTH)
        selected = weights.select(slice(None))
        fused = FusedTransformer(shape, selected, rotations, torch.float32, ops, at_once=at_once)
        logits = fused.forward(tokens).requires_grad_()
        classified = fused.classifier_logits.requires_grad_()
        value = loss(logits.view(*targets.shape, -1)[0], targets[0])
        (value + other.loss(classified[0], targets[0])).backward()
        fused.backward(logits.grad, classified.grad)
        gradients.append(weights.grad)
    for role in shape.names:
        torch.testing.assert_close(gradients[0][role], gradients[1][role], rtol=1e-4, atol=1e-6)


@EVERY_KIND
def test_steps_are_those_of_adamw(name, layer, action):
    """The classifier's gradients are clipped with the model's; the model uses its new weights."""
    ours = models(name, layer, action, 3)
    theirs = copy.deepcopy(ours)
    step = fused_step(ours)
    optimizers = [adamw(model, SETTINGS) for model in theirs]
    for index, (tokens, targets) in enumerate(batches(3, 4)):
        rate = 1e-3 * (1 - index / 10)
        step(index, tokens, targets, rate, [0, 1, 2])
        for number, (model, optimizer) in enumerate(zip(theirs, optimizers, strict=True)):
            set_learning_rate(optimizer, rate)
            backward(model, tokens[number], targets[number])
            assert clip_grad_norm_(model.parameters(), SETTINGS.clip) > 2 * SETTINGS.clip
            optimizer.step()
            optimizer.zero_grad()
    tokens = next(batches(3, 1))[0][0]
    for pair in zip(ours, theirs, strict=True):
        logits = [predict(model, tokens) for model in pair]
        torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(*(model.logits for model in pair), rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(*(r.classifier.weight for r in pair), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_a_run_with_the_fused_step_equals_one_without_and_resumes_exactly(tmp_path, model):
    def recipe(program):
        chain = (
            {"objective": "state", "auxiliary": "parity,action", "auxiliary_weight": 2.0},
            {"objective": "state", "auxiliary": "parity", "auxiliary_layer": 2},
        )
        settings = {"steps": 12, "learning_rate": 1e-3, "clip": 0.5, "checkpoint_every": 5}
        return staged(*chain, model=model, dropout=0.0, program=program, **settings)

    whole, parts, plain = (Run(tmp_path / name) for name in ("whole", "parts", "plain"))
    train(recipe(True), whole, Callback())
    for moment in (("1-state", "step", 7), ("2-state", "step", 8)):
        killed(recipe(True), parts, moment)
    train(recipe(True), parts, Callback(), resume=True)
    assert_same_bytes(whole, parts)
    assert (parts.stage("1-state").checkpoint(12) / "auxiliary.safetensors").is_file()
    train(recipe(None), plain, Callback())
    for ours, theirs in zip(whole.metrics(), plain.metrics(), strict=True):
        if ours["kind"] == "auxiliary":
            assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.01)
        else:
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
