"""Patch grids: the last-position logits of every cell (site x window) of a heat map and every pair.

Purpose: the result of one hooked forward pass per cell and pair, in a fraction of the time;
cached.py explains what is reused and why that is exact. Families without support for cached
patching are patched with hooks (hooks.py).
Cost: see cached.py. As many pairs are processed at a time as fit into free memory.
Caveat: the logits of a large vocabulary take much memory; use `keep`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.interventions.cached import CachedPatcher, tokens_per_pass
from statetrace.interventions.hooks import HookPatcher
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec, Window
from statetrace.models import Anatomy, anatomy
from statetrace.models.device import free_bytes
from statetrace.models.memory import in_pieces
from statetrace.models.predict import evaluating

Keep = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logits of some cells [cells, pairs, V], clean logits [pairs, V], corrupted logits [pairs, V])
-> values to keep [cells, pairs, K]."""

METHODS = ("auto", "cached", "hooks")

Planned = tuple[GridSpec, tuple[Site, ...], tuple[Window, ...]]

SHARE_OF_FREE_MEMORY = 0.5
PASSES_AHEAD = 16
"""Pairs per batch, in passes; more would only take memory."""


@dataclass(frozen=True)
class Grid:
    """One heat map. R rows, C columns, P pairs.

    Attributes:
        spec: the definition of the map.
        sites: the R rows.
        windows: the positions [start, stop) that each of the C columns overwrites.
        values: [R, C, P, K] on the CPU, in float32 at least: logits (K = V), or the output of
            `keep`.
    """

    spec: GridSpec
    sites: tuple[Site, ...]
    windows: tuple[Window, ...]
    values: Tensor


@dataclass(frozen=True)
class PatchGrids:
    """Grids over the same pairs, and the unpatched last-position logits [P, V], on the CPU."""

    grids: tuple[Grid, ...]
    clean: Tensor
    corrupted: Tensor


def patch_grid(
    model: Any,
    clean: Tensor,
    corrupted: Tensor,
    specs: GridSpec | Sequence[GridSpec],
    *,
    offset: int = 0,
    stride: int = 1,
    keep: Keep | None = None,
    batch: int | None = None,
    method: str = "auto",
    progress: Callable[[float], None] = lambda share: None,
) -> PatchGrids:
    """Compute heat maps over pairs of inputs. Both inputs are run once for all maps.

    Args:
        clean, corrupted: tokens [P, T], on the device of the model.
        offset: tokens before the first action.
        stride: tokens per action; column t of a grid begins at token offset + t * stride.
        keep: reduces the logits; None keeps all of them.
        batch: maximum sequences (cells times pairs) at a time; None for what fits. It is halved
            when memory runs out.
        method: "cached" recomputes only what a patch can change, "hooks" runs a full forward pass
            per cell; "auto" uses "cached" where the family supports it.
    """
    specs = (specs,) if isinstance(specs, GridSpec) else tuple(specs)
    reader = anatomy(model)
    _check(reader, clean, corrupted, method)
    pairs, length = clean.shape
    plan = [(spec, spec.sites(reader), spec.windows(length, offset, stride)) for spec in specs]
    cached = reader.fast if method == "auto" else method == "cached"
    batch = batch or _sequences_that_fit(reader, length, clean.device)
    parts: list[tuple[list[Tensor], Tensor, Tensor]] = []

    def work(first: int, last: int) -> None:
        def share(inner: float) -> None:
            progress((first + inner * (last - first)) / pairs)

        cells = max(1, batch // (last - first))
        patcher = _patcher(reader, clean[first:last], corrupted[first:last], plan, cached, cells)
        parts.append(_run_plan(patcher, plan, reader.layers, keep, share))

    with evaluating(model):
        in_pieces(pairs, batch, work)
    values, clean_logits, corrupted_logits = zip(*parts, strict=True)
    by_grid = zip(plan, zip(*values, strict=True), strict=True)
    grids = tuple(Grid(*planned, torch.cat(pieces, dim=2)) for planned, pieces in by_grid)
    return PatchGrids(grids, torch.cat(clean_logits), torch.cat(corrupted_logits))


def _patcher(
    reader: Anatomy,
    clean: Tensor,
    corrupted: Tensor,
    plan: Sequence[Planned],
    cached: bool,
    cells: int,
) -> CachedPatcher | HookPatcher:
    """Run both inputs; later passes have at most `cells` cells."""
    donors = {s for spec, sites, _ in plan if spec.what == "substitution" for s in sites}
    if not cached:
        return HookPatcher(reader.model, clean, corrupted, sorted(donors), cells)
    kinds = {site.kind for _, sites, _ in plan for site in sites}
    return CachedPatcher(reader, clean, corrupted, bool(donors), kinds != {"resid"}, cells)


def _run_plan(
    patcher: CachedPatcher | HookPatcher,
    plan: Sequence[Planned],
    layers: int,
    keep: Keep | None,
    progress: Callable[[float], None],
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Every grid [R, C, p, K] over the pairs of one patcher, and the logits of its two inputs."""
    clean, corrupted = patcher.clean_logits, patcher.corrupted_logits  # [p, V]

    def reduce(logits: Tensor) -> Tensor:
        return logits if keep is None else keep(logits, clean, corrupted)

    # A row at layer l has L - l blocks above it, plus a fixed cost.
    costs = [[layers - site.layer + 1 for site in sites] for _, sites, _ in plan]
    done, total = 0, sum(map(sum, costs))
    values = []
    for (spec, sites, windows), row_costs in zip(plan, costs, strict=True):
        rows = []
        for site, cost in zip(sites, row_costs, strict=True):
            rows.append(_on_cpu(torch.stack(patcher.row(site, spec.what, windows, reduce))))
            done += cost
            progress(done / total)
        values.append(torch.stack(rows))
    return values, _on_cpu(clean), _on_cpu(corrupted)


def _on_cpu(values: Tensor) -> Tensor:
    """In float32 at least, because CPUs may not support half precision."""
    return values.to(torch.promote_types(values.dtype, torch.float32)).cpu()


def _sequences_that_fit(reader: Anatomy, length: int, device: torch.device) -> int:
    """The number of sequences that fit into memory with their caches, by a conservative estimate,
    but no more than keep the device busy."""
    vectors = (20 * reader.layers + 40) * reader.width  # caches; activations of one block
    logits = 4 * reader.model.config.get_text_config().vocab_size
    each = (vectors + logits) * length * reader.model.dtype.itemsize
    fit = int(SHARE_OF_FREE_MEMORY * free_bytes(device)) // each
    return max(1, min(fit, PASSES_AHEAD * tokens_per_pass(device) // length))


def _check(reader: Anatomy, clean: Tensor, corrupted: Tensor, method: str) -> None:
    if clean.ndim != 2 or clean.shape != corrupted.shape or not len(clean):
        raise StatetraceError(
            f"clean and corrupted tokens have the shapes {tuple(clean.shape)} and "
            f"{tuple(corrupted.shape)}; both must be [pairs, length], with at least one pair"
        )
    if reader.max_length is not None and clean.shape[1] > reader.max_length:
        raise StatetraceError(
            f"{clean.shape[1]} tokens exceed the {reader.max_length} positions of the model; use "
            "shorter sequences"
        )
    one_of("method", method, METHODS)
    if method == "cached" and not reader.fast:
        raise StatetraceError(
            f"{reader.model.config.model_type!r} models do not support cached patching; use "
            "method = 'auto'"
        )
