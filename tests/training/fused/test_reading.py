"""The auxiliary classifier of the program against a `ModelWithAuxiliary` and autograd."""

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


def readers(name, layer, action, seeds):
    """Models of S3 and classifiers that are no longer at zero."""
    of = group("S3")
    wanted = AuxiliaryTask(of, of.quotient("parity"), action, layer, 0.7, Vocabulary.plain(6))
    spec = ModelSpec(name, layers=LAYERS, width=32, heads=4, dropout=0.0)
    found = []
    for seed in range(seeds):
        reader = ModelWithAuxiliary(build(spec, 7, 2 * LENGTH, seed).train(), wanted)
        torch.nn.init.normal_(reader.classifier.weight, std=0.3)
        torch.nn.init.normal_(reader.classifier.bias, std=0.3)
        found.append(reader)
    return found


def program_of(ours):
    return FusedStep([reader.model for reader in ours], SETTINGS, loss, torch.float32, ours)


def batches(seeds, steps):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        both = torch.randint(0, 6, (2, seeds, BATCH, LENGTH), generator=generator)
        both[0, :, :, 0], both[1, :, :, 0] = 6, -100
        yield both[0], both[1]


def backward(reader, tokens, targets):
    value = loss(predict(reader, tokens), targets)
    (value + reader.loss(targets)).backward()
    return value.detach()


@EVERY_KIND
def test_gradients_are_those_of_both_losses(name, layer, action):
    ours = readers(name, layer, action, 2)
    theirs = copy.deepcopy(ours)
    step = program_of(ours)
    ((tokens, targets),) = batches(2, 1)
    losses = step._gradients(tokens, targets)
    for number, reader in enumerate(theirs):
        value = backward(reader, tokens[number], targets[number])
        torch.testing.assert_close(losses[number], value)  # the task's alone
        named = dict(reader.model.named_parameters()) | dict(reader.named())
        assert named.keys() == set(step.shape.names.values())
        for role, found in step.shape.names.items():
            torch.testing.assert_close(
                step.weights.grad[role][number], named[found].grad, rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("name", ["gpt2", "pythia"])
@pytest.mark.parametrize("layer", [1, 3])
def test_gradients_by_kernels_and_of_all_layers_at_once_are_the_same(name, layer):
    """And every gradient is written: they were full of NaN."""
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    from statetrace.training.fused import kernels

    (reader,) = readers(name, layer, True, 1)
    shape = shape_of(reader.model).with_classifier(layer)
    ((tokens, targets),) = batches(1, 1)
    found = []
    for ops, at_once in ((plain, False), (kernels, True)):
        other = copy.deepcopy(reader)
        named = dict(other.model.named_parameters()) | dict(other.named())
        weights = StackedWeights([named], shape, torch.float32, joined=True)
        for part in weights.parts:
            part.grad[0].fill_(float("nan"))
        turns = rotation(other.model, shape, 2 * LENGTH)
        some = weights.select(slice(None))
        program = FusedTransformer(shape, some, turns, torch.float32, ops, at_once=at_once)
        logits = program.forward(tokens).requires_grad_()
        read = program.classifier_logits.requires_grad_()
        said = logits.view(*targets.shape, -1)
        (loss(said[0], targets[0]) + other.loss(read[0], targets[0])).backward()
        program.backward(logits.grad, read.grad)
        found.append(weights.grad)
    for role in shape.names:
        torch.testing.assert_close(found[0][role], found[1][role], rtol=1e-4, atol=1e-6)


@EVERY_KIND
def test_steps_are_those_of_adamw(name, layer, action):
    """The classifier's gradients are clipped with the model's; its reader sees its new weights."""
    ours = readers(name, layer, action, 3)
    theirs = copy.deepcopy(ours)
    step = program_of(ours)
    optimizers = [adamw(reader, SETTINGS) for reader in theirs]
    for index, (tokens, targets) in enumerate(batches(3, 4)):
        rate = 1e-3 * (1 - index / 10)
        step(index, tokens, targets, rate, [0, 1, 2])
        for number, (reader, optimizer) in enumerate(zip(theirs, optimizers, strict=True)):
            set_learning_rate(optimizer, rate)
            backward(reader, tokens[number], targets[number])
            assert clip_grad_norm_(reader.parameters(), SETTINGS.clip) > 2 * SETTINGS.clip
            optimizer.step()
            optimizer.zero_grad()
    tokens = next(batches(3, 1))[0][0]
    for pair in zip(ours, theirs, strict=True):
        logits = [predict(reader, tokens) for reader in pair]
        torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(*(reader.logits for reader in pair), rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(*(r.classifier.weight for r in pair), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_a_run_by_the_program_equals_one_without_and_resumes_exactly(tmp_path, model):
    def recipe(program):
        chain = (
            {"objective": "state", "auxiliary": "parity,action", "auxiliary_weight": 2.0},
            {"objective": "state", "auxiliary": "parity", "auxiliary_layer": 2},
        )
        told = {"steps": 12, "learning_rate": 1e-3, "clip": 0.5, "checkpoint_every": 5}
        return staged(*chain, model=model, dropout=0.0, program=program, **told)

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
