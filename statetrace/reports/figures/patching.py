"""Patching heat maps: Figure 2, and Figures 8 and 9 of appendix B.

A cell at layer l and action t is the effect of overwriting the activations of a prefix, suffix or
window at that layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.interventions.sites import KINDS
from statetrace.reports.figures.chart import Chart, Heat, Panel, grid
from statetrace.reports.run_results import RunResults

if TYPE_CHECKING:
    from statetrace.inspection import PatchTable

METRICS = {"NLD": "nld", "probability": "probability"}
PAIRS = 4
"""Single pairs that can be shown, per split."""
MOST_TICKS = 12
"""Rows of heads that are all labelled; of more, the first head of each layer."""
STATISTICS = {"mean": "mean", "deviation": "std", "low": "low", "high": "high"}

_AXES = {
    "prefix": "prefix length",
    "suffix": "from this action on",
    "window": "action overwritten",
    "context": "all actions but the last",
}


def choices(results: RunResults) -> dict[str, list[str]]:
    """Control -> options."""
    result = results.need("patching")
    saved = "clean_state" in result.arrays
    pairs = [f"pair {n + 1}" for n in range(min(PAIRS, int(result.summary["pairs"])) * saved)]
    return {
        "map": [_title(name) for name in result.spec["grid_names"]],
        "pairs": [name for name, n in result.summary["pairs_by_split"].items() if n],
        "show": ["mean", "deviation", *pairs],
        "measure": [name for name, key in METRICS.items() if key in {*result.columns["metric"]}],
    }


def patching(
    results: RunResults, map: str = "", pairs: str = "all", show: str = "mean", measure: str = "NLD"
) -> Chart:
    """One heat map. `map` is a title from `choices`, by default the first grid."""
    result = results.need("patching")
    names = {_title(name): name for name in result.spec["grid_names"]}
    map = map or next(iter(names))
    one_of("map", map, names)
    name = names[map]
    sites = result.arrays[f"{name}.rows"]
    heads = bool((sites[:, 1] >= 0).any())
    more: tuple[tuple[str, Any], ...] = ()
    label, high = measure, 1.0
    if show.startswith("pair "):
        values, title = _pair(results, name, METRICS[measure], pairs, int(show[5:]) - 1)
    else:
        values, count, more = _statistics(results, name, pairs, METRICS[measure], show)
        title = f"{show} of {count} pairs"
        if show == "deviation":
            label = f"deviation of {measure}"
            high = max(0.1, float(np.nanmax(values)) if np.isfinite(values).any() else 0.0)
    x = list(range(1, values.shape[1] + 1))
    y = list(range(len(sites))) if heads else sites[:, 0].tolist()
    heat = Heat(x, y, grid(values), label, high=high, more=more)
    panel = _panel(name, heat, title, sites[:, :2].tolist() if heads else [])
    split = "all pairs" if pairs == "all" else f"{pairs} pairs"
    shown = label if show == "deviation" else f"{show} {measure}"
    return Chart("patching", f"{_title(name)}, {split}: {shown}", (panel,))


def own_pairs(table: PatchTable, metric: str = "nld") -> Chart:
    """The heat map of pairs of the caller's own (`model.patch`)."""
    name, heads = table.spec.name, any(site.head is not None for site in table.sites)
    values = table.mean(metric)
    rows = range(len(table.sites)) if heads else [site.layer for site in table.sites]
    label = "NLD" if metric == "nld" else metric.replace("_", " ")
    heat = Heat(list(range(1, values.shape[1] + 1)), list(rows), grid(values), label)
    count = "1 pair" if len(table) == 1 else f"mean of {len(table):,} pairs"
    sites = [(site.layer, -1 if site.head is None else site.head) for site in table.sites]
    panel = _panel(name, heat, count, sites if heads else [])
    return Chart("patching", f"{_title(name)}: {label}", (panel,))


def _panel(name: str, heat: Heat, title: str, sites: Sequence[Sequence[int]]) -> Panel:
    """`sites`: the layer and head of each row; empty where all rows are layers."""
    axis = _AXES[name.split("-")[0].rstrip("0123456789")]
    rows = "layer and head" if sites else "layer"
    ticks = tuple(
        (float(row), f"{layer}, {head}" if head >= 0 else f"{layer}")
        for row, (layer, head) in enumerate(sites)
        if head <= 0 or len(sites) <= MOST_TICKS
    )
    return Panel(axis, rows, (heat,), title, down=True, whole="xy", y_ticks=ticks, tall=1.2)


def _title(name: str) -> str:
    """ "prefix-substitution-resid" -> "prefix substitution"; sites other than resid are named."""
    where, what, *rows = name.split("-")
    where = "window" if where == "window1" else where
    return f"{where} {what}" + (f" of {'-'.join(rows)}" if rows and rows != ["resid"] else "")


def _statistics(
    results: RunResults, name: str, split: str, metric: str, show: str
) -> tuple[np.ndarray, int, tuple[tuple[str, Any], ...]]:
    """One statistic over the pairs of a split [sites, T], the number of pairs, and the others."""
    where, what, kind = name.split("-", 2)
    selection: dict[str, Any] = {"where": where.rstrip("0123456789"), "what": what}
    selection["window"] = int(where.lstrip("abcdefghijklmnopqrstuvwxyz") or 0) or None
    selection |= {"kind": kind} if kind in KINDS else {}  # else sites of any kind, listed by name
    selection |= {"metric": metric, "split": split}
    result = results.need("patching")
    counts = result.grid("n", **selection)
    if not counts.size:
        raise StatetraceError(f"the patching table has no rows for '{name}', pairs '{split}'")
    statistics = {label: result.grid(key, **selection) for label, key in STATISTICS.items()}
    values = statistics.pop(show)
    more = tuple((label, grid(cells)) for label, cells in statistics.items())
    return values, int(np.nanmax(counts)), more


def _pair(
    results: RunResults, name: str, metric: str, split: str, number: int
) -> tuple[np.ndarray, str]:
    """The map of a single pair [sites, T], and a title with its first actions and answers."""
    arrays = results.need("patching").arrays
    members = np.flatnonzero(_in_split(results, split))
    if number >= len(members):
        raise StatetraceError(f"there is no pair {number + 1} among '{split}'")
    at = int(members[number])
    runs = []
    for kind in ("clean", "corrupted"):
        action, answer = arrays[f"{kind}_actions"][at, 0], arrays[f"{kind}_answer"][at]
        runs.append(f"{results.group.labels[int(action)]}… → {results.group.labels[int(answer)]}")
    return arrays[f"{name}.{metric}"][:, :, at].astype(float), ";  ".join(runs)


def _in_split(results: RunResults, split: str) -> np.ndarray:
    arrays = results.need("patching").arrays
    clean, corrupted = arrays["clean_state"], arrays["corrupted_state"]
    if split == "all":
        return np.ones(len(clean), dtype=bool)
    kind, quotient = split.split(" ", 1)
    image = results.group.quotient(quotient).map
    same: np.ndarray = image[clean] == image[corrupted]
    return same if kind == "same" else ~same
