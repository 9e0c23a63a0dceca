"""Models of one shape measured together: the evidence of each equals that of the model alone."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from statetrace import zoo
from statetrace.config.compile_spec import CompileSpec
from statetrace.lenses.compiled import task_of
from statetrace.lenses.depth import depth, runs, stacked_depth
from statetrace.lenses.generalization import generalization, stacked_generalization
from statetrace.lenses.loading import load_external
from statetrace.lenses.parts.pairs import draw_pairs
from statetrace.lenses.specs import DepthSpec, GeneralizationSpec
from statetrace.models import ModelSpec, anatomy, build, stack
from statetrace.models.compiled import compile_model
from statetrace.models.stack import ModelStack
from statetrace.tasks.word_problem import word_problem

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]


def random_models(family, marker):
    task = word_problem("S3", 6, start_marker=marker)
    spec = ModelSpec(family, layers=2, width=16, heads=2)
    models = [build(spec, task.vocabulary.size, 14, seed=seed).eval() for seed in range(3)]
    for model in models:
        for parameter in model.parameters():
            parameter.data *= 4  # answers that depend on what is read
    return models, task


def compiled_models(family, marker):
    """They differ in basis and noise; there is no compiled Pythia."""
    specs = [
        CompileSpec(algorithm="associative", length=6, start_marker=marker, noise=noise, seed=seed)
        for seed, noise in enumerate((0.0, 0.02, 0.1))
    ]
    return [compile_model(spec).eval() for spec in specs], task_of(specs[0])


def trained_models(family, marker):
    """A bundled model with some noise on its weights."""
    names = {("gpt2", True): "s3-associative", ("gpt2", False): "s3-no-marker"}
    external = zoo.external(names.get((family, marker), "s3-rotary"))
    loaded = load_external(Path(external.folder), external, "cpu")
    models = [loaded.model]
    generator = torch.Generator().manual_seed(0)
    for noise in (0.02, 0.1):
        models.append(copy.deepcopy(loaded.model))
        for parameter in models[-1].parameters():
            more = torch.randn(parameter.shape, generator=generator)
            parameter.data += noise * parameter.data.square().mean().sqrt() * more
    return models, loaded.task.at_length(8)


CASES = [
    *((random_models, family, marker) for family in ("gpt2", "pythia") for marker in (True, False)),
    *((compiled_models, "gpt2", marker) for marker in (True, False)),
    *((trained_models, *case) for case in (("gpt2", True), ("gpt2", False), ("pythia", True))),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("models_of", "family", "marker"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_each_as_if_alone(models_of, family, marker, device, monkeypatch):
    monkeypatch.setitem(stack.NUMBERS, "cpu", 1 << 24)  # all three at once
    models, task = models_of(family, marker)
    models = [model.to(device) for model in models]
    pairs = draw_pairs(task, 40, task.length, 0, seed=0)
    expected = [runs(ModelStack([model]), task, pairs)["logits"][0] for model in models]
    assert max(abs(expected[0] - expected[1]).max(), abs(expected[0] - expected[2]).max()) > 1e-3
    measured = runs(ModelStack(models), task, pairs)["logits"]
    # one pair may lie where attention tips over
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-4 * abs(measured).max())
    lenses = {
        depth: (stacked_depth, DepthSpec(pairs=40, lengths=(2, 3, 6))),
        generalization: (stacked_generalization, GeneralizationSpec(sequences=60, bootstrap=20)),
    }
    for alone, (together, spec) in lenses.items():
        expected = [alone(model, task, spec) for model in models]
        measured = together(models, task, spec)
        for one, other in zip(expected, measured, strict=True):
            assert_close(one.columns, other.columns)
            assert_close(one.arrays, other.arrays)
            assert_close(one.summary, other.summary)
            assert (one.notes, one.spec) == (other.notes, other.spec)


def assert_close(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_close(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_close(mine, theirs)
    elif isinstance(one, float | np.ndarray):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    else:
        assert one == other


def test_a_stack_is_computed_at_once_in_pieces_that_fit(monkeypatch):
    models, task = random_models("gpt2", True)
    tokens = task.encode(torch.tensor([[0, 1, 2], [3, 4, 5]]))
    calls = []

    def forward(model):
        calls.append(model)
        return anatomy(model).forward(tokens)

    expected = torch.stack([anatomy(model).forward(tokens) for model in models])
    for numbers, times in ((1 << 24, 1), (2 * tokens.numel() * 16, 2), (1, 3)):
        monkeypatch.setitem(stack.NUMBERS, "cpu", numbers)
        calls.clear()
        measured = ModelStack(models).each(forward, tokens.numel())
        torch.testing.assert_close(measured, expected.detach(), rtol=0, atol=1e-5)
        assert len(calls) == times
    monkeypatch.setattr(sys.modules["statetrace.models.anatomy"], "MOST_ROWS", 2)
    monkeypatch.setitem(stack.NUMBERS, "cpu", 1 << 24)
    measured = ModelStack(models).each(forward, tokens.numel())
    torch.testing.assert_close(measured, expected.detach(), rtol=0, atol=1e-5)


def test_models_that_are_not_alike_are_computed_one_by_one(monkeypatch):
    monkeypatch.setitem(stack.NUMBERS, "cpu", 1 << 24)
    models, task = random_models("gpt2", True)
    config = copy.deepcopy(models[1].config)
    config.layer_norm_epsilon = 0.5
    models[1] = type(models[1])(config).eval()
    models[1].load_state_dict(models[0].state_dict())
    pairs = draw_pairs(task, 10, 4, 0, seed=0)
    expected = [runs(ModelStack([model]), task, pairs)["logits"][0] for model in models]
    assert abs(expected[0] - expected[1]).max() > 1e-2
    np.testing.assert_array_equal(runs(ModelStack(models), task, pairs)["logits"], expected)


def test_modes_are_restored():
    models, _ = random_models("pythia", False)
    models[0].train()
    ModelStack(models).each(lambda model: model.get_input_embeddings().weight.sum(), 1)
    assert [model.training for model in models] == [True, False, False]
