"""The map of mechanisms: how the layers needed grow with the length, for the first quotient of the
group and for the rest, with the known algorithms as landmarks.

Caveat: the associative and the composed-quotient algorithm are at the same place. They differ in
whether the quotient is computed on its own, which the shape of the mark shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from statetrace.groups import Group
from statetrace.mechanisms.links import Link
from statetrace.mechanisms.mechanism_map import MechanismMap, calibrated
from statetrace.mechanisms.verdict import read_map
from statetrace.reports.figures.chart import (
    Chart,
    Dots,
    Edges,
    Line,
    Mark,
    Panel,
    ReferenceLine,
    numbers,
    target_styles,
)
from statetrace.reports.figures.depth import length_panel
from statetrace.reports.run_results import RunResults

GROWTH = "layers added per doubling"
OWN, TOGETHER = "diamond", "circle"
"""Marks of algorithms that compute a quotient on its own, and of those that do not."""

ROOM = 0.75
"""Layers per doubling around the landmarks, for their names."""

FAST = 2.0
"""Layers per doubling of a model beside which the sequential algorithm is drawn, too."""


def mechanism_map(results: RunResults) -> Chart:
    """The model among the known algorithms, and the layers that each link needs."""
    results.need("depth")
    results.need("generalization")
    read = read_map(results.all(), results.group)
    place = _plane(read, results.group) if read.boundaries else _line(read, results.group)
    return Chart("map", "Map of mechanisms", (place, _layers_needed(read.links)))


def _plane(read: MechanismMap, group: Group) -> Panel:
    """The first quotient along x, the rest along y."""
    first, rest, weights = read.links[0], read.rest, calibrated()[0]
    (x, x_error), (y, y_error) = first.growth, rest.growth
    middle = weights["growth_middle" if rest is read.links[-1] else "quotient_middle"]
    own = max(read.own)
    on_own = {"parity-associative": (0.0, 1.0), "composed-quotient": (1.0, 1.0)}
    if group.is_solvable():
        on_own["parallel"] = (0.0, 0.0)
    together = {"associative": (1.0, 1.0)} | _sequential(rest)
    text = f"{first.name} {x:+.2f} ± {x_error:.2f}, {rest.name} {y:+.2f} ± {y_error:.2f}"
    text += f"; {first.name} on its own: {own:.0%}"
    errors = (((x - x_error, y), (x + x_error, y)), ((x, y - y_error), (x, y + y_error)))
    high = ROOM + max(1.0, x + x_error, y + y_error)
    return Panel(
        f"{first.name}: {GROWTH}",
        f"{rest.name}: {GROWTH}",
        (
            ReferenceLine("x", weights["quotient_middle"], dash="dot"),
            ReferenceLine("y", middle, dash="dot"),
            *_landmarks(on_own, f"computes {first.name} on its own", OWN),
            *_landmarks(together, "computes all at once", TOGETHER),
            Edges("standard error", errors),
            Dots("this model", [x], [y], [text], "state", OWN if own >= 0.5 else TOGETHER, 11),
        ),
        x_range=(min(0.0, x - x_error) - ROOM, high),
        y_range=(min(0.0, y - y_error) - ROOM / 2, high - ROOM / 2),
        tall=1.15,
    )


def _line(read: MechanismMap, group: Group) -> Panel:
    """For a group without quotients: the state alone, along x."""
    state, middle = read.links[-1], calibrated()[0]["growth_middle"]
    x, error = state.growth
    text = f"state {x:+.2f} ± {error:.2f}"
    known = {"associative": (1.0, 0.0)}
    known |= {name: (at, 0.0) for name, (at, _) in _sequential(state).items()}
    if group.is_solvable():
        known["parallel"] = (0.0, 0.0)
    marks = (
        ReferenceLine("x", middle, dash="dot"),
        *_landmarks(known, "known algorithms", TOGETHER),
        Edges("standard error", [((x - error, 0.0), (x + error, 0.0))]),
        Dots("this model", [x], [0.0], [text], "state", TOGETHER, 11),
    )
    along = (min(0.0, x - error) - ROOM, ROOM + max(1.0, x + error))
    across: dict[str, Any] = {"y_range": (-1.0, 1.0), "y_ticks": ((0.0, "state"),)}
    return Panel(f"state: {GROWTH}", "", marks, x_range=along, tall=0.6, **across)


def _sequential(state: Link) -> dict[str, tuple[float, float]]:
    """Where a layer per action is at these lengths; for models that need layers as fast."""
    if state.growth[0] < FAST:
        return {}
    x = np.log2(state.lengths)
    growth = float(np.polyfit(x, state.lengths, 1)[0])
    return {"sequential": (growth, growth)}


def _landmarks(places: dict[str, tuple[float, float]], name: str, mark: str) -> Iterable[Mark]:
    """One by one, because the names of two at the same place are above and below it."""
    colour, size = ("grey", 16) if mark == OWN else ("ink", 9)
    for algorithm, (x, y) in places.items():
        below = algorithm == "composed-quotient"
        yield Dots(name, [x], [y], [algorithm], colour, mark, size, labelled=True, below=below)


def _layers_needed(links: Iterable[Link]) -> Panel:
    """A curve per link, with its standard error; the state below the others, which are dashed, so
    that equal curves can be seen."""
    links = list(links)[::-1]
    styles, lines = target_styles(link.name for link in links), []
    for link in links:
        (colour, mark), dash = styles[link.name], "solid" if link.name == "state" else "dash"
        low, high = numbers(link.needed - link.error), numbers(link.needed + link.error)
        x, y = [int(n) for n in link.lengths], numbers(link.needed)
        lines.append(Line(link.name, x, y, colour, dash, mark, low, high))
    lengths = sorted({int(n) for link in links for n in link.lengths})
    return length_panel(lengths, lines, max(float(max(link.needed)) for link in links))
