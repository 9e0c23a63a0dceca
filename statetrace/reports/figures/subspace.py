"""Interchange accuracy by layer, or the share of another outcome, with controls in grey."""

from __future__ import annotations

from statetrace.reports.figures.chart import Chart, Line, Panel
from statetrace.reports.run_results import RunResults

STYLES = {
    # method, control -> label, color, dash, mark
    ("means", "none"): ("class means", "state", "solid", "circle"),
    ("das", "none"): ("learned", "parity", "solid", "square"),
    ("all", "none"): ("whole stream", "third", "dash", "diamond"),
    ("random", "random"): ("random", "grey", "dash", None),
    ("means", "untrained"): ("means, untrained", "grey", "dot", "circle"),
    ("das", "untrained"): ("learned, untrained", "grey", "dot", "square"),
}


def choices(results: RunResults) -> dict[str, list[str]]:
    columns = results.need("subspace").columns
    outcomes = dict.fromkeys(columns["outcome"])
    shown = ["interchange", *(name for name in outcomes if name != "interchange")]
    return {"quotient": list(dict.fromkeys(columns["quotient"])), "share of": shown}


def subspace(results: RunResults, quotient: str = "", share_of: str = "interchange") -> Chart:
    """One line per method and control, for pairs with different values of the quotient."""
    quotient = quotient or choices(results)["quotient"][0]
    result, lines = results.need("subspace"), []
    wanted = {"quotient": quotient, "pairs": "different", "outcome": share_of}
    for (method, control), (label, colour, dash, mark) in STYLES.items():
        own = result.rows(method=method, control=control, **wanted)
        x, y, low, high = ([row[name] for row in own] for name in ("layer", "share", "low", "high"))
        if own:
            lines.append(Line(label, x, y, colour, dash, mark, low, high))
    axis = "interchange accuracy" if share_of == "interchange" else f"share: {share_of}"
    panel = Panel("layer", axis, tuple(lines), y_range=(-0.02, 1.04), whole="x")
    return Chart("subspace", f"The subspace of {quotient}, exchanged", (panel,))
