"""Patching heat maps: Figure 2, and Figures 8 and 9 of appendix B.

A cell at layer l and action t is what comes back (or is lost) when the activations of a prefix,
suffix or window at that layer are overwritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.report.figures.chart import Chart, Heat, Panel, grid
from statetrace.report.run_results import RunResults

NAME = "patching"
TITLE = "Activation patching"
ABOUT = (
    "Each cell: activations at one layer are overwritten, for all actions of a prefix, a suffix or "
    "a window, and the answer is looked at. NLD, the normalized logit difference, is 1 where a "
    "substitution brings the clean answer back (or a deletion destroys it) and 0 where it makes no "
    "difference. Association shows as a prefix that must be twice as long with every layer; a "
    "parity that is counted first shows as opposite-parity pairs settled early."
)
METRICS = {"NLD": "nld", "probability": "probability"}
KINDS = ("resid", "attn_out", "mlp_out", "head")
"""As in interventions/sites.py, which needs torch."""
PAIRS = 4
"""Raw pairs that can be looked at one by one, per split."""

_AXES = {
    "prefix": "prefix length",
    "suffix": "from this action on",
    "window": "action overwritten",
    "context": "all actions but the last",
}
_DONE = {"substitution": "by the clean run's", "deletion": "by zeros"}


def choices(look: RunResults) -> dict[str, list[str]]:
    """What can be chosen: control -> options."""
    result = look.need("patching")
    pairs = [f"pair {n + 1}" for n in range(min(PAIRS, int(result.summary["pairs"])))]
    return {
        "map": [_spoken(name) for name in result.spec["grid_names"]],
        "pairs": [name for name, n in result.summary["pairs_by_split"].items() if n],
        "show": ["mean", "deviation", *pairs],
        "measure": list(METRICS),
    }


def patching(
    look: RunResults, map: str = "", pairs: str = "all", show: str = "mean", measure: str = "NLD"
) -> Chart:
    """`map` is one of the choices; by default the first grid, prefix substitution."""
    result = look.need("patching")
    names = {_spoken(name): name for name in result.spec["grid_names"]}
    name = names.get(map or next(iter(names)))
    if name is None:
        raise StatetraceError(f"there is no map '{map}'; there are {', '.join(names)}")
    where = name.split("-")[0].rstrip("0123456789")
    metric = METRICS[measure]
    rows = result.arrays[f"{name}.rows"]
    heads = bool((rows[:, 1] >= 0).any())
    y = list(range(len(rows))) if heads else rows[:, 0].tolist()
    if show.startswith("pair "):
        z, more, title = _pair(look, name, metric, pairs, int(show[5:]) - 1)
        low, high, label = 0.0, 1.0, measure
    else:
        statistic = {"mean": "mean", "deviation": "std"}[show]
        cells = _cells(look, name, pairs, metric, rows)
        z, n = cells[statistic], int(np.nanmax(cells["n"]))
        more = tuple(
            (said, grid(cells[key]))
            for said, key in (
                ("mean", "mean"),
                ("deviation", "std"),
                ("low", "low"),
                ("high", "high"),
            )
            if key != statistic
        )
        title = f"{show} of {n} pairs"
        label = measure if show == "mean" else f"deviation of {measure}"
        high = 1.0 if show == "mean" else max(0.1, _largest(z))
        low = 0.0
    said = f"deviation of {measure}" if show == "deviation" else f"{show} {measure}"
    panel = Panel(
        x=_AXES[where],
        y="layer and head" if heads else "layer",
        marks=(Heat(list(range(1, z.shape[1] + 1)), y, grid(z), label, low, high, more),),
        title=title,
        down=True,
        whole="xy",
        tall=1.2,
    )
    return Chart(NAME, f"{_spoken(name)}, {_called(pairs)}: {said}", (panel,), ABOUT)


def _called(split: str) -> str:
    return "all pairs" if split == "all" else f"pairs of {split}"


def _spoken(name: str) -> str:
    """ "prefix-substitution-resid" -> "prefix substitution"; sites other than resid are named."""
    where, what, *rows = name.split("-")
    where = "window" if where == "window1" else where
    said = f"{where} {what}"
    return said if rows == ["resid"] or not rows else f"{said} of {'-'.join(rows)}"


def _cells(
    look: RunResults, name: str, split: str, metric: str, sites: np.ndarray
) -> dict[str, Any]:
    """statistic -> [rows, columns] of one grid."""
    where, what, kind = name.split("-", 2)
    window = int(where.lstrip("abcdefghijklmnopqrstuvwxyz") or 0)
    here = _rows(look).get((where.rstrip("0123456789"), window, what, split, metric), [])
    if kind in KINDS:  # else it is a choice of sites, which may be of any kind
        here = [row for row in here if row["kind"] == kind]
    if not here:
        raise StatetraceError(f"the patching table has no rows for '{name}', pairs '{split}'")
    place = {(int(layer), int(head)): i for i, (layer, head) in enumerate(sites)}
    width = 1 + max(row["position"] for row in here)
    keys = ("mean", "std", "low", "high", "n")
    found = {key: np.full((len(sites), width), np.nan) for key in keys}
    for row in here:
        i = place.get((row["layer"], -1 if row["head"] is None else row["head"]))
        if i is not None:
            for key, values in found.items():
                values[i, row["position"]] = np.nan if row[key] is None else row[key]
    return found


def _rows(look: RunResults) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The table by grid, split and metric, gone through once: it may have 100,000 rows."""
    if "patching rows" not in look.kept:
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in look.need("patching").rows():
            key = (row["where"], row["window"] or 0, row["what"], row["split"], row["metric"])
            found.setdefault(key, []).append(row)
        look.kept["patching rows"] = found
    kept: dict[tuple[Any, ...], list[dict[str, Any]]] = look.kept["patching rows"]
    return kept


def _pair(
    look: RunResults, name: str, metric: str, split: str, number: int
) -> tuple[np.ndarray, tuple[Any, ...], str]:
    """One raw pair of a split, and which it is."""
    arrays = look.need("patching").arrays
    chosen = np.flatnonzero(_of_split(look, split))
    if number >= len(chosen):
        raise StatetraceError(f"there is no pair {number + 1} among '{split}'")
    at = int(chosen[number])
    label = look.group.labels
    first, other = (label[int(arrays[f"{kind}_actions"][at, 0])] for kind in ("clean", "corrupted"))
    end, other_end = (label[int(arrays[f"{kind}_answer"][at])] for kind in ("clean", "corrupted"))
    title = f"{first}… → {end};  {other}… → {other_end}"
    return arrays[f"{name}.{metric}"][:, :, at].astype(float), (), title


def _of_split(look: RunResults, split: str) -> np.ndarray:
    arrays = look.need("patching").arrays
    clean, corrupted = arrays["clean_state"], arrays["corrupted_state"]
    if split == "all":
        return np.ones(len(clean), dtype=bool)
    kind, quotient = split.split(" ", 1)
    image = look.group.quotient(quotient).map
    same: np.ndarray = image[clean] == image[corrupted]
    return same if kind == "same" else ~same


def _largest(z: np.ndarray) -> float:
    return float(np.nanmax(z)) if np.isfinite(z).any() else 0.0
