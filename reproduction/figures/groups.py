"""Pictures of what is known without a model: worked examples, tables of groups, generators (section
2.2 and appendices A, D and E)."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np

from reproduction.measures.theory import LARGEST
from reproduction.results import Results
from statetrace.groups import Group, arrange, group
from statetrace.groups.notation import NOTATIONS
from statetrace.reports.figures.chart import Chart, Dots, Heat, Line, Panel, numbers

COLOURS = ("state", "parity", "third", "fourth", "fifth")
CLUSTERS = (("123", "213"), ("312", "132"), ("231", "321"))
"""As appendix D lists them."""


def examples(found: Results) -> Chart:
    """Figure 1A and appendix E's example: where each object is after each action."""
    panels = [_moved("S5", ("42315", "12534"), "ABCDE", "moves", "Figure 1A")]
    told = ("132", "312", "213")
    panels += [_moved("S3", told, "123", name, f"App. E, read as '{name}'") for name in NOTATIONS]
    title = "Worked examples: places of the objects, and the state after each action"
    return Chart("examples", title, tuple(panels))


def _moved(of: str, actions: tuple[str, ...], objects: str, notation: str, title: str) -> Panel:
    states, orders = group(of, notation), [list(objects)]
    after = [states.labels[states.identity]]
    for number, action in enumerate(actions, start=1):
        orders.append(arrange(action, orders[-1], notation))
        after.append(states.labels[states.product(actions[:number])])
    steps = list(range(len(orders)))
    marks: list[Any] = []
    for one, colour in zip(objects, COLOURS, strict=False):
        places = [order.index(one) + 1 for order in orders]
        marks.append(Line("", steps, places, colour, mark=None))
        marks.append(Dots("", steps, places, [one] * len(steps), colour, labelled=True))
    names = ("start", *actions)
    ticks = tuple(
        (float(i), f"{name}\n{state}")
        for i, (name, state) in enumerate(zip(names, after, strict=True))
    )
    return Panel("action, and the state after it", "place", tuple(marks), title, ticks=ticks,
                 x_range=(-0.3, len(actions) + 0.3), y_range=(0.4, len(objects) + 0.5), down=True,
                 whole="y")  # fmt: skip


def tables(found: Results) -> Chart:
    """Appendix A: S3 and D3 side by side in the order b^i, b^i a, and the parities of S5."""
    panels = (
        _table(group("S3"), "132", "231", "S3: a is 132, b is 231", products=True),
        _table(group("D3"), "s0", "r1", "D3: a is s0, b is r1"),
        _parities("S5"),
    )
    title = "All products: the row's element, then the column's\na = (23), b = (123) (App. A)"
    return Chart("tables", title, panels)


def _table(of: Group, called_a: str, called_b: str, title: str, products: bool = False) -> Panel:
    """Every product; the three that appendix A's relation is about are told apart."""
    assert of.parity is not None
    a, b = of.index(called_a), of.index(called_b)
    order = [of.product([b] * i + [a] * j) for j in range(2) for i in range(3)]
    at = {element: i for i, element in enumerate(order)}
    marks: list[Any] = []
    if products:
        cells = {"ab": (a, b), "ba⁻¹": (b, int(of.inverse[a])), "b⁻¹a": (int(of.inverse[b]), a)}
        for (name, (first, then)), colour in zip(cells.items(), COLOURS[2:], strict=True):
            marks.append(Dots(name, [at[then]], [at[first]], (), colour, "diamond", 12))
    for name, odd, colour, mark in (
        ("even", False, "state", "circle"), ("odd", True, "parity", "square"),
    ):  # fmt: skip
        here = [
            (j, i, of.labels[int(of.table[first][then])])
            for i, first in enumerate(order)
            for j, then in enumerate(order)
            if bool(of.parity[of.table[first][then]]) == odd
        ]
        x, y, texts = (list(values) for values in zip(*here, strict=True))
        marks.append(Dots(name, x, y, texts, colour, mark, 6, labelled=True))
    ticks = tuple((float(i), of.labels[element]) for i, element in enumerate(order))
    return Panel("then", "first (rows as columns)", tuple(marks), title, x_range=(-0.6, 5.6),
                 y_range=(-0.9, 5.5), down=True, whole="y", ticks=ticks, tall=1.25)  # fmt: skip


def _parities(of: str) -> Panel:
    states = group(of)
    assert states.parity is not None
    order = np.argsort(states.parity, kind="stable")
    cells = states.parity.astype(int)[states.table[np.ix_(order, order)]]
    places = list(range(states.order))
    heat = Heat(places, places, [numbers(row) for row in cells], "parity of the product")
    title = f"{of} ({cells.size:,} products)"
    return Panel("then (even ones first)", "first", (heat,), title, down=True, whole="xy")


def generating(found: Results) -> Chart:
    """Appendices A and D: clusters by generators, what two elements generate, derived series."""
    panels = [_clusters(notation) for notation in NOTATIONS[::-1]]
    title = "Generators of symmetric groups, and their derived series (App. A and D)"
    return Chart("generators", title, (*panels, _reached(), _derived()))


def _clusters(notation: str) -> Panel:
    """Where a swap of 1 and 2 and a 3-cycle lead from each state."""
    s3 = group("S3", notation)
    number = {label: i for i, pair in enumerate(CLUSTERS, start=1) for label in pair}
    x = list(range(len(number)))
    marks: list[Any] = [Line("its own cluster", x, list(number.values()), "grey", behind=True)]
    for name, by, colour, mark, wide in (
        ("after the swap 213", "213", "state", "circle", 9.0),
        ("after the 3-cycle 312", "312", "parity", "square", 5.0),
    ):  # fmt: skip
        ends = [number[s3.labels[int(s3.table[s3.index(label)][s3.index(by)])]] for label in number]
        marks.append(Dots(name, x, ends, list(number), colour, mark, wide))
    ticks = tuple((float(i), label) for i, label in enumerate(number))
    return Panel("state", "cluster", tuple(marks), f"S3, labels read as '{notation}'",
                 y_range=(0.6, 3.4), whole="y", ticks=ticks)  # fmt: skip


def _reached() -> Panel:
    """The share of a group that products of a swap and the cycle of all come to."""
    lines = []
    for n, colour in zip(range(3, LARGEST + 1), COLOURS, strict=False):
        states = group(f"S{n}")
        digits = "".join(map(str, range(1, n + 1)))
        by = [states.index(digits[1::-1] + digits[2:]), states.index(digits[1:] + digits[0])]
        reached, shares = {states.identity}, [1 / states.order]
        while True:
            more = reached | {int(states.table[state][one]) for state in reached for one in by}
            if len(more) == len(reached):
                break
            reached = more
            shares.append(len(reached) / states.order)
        lines.append(Line(f"S{n}", list(range(len(shares))), numbers(shares), colour, mark=None))
    return Panel("factors", "share of the group", tuple(lines), "products of a swap and a cycle",
                 y_range=(0, 1.03), whole="x")  # fmt: skip


def _derived() -> Panel:
    lines = []
    for n, colour in zip(range(3, LARGEST + 1), COLOURS, strict=False):
        orders = [len(part) for part in group(f"S{n}").derived_series()]
        orders += orders[-1:] * (5 - len(orders))  # it stays
        lines.append(Line(f"S{n}", list(range(5)), numbers(map(log2, orders)), colour))
    return Panel("commutator subgroups taken", "log₂ of the order", tuple(lines),
                 "derived series; 0: solvable", whole="x")  # fmt: skip
