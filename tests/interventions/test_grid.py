"""The patch grid against one plain forward pass per cell."""

from typing import Any

import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions import cached as fast
from statetrace.interventions.grid import patch_grid
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from statetrace.models import anatomy
from tests.interventions.cases import (
    LENGTH,
    PAIRS,
    SPECS,
    WHAT,
    model_named,
    one_cell_at_a_time,
    pairs,
)

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
SUBSTITUTIONS = tuple(spec for spec in SPECS.values() if spec.what == "substitution")
EVERY = tuple(SPECS.values())
# Llama computes its norms in float32 whatever the model's type.
FAMILIES = {
    "gpt2": torch.float64,
    "pythia": torch.float64,
    "pythia-sequential": torch.float64,
    "llama-grouped": torch.float32,
    "qwen": torch.float32,
    "gemma-wide-heads": torch.float32,
}


def assert_exact(model: Any, inputs: Any, specs: tuple[GridSpec, ...], **options: Any) -> None:
    found = patch_grid(model, *inputs, specs, **options)
    offset = options.get("offset", 0)
    for spec, grid in zip(specs, found.grids, strict=True):
        expected = one_cell_at_a_time(model, *inputs, spec, offset)
        assert grid.values.shape == expected.shape
        error = (grid.values - expected).abs().max()
        assert error <= TOLERANCE[model.dtype], (spec.name, error)
    with torch.no_grad():
        for tokens, logits in zip(inputs, (found.clean, found.corrupted), strict=True):
            error = (model(tokens).logits[:, -1] - logits).abs().max()
            assert error <= TOLERANCE[model.dtype]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_grid_is_exact(name):
    assert_exact(model_named(name, FAMILIES[name]), pairs((0,)), EVERY, method="cached")


@pytest.mark.parametrize("corrupt_at", [(1,), (3,), (LENGTH - 1,), (2, 4)], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_wherever_the_inputs_differ(name, corrupt_at):
    """Deletion is not asked again: the corrupted input has no part in it."""
    model = model_named(name, FAMILIES[name])
    assert_exact(model, pairs(corrupt_at), SUBSTITUTIONS, method="cached")


@pytest.mark.parametrize("name", ["gpt2", "pythia"])
def test_float32_is_exact_too(name):
    assert_exact(model_named(name), pairs((1,)), EVERY, method="cached", offset=1)


def test_the_comparison_can_fail():
    """Cells differ from each other, and from the unpatched runs, by far more than is tolerated."""
    model = model_named("gpt2", torch.float64)
    clean, corrupted = pairs((0,))
    found = patch_grid(model, clean, corrupted, EVERY)
    for grid in found.grids:
        middle = grid.values[1]  # [columns, pairs, V]
        if grid.spec.where != "context":  # which has one column
            assert (middle[1:] - middle[:-1]).abs().amax((1, 2)).min() > 1e-4, grid.spec.name
        one = middle[min(1, len(middle) - 1)]
        assert (one - found.clean).abs().max() > 1e-4, grid.spec.name
        assert (one - found.corrupted).abs().max() > 1e-4, grid.spec.name


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "gptj"])
def test_patching_with_hooks_is_exact(name):
    method = "hooks" if name == "gpt2" else "auto"
    assert_exact(model_named(name), pairs((2,)), EVERY, method=method, offset=1)


