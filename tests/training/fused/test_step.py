"""The fused training step against transformers' own models and torch's own AdamW,
with an auxiliary classifier and without."""

import copy
import dataclasses
import importlib

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from statetrace.config.settings import TrainingSettings
from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.models import ModelSpec, build
from statetrace.models.predict import predict
from statetrace.runs import Run
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.auxiliary import AuxiliaryTask, ModelWithAuxiliary
from statetrace.training.callback import Callback
from statetrace.training.evaluate import loss
from statetrace.training.fused import FusedStep
from statetrace.training.fused.narrow import NarrowTransformer, is_narrow
from statetrace.training.fused.shape import rotation, shape_of, zero_gradient_columns
from statetrace.training.fused.transformer import FusedTransformer
from statetrace.training.fused.weights import StackedWeights
from statetrace.training.loop import train
from statetrace.training.optimizer import adamw, set_learning_rate
from tests.training.conftest import Recorder, staged, toy
from tests.training.test_loop import assert_same_run
from tests.training.test_stages import assert_same_bytes, killed

SETTINGS = TrainingSettings(weight_decay=0.1, clip=0.5, learning_rate=1e-2)
WORDS, BATCH, LENGTH = 7, 5, 9
CLASSIFIERS = [
    ("gpt2", (2, False)), ("gpt2", (3, True)), ("pythia", (2, True)), ("pythia", (3, False)),
]  # fmt: skip
"""A family, and an auxiliary classifier: the layer it reads, and whether it predicts actions."""


def models(name, seeds, dropout=0.0, classifier=None, width=32):
    """Models of S3; classifiers are no longer at zero."""
    spec = ModelSpec(name, layers=3 if classifier else 2, width=width, heads=4, dropout=dropout)
    built = [build(spec, WORDS, 2 * LENGTH, seed).train() for seed in range(seeds)]
    if classifier is None:
        return built
    s3, (layer, action) = group("S3"), classifier
    task = AuxiliaryTask(s3, s3.quotient("parity"), action, layer, 0.7, Vocabulary.plain(6))
    built = [ModelWithAuxiliary(model, task) for model in built]
    for model in built:
        for parameter in model.classifier.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return built


def core(model):
    return model.model if isinstance(model, ModelWithAuxiliary) else model


def named(model):
    extra = model.named_classifier() if isinstance(model, ModelWithAuxiliary) else ()
    return dict(core(model).named_parameters()) | dict(extra)


def fused_step(ours):
    auxiliary = [model for model in ours if isinstance(model, ModelWithAuxiliary)]
    return FusedStep([core(model) for model in ours], SETTINGS, loss, torch.float32, auxiliary)


def batches(seeds, steps, length=LENGTH, batch=BATCH):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        both = torch.randint(0, WORDS - 1, (2, seeds, batch, length), generator=generator)
        both[0, :, :, 0], both[1, :, :, 0] = WORDS - 1, -100  # the start marker has no target
        yield both[0], both[1]


def backward(model, tokens, targets):
    """Autograd through both losses; returns the task's."""
    value = loss(predict(model, tokens), targets)
    extra = model.loss(model.logits, targets) if isinstance(model, ModelWithAuxiliary) else 0
    (value + extra).backward()
    return value.detach()


@pytest.mark.parametrize(
    ("name", "classifier", "batch", "by_token"),
    [
        ("gpt2", None, 5, False), ("pythia", None, 5, True), ("pythia", None, 2, False),
        *((name, classifier, 5, name == "pythia") for name, classifier in CLASSIFIERS),
    ],
)  # fmt: skip
def test_gradients_are_those_of_the_model(name, classifier, batch, by_token):
    """Also where the first block is done for the vocabulary instead of for every row, and of both
    losses where there is a classifier."""
    ours = models(name, 2, classifier=classifier)
    theirs = copy.deepcopy(ours)
    step = fused_step(ours)
    ((tokens, targets),) = batches(2, 1, batch=batch)
    losses = step._gradients(tokens, targets)
    assert step._transformer(slice(None))._per_token == by_token
    for number, model in enumerate(theirs):
        torch.testing.assert_close(losses[number], backward(model, tokens[number], targets[number]))
        parameters = named(model)
        assert parameters.keys() == set(step.shape.names.values())
        for role, parameter in step.shape.names.items():
            torch.testing.assert_close(
                step.weights.grad[role][number], parameters[parameter].grad, rtol=1e-4, atol=1e-6
            )


