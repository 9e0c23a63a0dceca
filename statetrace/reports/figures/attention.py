"""Parity heads: scores (Table 2) and attention maps with odd actions marked (Figure 15); attention
trees (Figure 16)."""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.lenses.result import LensResult
from statetrace.reports.figures.chart import Chart, Dots, Edges, Heat, Panel, grid
from statetrace.reports.run_results import RunResults

BRIGHT = 0.97
"""Quantile of the weights that gets the brightest colour: otherwise early rows, which have few
keys, would leave the rest dark."""
MOST_CELLS = 250
"""Rows and columns of a map; of longer sequences a cell is the largest weight of a square."""
NAMED = 14
"""The most actions that are labelled by name on the axis of a narrow panel; more are numbered."""


_MAP: dict[str, Any] = {"down": True, "whole": "xy", "tall": 1.15}


def _scored(results: RunResults) -> LensResult:
    result = results.need("attention")
    if "top_maps" not in result.arrays:
        reason = result.notes[0] if result.notes else "no head was scored"
        raise StatetraceError(f"no heads to show: {reason}")
    return result


def attention_maps(results: RunResults) -> Chart:
    """The maps of the best heads, and the scores of all heads."""
    result = _scored(results)
    arrays = result.arrays
    length = arrays["top_maps"].shape[-1]
    label = results.group.labels
    actions = [label[int(a)] for a in arrays.get("top_maps_actions", ())] or ["?"] * length
    odd = np.flatnonzero(arrays["top_maps_odd"])
    name = result.summary["quotient"]
    marked = "odd actions" if name == "parity" else f"actions that change {name}"
    size = -(-length // MOST_CELLS)
    at = list(range(1 + size // 2, length + 1 + size // 2, size))
    legend = "attention" if size == 1 else f"largest attention of {size} by {size}"
    causal = np.tril(np.ones((length, length), dtype=bool))
    strongest = max(0.05, float(np.quantile(arrays["top_maps"][:, causal], BRIGHT)))
    named = length <= NAMED and "top_maps_actions" in arrays
    ticks = tuple((float(i + 1), actions[i]) for i in range(length)) if named else ()
    every = 1 if named else 5 if length <= 40 else 10 * -(-length // 100)
    rows = tuple((float(i), str(i)) for i in range(every, length + 1, every))  # 0: triangles
    panels = []
    for (layer, head), weights in zip(arrays["top_maps_heads"], arrays["top_maps"], strict=True):
        shown = np.where(causal, weights, np.nan)
        texts = [f"action {i + 1}: {actions[i]}" for i in odd]
        x, y = (odd + 1).tolist(), [0.0] * len(odd)
        triangles = Dots(marked, x, y, texts, colour="parity", mark="triangle-down", size=8)
        marks = (Heat(at, at, grid(_coarse(shown, size)), legend, high=strongest), triangles)
        title, ends = f"layer {layer}, head {head}", (0.4, length + 0.6)
        settings = {"x_range": ends, "y_range": (-0.6, ends[1]), "ticks": ticks, "y_ticks": rows}
        panels.append(Panel("key", "query", marks, title, **(_MAP | settings)))
    scores = arrays["scores"].mean(-1) / 100
    x, y = list(range(scores.shape[1])), list(range(1, len(scores) + 1))
    best = result.summary.get("score_ceiling", 100.0) / 100
    heads = Heat(x, y, grid(scores), "score", high=best)
    panels.append(Panel("head", "layer", (heads,), f"{name} head scores", **_MAP))
    return Chart("attention-maps", f"The best {name} heads", tuple(panels))


def _coarse(weights: np.ndarray, size: int) -> np.ndarray:
    """The largest weight of every square of that size, NaN where there is none."""
    starts = np.arange(0, len(weights), size)
    rows = np.fmax.reduceat(weights, starts, axis=0)
    return np.fmax.reduceat(rows, starts, axis=1)


def head_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """Table 2 for this model: the scores of the best heads, and the best score by chance."""
    summary = _scored(results).summary
    chance = summary.get("top_score_by_chance")
    head = ["layer", "head", f"{summary['quotient']} head score", "deviation", "chance"]
    by_chance = "" if chance is None else f"{chance / 100:.2f}"
    table = []
    for entry in summary["top_heads"]:
        spread = "" if entry["std"] is None else f"± {entry['std'] / 100:.2f}"
        table.append(
            [entry["layer"], entry["head"], f"{entry['score'] / 100:.2f}", spread, by_chance]
        )
    return head, table


def ablation_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The drop of accuracy with some heads ablated."""
    ablations = _scored(results).summary.get("ablation", [])
    names = list(ablations[0]["drop"]) if ablations else []
    head = ["ablated heads", "replaced by", *(f"drop of {name} accuracy" for name in names)]
    table = []
    for entry in ablations:
        kind, size = entry["heads"].split()  # "top 2", "control 1"
        kind = {"top": "best", "control": "random"}[kind]
        heads = f"{kind} head" if size == "1" else f"{kind} {size} heads"
        drops = [f"{entry['drop'][name]:z.3f}" for name in names]
        table.append([heads, entry["method"], *drops])
    return head, table


def tree_choices(results: RunResults) -> dict[str, list[str]]:
    """The saved examples, the one with most edges first."""
    return {"example": [str(number + 1) for number in trees(results.need("attention"))]}


def trees(result: LensResult) -> list[int]:
    """Numbers of the saved examples, the one with most edges first."""
    count = sum(name.startswith("tree") and name.endswith("_edges") for name in result.arrays)
    return sorted(range(count), key=lambda number: -len(result.arrays[f"tree{number}_edges"]))


def attention_tree(results: RunResults, example: str | None = None) -> Chart:
    """The tree of one example, by default the one with most edges: edges (layer, from, to) between
    the actions of a sequence, with their weights."""
    result = results.need("attention")
    saved = {str(number + 1): number for number in trees(result)}
    if not saved:
        if result.spec.get("tree_examples") == 0:
            raise StatetraceError("no attention tree was measured; analyze with --thorough")
        reason = result.notes[0] if result.notes else "no tree was saved"
        raise StatetraceError(f"no attention tree to draw: {reason}")
    example = example or next(iter(saved))
    one_of("attention tree", example, sorted(saved))
    name = f"tree{saved[example]}"
    names = [results.group.labels[int(a)] for a in result.arrays[f"{name}_actions"]]
    edges, weights = result.arrays[f"{name}_edges"], result.arrays[f"{name}_weights"].tolist()
    length, above = len(names), result.spec.get("weight", 0.95)
    analyzed = len(result.arrays["scores"]) if "scores" in result.arrays else 0
    layers = max(analyzed, int(edges[:, 0].max(initial=1)))
    ends = [((int(s) + 1, int(layer) - 1), (int(t) + 1, int(layer))) for layer, s, t in edges]
    texts = [
        f"layer {layer}: action {t + 1} ({names[t]}) attends to {s + 1} ({names[s]}), {weight:.3f}"
        for (layer, s, t), weight in zip(edges.tolist(), weights, strict=True)
    ]
    nodes = [(x, y) for y in range(layers + 1) for x in range(1, length + 1)]
    labels = [f"layer {y}, action {x}: {names[x - 1]}" for x, y in nodes]
    x, y = zip(*nodes, strict=True)
    ticks = tuple((float(i + 1), names[i]) for i in range(length)) if length <= 2 * NAMED else ()
    marks = (
        Dots("cell", list(x), list(y), labels, colour="faint", size=5 if length <= 40 else 3),
        Edges("carried along", _carried(edges, length, layers), colour="grey"),
        Edges(f"attention above {above}", ends, texts),
        Dots("the answer", [length], [layers], ["the last answer"], colour="parity", size=9),
    )
    panel = Panel("action", "layer", marks, down=True, whole="xy", ticks=ticks, tall=1.2, bare=True)
    return Chart("attention-tree", f"Attention tree, example {example}", (panel,))


def _carried(
    edges: np.ndarray, length: int, layers: int
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The residual connections of the cells that reach the answer."""
    reached = {length - 1}
    edges_to_self = []
    for layer in range(layers, 0, -1):
        ends = (layer - 1.0, float(layer))
        edges_to_self += [((t + 1.0, ends[0]), (t + 1.0, ends[1])) for t in sorted(reached)]
        reached |= {int(s) for at, s, t in edges if at == layer and int(t) in reached}
    return edges_to_self