def test_a_model_without_attention_is_patched_with_hooks():
    model = model_named("mamba")
    specs = tuple(GridSpec("prefix", what) for what in WHAT)
    assert_exact(model, pairs((1,)), specs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["gpt2", "pythia"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exact_on_cuda(name, dtype):
    model = model_named(name, dtype).cuda()
    clean, corrupted = (tokens.cuda() for tokens in pairs((0,)))
    for spec in EVERY:
        found = patch_grid(model, clean, corrupted, spec).grids[0].values
        expected = one_cell_at_a_time(model, clean, corrupted, spec).cpu()
        assert (found - expected).abs().max() <= TOLERANCE[dtype], spec.name


# Batches and memory


@pytest.mark.parametrize("method", ["cached", "hooks"])
@pytest.mark.parametrize("batch", [1, 2, 7, None])
@pytest.mark.parametrize("tokens", [1, 30, 10_000])
def test_the_size_of_batches_does_not_matter(monkeypatch, method, batch, tokens):
    model = model_named("pythia", torch.float64)
    specs = (GridSpec(), GridSpec("window", "deletion", "mlp_out"))
    expected = patch_grid(model, *pairs((1,)), specs, batch=PAIRS, method="cached")
    monkeypatch.setitem(fast.TOKENS_PER_PASS, "cpu", tokens)
    found = patch_grid(model, *pairs((1,)), specs, batch=batch, method=method)
    for one, other in zip(found.grids, expected.grids, strict=True):
        assert (one.values - other.values).abs().max() < 1e-10
    assert (found.corrupted - expected.corrupted).abs().max() < 1e-10


@pytest.mark.parametrize(("most_pairs", "most_cells"), [(4, 2), (3, 1), (1, 3)])
def test_out_of_memory_gives_the_same_numbers(monkeypatch, most_pairs, most_cells):
    model = model_named("gpt2", torch.float64)
    inputs = pairs((0,), n=5)
    specs = (GridSpec(), GridSpec("suffix", "deletion", "attn_out"))
    expected = patch_grid(model, *inputs, specs)
    monkeypatch.setitem(fast.TOKENS_PER_PASS, "cpu", 10_000)
    failures = []
    run_tokens, tail = fast.run_tokens, fast.CachedPatcher._tail

    def small_run(read: Any, tokens: torch.Tensor, hold: frozenset[str]) -> Any:
        if len(tokens) > most_pairs:
            failures.append("run")
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run_tokens(read, tokens, hold)

    def small_tail(self: Any, layer: int, *runs: Any) -> Any:
        if len(runs[3]) > most_cells:
            failures.append("tail")
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return tail(self, layer, *runs)

    monkeypatch.setattr(fast, "run_tokens", small_run)
    monkeypatch.setattr(fast.CachedPatcher, "_tail", small_tail)
    found = patch_grid(model, *inputs, specs)
    assert set(failures) == {"run", "tail"}
    for one, other in zip(found.grids, expected.grids, strict=True):
        assert (one.values - other.values).abs().max() < 1e-10


def test_memory_that_is_never_enough_is_an_error(monkeypatch):
    def never(*args: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(fast.CachedPatcher, "_tail", never)
    with pytest.raises(torch.OutOfMemoryError):
        patch_grid(model_named("gpt2"), *pairs(), GridSpec())


# What is computed, and what is not


def test_both_inputs_are_run_once(monkeypatch):
    seen = []
    run_tokens = fast.run_tokens

    def counted(read: Any, tokens: torch.Tensor, hold: frozenset[str]) -> Any:
        seen.extend(map(tuple, tokens.tolist()))
        return run_tokens(read, tokens, hold)

    monkeypatch.setattr(fast, "run_tokens", counted)
    clean, corrupted = pairs((0,), n=4)
    patch_grid(model_named("gpt2"), clean, corrupted, EVERY, batch=3)
    assert sorted(seen) == sorted(map(tuple, clean.tolist() + corrupted.tolist()))


@pytest.mark.parametrize("where", ["prefix", "suffix", "window"])
@pytest.mark.parametrize("what", WHAT)
def test_only_what_can_change_is_recomputed(monkeypatch, where, what):
    """Positions that go through the MLPs, against those of one full forward pass per cell."""
    monkeypatch.setitem(fast.TOKENS_PER_PASS, "cpu", 1)
    model = model_named("gpt2")
    clean, corrupted = pairs((0,), length=20)
    passed = 0

    def count(module: Any, args: Any, output: torch.Tensor) -> None:
        nonlocal passed
        passed += output.shape[0] * output.shape[1]

    for mlp in anatomy(model).mlp:
        mlp.register_forward_hook(count)
    spec = GridSpec(where, what)
    patch_grid(model, clean, corrupted, spec, batch=PAIRS)
    layers, length = 3, 20
    both_inputs = 2 * layers * length * PAIRS
    # A row at layer l has L - l - 1 whole blocks above it, over half of the positions on average,
    # and one position in the last block. Rows at 0 need nothing new for a substitution.
    rows = range(1, layers) if what == "substitution" and where == "prefix" else range(layers)
    half = length * (length + 1) // 2
    tails = sum((layers - row - 1) * half + length for row in rows) * PAIRS
    full_runs = 0 if what == "substitution" else sum(layers - row for row in rows) * length
    assert passed <= both_inputs + tails + full_runs
    everything = (layers + 1) * len(spec.windows(length, 0)) * layers * length * PAIRS
    assert passed < everything / 3


def test_equal_inputs_change_nothing():
    model = model_named("pythia", torch.float64)
    clean, _ = pairs()
    found = patch_grid(model, clean, clean, SUBSTITUTIONS)
    for grid in found.grids:
        assert torch.equal(grid.values, found.clean.expand_as(grid.values))


def test_keep_sees_the_unpatched_answers():
    model = model_named("gpt2")
    inputs = pairs((0,), n=5)
    every = patch_grid(model, *inputs, GridSpec())

    def keep(cells: torch.Tensor, clean: torch.Tensor, corrupted: torch.Tensor) -> torch.Tensor:
        assert clean.shape == corrupted.shape == cells.shape[1:]
        best = torch.stack((clean.argmax(-1), corrupted.argmax(-1)), dim=-1)
        return cells.gather(-1, best.expand(len(cells), -1, -1))

    kept = patch_grid(model, *inputs, GridSpec(), keep=keep, batch=2).grids[0].values
    expected = keep(every.grids[0].values.flatten(0, 1), every.clean, every.corrupted)
    torch.testing.assert_close(kept.flatten(0, 1), expected)


def test_progress_rises_to_one_and_modes_are_put_back():
    model = model_named("gpt2").train()
    shares: list[float] = []
    found = patch_grid(model, *pairs(n=5), EVERY, batch=2, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.1
    assert shares[-1] == 1
    assert model.training
    again = patch_grid(model, *pairs(n=5), EVERY, batch=2)  # no dropout
    assert torch.equal(found.grids[0].values, again.grids[0].values)


def test_rows_of_choice():
    model = model_named("gpt2")
    sites = (Site("mlp_out", 2), Site("resid", 1))
    found = patch_grid(model, *pairs(), GridSpec(rows=sites)).grids[0]
    assert found.sites == sites
    for row, kind, layer in ((0, "mlp_out", 1), (1, "resid", 1)):
        expected = patch_grid(model, *pairs(), GridSpec(rows=kind)).grids[0]
        torch.testing.assert_close(found.values[row], expected.values[layer])


def test_errors():
    model = model_named("gpt2")
    clean, corrupted = pairs()
    for bad in (clean[:2], clean[:, :3], clean[0]):
        with pytest.raises(StatetraceError, match=r"have the shapes \(3, 7\) and"):
            patch_grid(model, clean, bad, GridSpec())
    long = torch.zeros(1, 65, dtype=torch.long)
    with pytest.raises(StatetraceError, match="65 tokens exceed the 64 positions"):
        patch_grid(model, long, long, GridSpec())
    with pytest.raises(StatetraceError, match="method 'slow' is unknown"):
        patch_grid(model, clean, corrupted, GridSpec(), method="slow")
    with pytest.raises(StatetraceError, match="'qwen2' models do not support cached patching"):
        patch_grid(model_named("qwen2"), clean, corrupted, GridSpec(), method="cached")