def place(ops):
    """Where operations run: kernels on a GPU if there is one, else interpreted."""
    return "cuda" if ops == "kernels" and torch.cuda.is_available() else "cpu"


def upstream(logits):
    """Gradients of the logits; zero for padding."""
    random = torch.randn(*logits.shape[:-1], WORDS, generator=torch.manual_seed(1))
    return torch.nn.functional.pad(random, (0, logits.shape[-1] - WORDS)).to(logits)


@pytest.mark.parametrize("ops", ["plain", "kernels"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("name", "batch"), [("gpt2", 5), ("pythia", 5), ("pythia", 2)])
def test_gradients_of_all_layers_at_once_are_the_same(name, batch, dropout, ops):
    """And every gradient is written: they were full of NaN."""
    if ops == "kernels":
        pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    work = importlib.import_module(f"statetrace.training.fused.{ops}")
    device = place(ops)
    model = models(name, 1, dropout)[0].to(device)
    shape = shape_of(model)
    ((tokens, _),) = batches(1, 1, batch=batch)
    keys = torch.tensor([123], device=device)
    gradients = []
    for at_once in (False, True):
        weights = StackedWeights([named(copy.deepcopy(model))], shape, torch.float32, joined=True)
        rotations = rotation(model, shape, 2 * LENGTH)
        selected = weights.select(slice(None))
        fused = FusedTransformer(shape, selected, rotations, torch.float32, work, keys, at_once)
        for parameters in weights.groups:
            parameters.grad[0].fill_(float("nan"))
        fused.backward(upstream(fused.forward(tokens.to(device))))
        gradients.append(weights.grad)
    assert not any(grad.isnan().any() for grad in gradients[1].values())
    for role in shape.names:
        torch.testing.assert_close(gradients[0][role], gradients[1][role], rtol=1e-4, atol=1e-5)


def side_by_side(several, tokens, ops, transformer=FusedTransformer, dtype=torch.float32):
    """Gradients of models that are stored as on a GPU."""
    shape = shape_of(several[0])
    work = importlib.import_module(f"statetrace.training.fused.{ops}")
    parameters = [named(model) for model in copy.deepcopy(several)]
    weights = StackedWeights(parameters, shape, dtype, joined=True)
    for parameters in weights.groups:
        parameters.grad[0].fill_(float("nan"))
    rotations = rotation(several[0], shape, 2 * LENGTH)
    keys = torch.arange(len(several), device=tokens.device)
    fused = transformer(shape, weights.select(slice(None)), rotations, dtype, work, keys)
    fused.backward(upstream(fused.forward(tokens)))
    return weights.grad


NARROW = [(NarrowTransformer, 32, 9), (NarrowTransformer, 16, 2), (NarrowTransformer, 128, 5)]
"""With a width and a batch: more rows than a tile has, fewer, and more than a wide one has."""


@pytest.mark.parametrize("name", ["gpt2", "pythia"])
@pytest.mark.parametrize(("transformer", "width", "batch"), [(FusedTransformer, 32, 5), *NARROW])
def test_kernels_keep_seeds_apart(name, transformer, width, batch):
    """Gradients are those of the plain operations."""
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    device = place("kernels")
    if device == "cuda" and width == 128:
        pytest.skip("too large for float32, in which the fused step does not use these kernels")
    several = [model.to(device) for model in models(name, 3, width=width)]
    ((tokens, _),) = batches(3, 1, batch=batch)
    expected = side_by_side(several, tokens.to(device), "plain")
    grads = side_by_side(several, tokens.to(device), "kernels", transformer)
    for role in expected:
        torch.testing.assert_close(grads[role], expected[role], rtol=1e-4, atol=1e-4)
    shape = shape_of(several[0])
    unused = zero_gradient_columns(shape, device) == 1
    assert unused.any()
    for layer in range(shape.layers):  # what does nothing is not moved by rounding either
        assert not grads[f"{layer}.qkv.b"][:, unused].any()
        assert grads[f"{layer}.qkv.b"][:, ~unused].all()


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gpt2", {"embd_pdrop": 0.3, "attn_pdrop": 0.3}),
        ("pythia", {"use_parallel_residual": False}),
    ],
)
def test_narrow_models_with_dropout_or_without_parallel_sublayers(name, config):
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    several = [model.to(place("kernels")) for model in models(name, 2, width=16)]
    several[0].config.update(config)
    tokens = next(batches(2, 1))[0].to(place("kernels"))
    expected = side_by_side(several, tokens, "plain")
    grads = side_by_side(several, tokens, "kernels", NarrowTransformer)
    for role in expected:
        torch.testing.assert_close(grads[role], expected[role], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "width"), [("gpt2", 128), ("pythia", 32)])
