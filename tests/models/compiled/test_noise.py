"""Noise on the weights: none at 0, harmless when small, fatal when large."""

import pytest
import torch

from statetrace.models.compiled import CompileSpec, compile_model
from statetrace.models.compiled.compile import add_noise
from tests.models.compiled.cases import ALGORITHMS, accuracy, counts

HARMLESS = {
    "sequential": 0.003,
    "associative": 0.015,
    "parity-associative": 1e-3,
    "parallel": 3e-4,
}
"""At length 8; counts stand or fall with steps that are close together."""


def weights(model):
    return {key: parameter.detach() for key, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_noise_changes_nothing(name):
    spec = CompileSpec(algorithm=name, length=6)
    model, quiet = compile_model(spec), compile_model(spec)
    add_noise(quiet, 0.0, seed=1)
    assert all(torch.equal(p, weights(model)[key]) for key, p in quiet.named_parameters())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_small_noise_is_harmless(name, seed):
    spec = CompileSpec(algorithm=name, length=8, noise=HARMLESS[name], seed=seed)
    assert accuracy(spec) >= 0.98


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_large_noise_is_fatal(name, seed):
    noise = 0.05 if counts(name) else 0.3
    assert accuracy(CompileSpec(algorithm=name, length=8, noise=noise, seed=seed)) < 0.6


def test_its_size_is_what_the_spec_says():
    """In units of the weights into the same unit, or out of it into the residual stream."""
    spec = CompileSpec(length=8)
    level = 0.1
    before = weights(compile_model(spec))
    noisy = weights(compile_model(CompileSpec(length=8, noise=level)))
    for key, parameter in noisy.items():
        change = parameter - before[key]
        if parameter.dim() < 2:  # biases and norms
            assert not change.any(), key
            continue
        axis = 0 if "c_attn" in key or "c_fc" in key else 1
        size = before[key].square().mean(axis).sqrt()
        size[size == 0] = size.mean()  # units that say nothing
        drawn = change.square().mean(axis).sqrt() / size
        assert drawn.mean().item() == pytest.approx(level, rel=0.1), key
        assert drawn.max() < 3 * level


def test_seeds_draw_different_noise():
    one, two = (compile_model(CompileSpec(length=4, basis="plain")) for _ in range(2))
    for seed, model in enumerate((one, two)):
        add_noise(model, 0.01, seed)
    assert not torch.equal(one.lm_head.weight, two.lm_head.weight)
