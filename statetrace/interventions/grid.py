"""The patch grid: last-position logits for every cell (site x place) of a heat map, and every pair.

Purpose: what one forward pass with hooks per cell and pair would give, in a fraction of the time:
see fast.py for what is reused and why that is exact. Families without a fast road take the plain
road (plain.py) by themselves.
Cost: fast.py. Pairs are taken as many at a time as fit into free memory, and fewer if not.
Caveat: all logits of a model with a large vocabulary are many: `keep` only what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.interventions.cached import CachedPatcher, tokens_per_pass
from statetrace.interventions.capture import evaluating
from statetrace.interventions.hooks import HookPatcher
from statetrace.interventions.memory import in_pieces
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec, Window
from statetrace.models import Anatomy, anatomy
from statetrace.models.device import free_bytes

Keep = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logits of some cells [cells, pairs, V], clean logits [pairs, V], corrupted logits [pairs, V])
-> what is kept of the cells [cells, pairs, K]."""

Planned = tuple[GridSpec, tuple[Site, ...], tuple[Window, ...]]

SHARE_OF_FREE_MEMORY = 0.5
PASSES_AHEAD = 16
"""Pairs are held as if this many passes ran at once; more would only take memory."""


@dataclass(frozen=True)
class Grid:
    """One heat map. R rows, C columns, P pairs.

    Attributes:
        spec: what was asked for.
        sites: the R rows.
        windows: the positions [start, stop) that each of the C columns overwrites.
        values: [R, C, P, K] on the CPU, in float32 at least: logits (K = V), or what `keep` made
            of them.
    """

    spec: GridSpec
    sites: tuple[Site, ...]
    windows: tuple[Window, ...]
    values: Tensor


@dataclass(frozen=True)
class PatchGrids:
    """Grids over the same pairs, and the unpatched runs at the last position [P, V], on the CPU."""

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
    road: str = "auto",
    progress: Callable[[float], None] = lambda share: None,
) -> PatchGrids:
    """Compute heat maps over pairs of inputs; both are run once, whatever the number of maps.

    Args:
        clean, corrupted: tokens [P, T], on the model's device.
        offset: tokens before the first action.
        stride: tokens of an action; column t of a grid begins at token offset + t * stride.
        keep: what to keep of the logits; None for all of them.
        batch: most sequences (cells times pairs) at a time; None for what fits. Either way it is
            halved when memory runs out.
        road: "plain" or "fast"; "auto" takes the fast road where the family has one.
    """
    specs = (specs,) if isinstance(specs, GridSpec) else tuple(specs)
    reader = anatomy(model)
    _check(reader, clean, corrupted, road)
    pairs, length = clean.shape
    plan = [(spec, spec.sites(reader), spec.windows(length, offset, stride)) for spec in specs]
    fast = reader.fast if road == "auto" else road == "fast"
    batch = batch or _sequences_that_fit(reader, length, clean.device)
    parts: list[tuple[list[Tensor], Tensor, Tensor]] = []

    def work(first: int, last: int) -> None:
        def share(inner: float) -> None:
            progress((first + inner * (last - first)) / pairs)

        cells = max(1, batch // (last - first))
        lane = _road(reader, clean[first:last], corrupted[first:last], plan, fast, cells)
        parts.append(_run_plan(lane, plan, reader.layers, keep, share))

    with evaluating(model):
        in_pieces(pairs, batch, work)
    values, clean_logits, corrupted_logits = zip(*parts, strict=True)
    grids = [
        Grid(*planned, values=torch.cat([part[i] for part in values], dim=2))
        for i, planned in enumerate(plan)
    ]
    return PatchGrids(tuple(grids), torch.cat(clean_logits), torch.cat(corrupted_logits))


def _road(
    reader: Anatomy,
    clean: Tensor,
    corrupted: Tensor,
    plan: Sequence[Planned],
    fast: bool,
    cells: int,
) -> CachedPatcher | HookPatcher:
    """Runs both inputs; later passes hold at most so many cells."""
    donors = {s for spec, sites, _ in plan if spec.what == "substitution" for s in sites}
    if not fast:
        return HookPatcher(reader.model, clean, corrupted, sorted(donors), cells)
    kinds = {site.kind for _, sites, _ in plan for site in sites}
    return CachedPatcher(reader, clean, corrupted, bool(donors), kinds != {"resid"}, cells)


def _run_plan(
    lane: CachedPatcher | HookPatcher,
    plan: Sequence[Planned],
    layers: int,
    keep: Keep | None,
    progress: Callable[[float], None],
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Every grid [R, C, p, K] over the pairs of one lane, and the logits of its two inputs."""
    clean, corrupted = lane.clean_logits, lane.corrupted_logits  # [p, V]

    def kept(logits: Tensor) -> Tensor:
        return logits if keep is None else keep(logits, clean, corrupted)

    # A row at layer l has L - l blocks above it; one more for what every row costs.
    costs = [[layers - site.layer + 1 for site in sites] for _, sites, _ in plan]
    done, total = 0, sum(map(sum, costs))
    values = []
    for (spec, sites, windows), row_costs in zip(plan, costs, strict=True):
        rows = []
        for site, cost in zip(sites, row_costs, strict=True):
            rows.append(_on_cpu(torch.stack(lane.row(site, spec.what, windows, kept))))
            done += cost
            progress(done / total)
        values.append(torch.stack(rows))
    return values, _on_cpu(clean), _on_cpu(corrupted)


def _on_cpu(values: Tensor) -> Tensor:
    """In float32 at least: half precision is for the device, and not safe on every CPU."""
    return values.to(torch.promote_types(values.dtype, torch.float32)).cpu()


def _sequences_that_fit(reader: Anatomy, length: int, device: torch.device) -> int:
    """How many sequences memory can hold with all that is cached for them, counted generously;
    no more than keep the device busy."""
    vectors = (20 * reader.layers + 40) * reader.width  # caches; activations of one block
    logits = 4 * reader.model.config.get_text_config().vocab_size
    each = (vectors + logits) * length * reader.model.dtype.itemsize
    fit = int(SHARE_OF_FREE_MEMORY * free_bytes(device)) // each
    return max(1, min(fit, PASSES_AHEAD * tokens_per_pass(device) // length))


def _check(reader: Anatomy, clean: Tensor, corrupted: Tensor, road: str) -> None:
    if clean.ndim != 2 or clean.shape != corrupted.shape or not len(clean):
        raise StatetraceError(
            f"clean and corrupted tokens have the shapes {tuple(clean.shape)} and "
            f"{tuple(corrupted.shape)}: both must be [pairs, length], with at least one pair"
        )
    if reader.max_length is not None and clean.shape[1] > reader.max_length:
        raise StatetraceError(
            f"{clean.shape[1]} tokens are more than the model's {reader.max_length} positions: "
            "use shorter sequences"
        )
    if road not in ("auto", "fast", "plain"):
        raise StatetraceError(f"road = {road!r} is unknown: use auto, fast or plain")
    if road == "fast" and not reader.fast:
        raise StatetraceError(
            f"{reader.model.config.model_type!r} models have no fast road: use road = 'auto'"
        )