def test_narrow_models_in_half_precision_differ_by_rounding(name, width):
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    device = place("kernels")
    dtype = torch.bfloat16 if device == "cuda" else torch.float16  # as the interpreter multiplies
    several = [model.to(device) for model in models(name, 2, width=width)]
    tokens = next(batches(2, 1))[0].to(device)
    expected = side_by_side(several, tokens, "plain")
    grads = side_by_side(several, tokens, "kernels", NarrowTransformer, dtype)
    for role in expected:
        error = (grads[role] - expected[role]).norm()
        assert error < 4 * torch.finfo(dtype).eps * expected[role].norm()


@pytest.mark.parametrize(
    ("change", "hidden"),
    [
        ({"width": 24}, 96), ({"width": 8}, 32), ({"width": 256}, 1024), ({}, 48),
        ({"drop_resid": 0.1}, 128), ({"classified": "norm"}, 128),
    ],
)  # fmt: skip
def test_models_that_do_not_fit_the_narrow_kernels(change, hidden):
    shape = shape_of(models("gpt2", 1)[0])
    assert is_narrow(shape, 128)
    assert not is_narrow(dataclasses.replace(shape, **change), hidden)


@pytest.mark.parametrize("name", ["gpt2", "pythia"])
@pytest.mark.parametrize("layer", [1, 3])
def test_gradients_of_a_classifier_by_kernels_and_at_once_are_the_same(name, layer):
    """And every gradient is written: they were full of NaN."""
    pytest.importorskip("triton", reason="needs Triton: pip install 'statetrace[kernels]'")
    from statetrace.training.fused import kernels, plain

    device = place("kernels")
    model = models(name, 1, classifier=(layer, True))[0].to(device)
    shape = shape_of(model.model).with_classifier(layer)
    tokens, targets = (each.to(device) for each in next(batches(1, 1)))
    gradients = []
    for ops, at_once in ((plain, False), (kernels, True)):
        other = copy.deepcopy(model)
        weights = StackedWeights([named(other)], shape, torch.float32, joined=True)
        for parameters in weights.groups:
            parameters.grad[0].fill_(float("nan"))
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


@pytest.mark.parametrize(("name", "classifier"), [("gpt2", None), ("pythia", None), *CLASSIFIERS])
def test_steps_are_those_of_adamw(name, classifier):
    """Clipping, weight decay and a changing rate included; and the model sees its new weights. The
    classifier's gradients are clipped with the model's."""
    ours = models(name, 3, classifier=classifier)
    theirs = copy.deepcopy(ours)
    step = fused_step(ours)
    optimizers = [adamw(model, SETTINGS) for model in theirs]
    for index, (tokens, targets) in enumerate(batches(3, 4)):
        rate = 1e-3 * (1 - index / 10)
        step(index, tokens, targets, rate, [0, 1, 2])
        for number, (model, optimizer) in enumerate(zip(theirs, optimizers, strict=True)):
            set_learning_rate(optimizer, rate)
            backward(model, tokens[number], targets[number])
            assert clip_grad_norm_(model.parameters(), SETTINGS.clip) > SETTINGS.clip
            optimizer.step()
            optimizer.zero_grad()
    tokens = next(batches(3, 1))[0][0]
    for pair in zip(ours, theirs, strict=True):
        logits = [predict(model, tokens) for model in pair]
        torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-4)
        if classifier:
            torch.testing.assert_close(*(m.logits for m in pair), rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(*(m.classifier.weight for m in pair), rtol=1e-4, atol=1e-5)


def test_warming_up_changes_nothing():
    """What is run before a CUDA graph is captured, here on a CPU."""
    step = FusedStep(models("pythia", 3), SETTINGS, loss, torch.float32)
    ((tokens, targets),) = batches(3, 1)
    step.adam.set_step(0, 1e-2)
    before = [tensor.clone() for group in step.weights.groups for tensor in group.updated]
    for seeds in step._portions(tokens):
        step._gradients(tokens, targets, seeds)
        step.adam.warm_up(seeds)
    after = [tensor for group in step.weights.groups for tensor in group.updated]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    step(0, tokens, targets, 1e-2, [0, 1, 2])
    assert not torch.equal(before[0], after[0])


def test_positions_that_are_no_longer_used_stay_where_they_are():
    (model,) = models("gpt2", 1)
    step = FusedStep([model], TrainingSettings(), loss, torch.float32)
    for length in (LENGTH, 4):
        ((tokens, targets),) = batches(1, 1, length)
        step._gradients(tokens, targets)
    assert step.weights.grad["positions"][0, 4:].abs().max() == 0
    assert step.weights.grad["positions"][0, :4].abs().min() > 0


def test_dropout_is_a_function_of_seed_and_step():
    def losses(seed, share=0.3):
        (model,) = models("gpt2", 1, share)
        step = FusedStep([model], SETTINGS, loss, torch.float32)
        return [step(i, *both, 0.0, [seed]).item() for i, both in enumerate(batches(1, 3))]

    assert losses(0) == losses(0)
    assert losses(0) != losses(1)
    assert losses(0) != losses(0, share=0.0)


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_a_run_with_the_fused_step_equals_one_without_and_resumes_exactly(tmp_path, model):
    settings = {"model": model, "dropout": 0.0, "grow": 0.5}
    whole, parts, plain = (Run(tmp_path / name) for name in ("whole", "parts", "plain"))
    recipe = toy(program=True, **settings)
    train(recipe, whole, Callback())
    train(recipe, parts, Recorder(stop_after=[7]), resume=True)
    train(recipe, parts, Callback(), resume=True)
    assert_same_run(whole, parts)
    train(toy(**settings), plain, Callback())
    for ours, theirs in zip(whole.metrics(), plain.metrics(), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_a_chain_with_classifiers_equals_one_without_and_resumes_exactly(tmp_path, model):
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


def test_a_chain_with_an_unsupported_stage_is_refused_before_any_work(tmp_path):
    chain = staged({"objective": "parity"}, {"objective": "state", "accumulate": 2}, program=True)
    with pytest.raises(StatetraceError, match="accumulate is 2"):
        train(chain, Run(tmp_path / "run"), Callback())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "llama"}, "model type llama is not gpt2 or gpt_neox"),
        ({"accumulate": 2}, "accumulate is 2"),
    ],
)
def test_what_the_fused_step_does_not_support_is_refused(tmp_path, settings, message):
    with pytest.raises(StatetraceError, match=message):
        train(toy(program=True, **settings), Run(tmp_path / "run"), Callback())
