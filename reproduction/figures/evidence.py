"""Pictures of what single lenses say of many models (sections 4.3, 4.5 and 5.1)."""

from __future__ import annotations

from typing import Any

from reproduction.measures import logs
from reproduction.measures.evidence import LEAD, Model, models
from reproduction.measures.heads import Head, best_heads
from reproduction.measures.studies import AA, PAA
from reproduction.model_selection import A, P, short
from reproduction.results import Missing, Results
from statetrace.mechanisms.distances import HEAD, LOST
from statetrace.reports.figures.chart import TURNS, Chart, Dots, Line, Panel, ReferenceLine, numbers
from statetrace.reports.figures.study_shares import style

CALLED = {AA: "AA", PAA: "PAA"}
TIES = "as near to either by one lens"
WIDE = 0.6
"""How far a mechanism's models are spread, in order of their numbers."""


def lenses(found: Results) -> Chart:
    """Section 4.3: of every model of the two mechanisms which of them patching finds nearer, and
    which the probes; apart from those of which one of the two lenses cannot tell."""
    there = [one for one in models(found) if one.mechanism in CALLED]
    if not there:
        raise Missing("no evidence of single lenses was kept")
    marks: list[Any] = [ReferenceLine("x", 0), ReferenceLine("y", 0)]
    tied = [one for one in there if one.tied]
    kinds = {mechanism: style(mechanism) for mechanism in CALLED}
    groups = {name: [one for one in there if one.mechanism == name and not one.tied]
              for name in kinds}  # fmt: skip
    for name, mine, (colour, mark) in (
        (f"{TIES} ({len(tied)})", tied, ("faint", "circle")),
        *((f"{CALLED[name]} ({len(mine)})", mine, kinds[name]) for name, mine in groups.items()),
    ):
        x, y = (
            numbers(of[AA] - of[PAA] for of in distances)
            for distances in ([one.patching for one in mine], [one.probing for one in mine])
        )
        marks += [Dots(name, x, y, [one.source for one in mine], colour, mark, 6)] if mine else []
    panel = Panel("by patching (below 0: nearer to AA)", "by probes", tuple(marks), tall=1.5)
    title = f"How much nearer to PAA than to AA, {len(there)} models (§4.3)"
    return Chart("lenses", title, (panel,))


def leads(found: Results) -> Chart:
    """Section 5.1: how far parity ran ahead in training, of models that were not taught it."""
    there = [one for one in models(found) if one.logged and one.mechanism in CALLED]
    if not there:
        raise Missing("no training log was kept with the evidence")
    marks: list[Any] = [ReferenceLine("y", LEAD, f"{LEAD:.0%}: together below (ours)")]
    values = [(one, float(one.lead)) for one in there if one.lead is not None]
    dots, ticks = _spread(values)
    panel = Panel("models, in order of their lead", "parity's lead (share)", (*marks, *dots),
                  "smaller models", x_range=(-0.5, 1.5), y_range=(-0.05, 1.05), ticks=ticks,
                  tall=1.2)  # fmt: skip
    title = "How far parity ran ahead in training, of what it could (Figure 6)"
    return Chart("leads", title, (*_large_leads(found, marks), panel))


def _large_leads(found: Results, rules: list[Any]) -> list[Panel]:
    """The same of models of the paper's size, if there are any."""
    there = {AA: logs.leads(found, A), PAA: logs.leads(found, P)}
    if not any(there.values()):
        return []
    dots = [
        Dots(kind, [float(at)] * len(of), list(of.values()), [short(found, name) for name in of],
             *style(kind), 8)
        for at, (kind, of) in enumerate(there.items())
    ]  # fmt: skip
    ticks = tuple((float(at), CALLED[kind]) for at, kind in enumerate(there))
    return [
        Panel("", "parity's lead (share)", (*rules, *dots), "the paper's size",
              x_range=(-0.5, 1.5), y_range=(-0.05, 1.05), ticks=ticks, tall=1.2)
    ]  # fmt: skip


def needed_heads(found: Results) -> Chart:
    """Section 4.5: what the best parity head scores beyond chance, and what is lost with it."""
    panels = [*_at_size(found), *_surplus(found)]
    if not panels:
        raise Missing("no parity head was compared with chance")
    title = "The best parity head of each model, against chance and removed (§4.5)"
    return Chart("needed-heads", title, tuple(panels))


def _surplus(found: Results) -> list[Panel]:
    """A mark for each small model: against chance, and what is lost with the head."""
    there = [one for one in models(found) if one.mechanism in CALLED]
    panels = []
    for values, label, bounds in (
        ([(m, m.surplus) for m in there if m.surplus is not None], "points above chance",
         (ReferenceLine("y", 0, "chance"), ReferenceLine("y", HEAD, "as the verdict asks"))),
        ([(m, m.lost) for m in there if m.lost is not None], "points of parity lost",
         (ReferenceLine("y", 100 * LOST, "as the verdict asks"),)),
    ):  # fmt: skip
        if values:
            dots, ticks = _spread(values)
            panels.append(
                Panel("models, in order", label, (*bounds, *dots), "small models of studies",
                      x_range=(-0.9, 1.5), ticks=ticks, tall=1.1)
            )  # fmt: skip
    return panels


def _spread(values: list[tuple[Model, float]]) -> tuple[list[Dots], tuple[tuple[float, str], ...]]:
    """A column of marks for each mechanism, small numbers on the left, and what it is called."""
    dots, ticks = [], []
    for at, (mechanism, called) in enumerate(CALLED.items()):
        mine = sorted(value for one, value in values if one.mechanism == mechanism)
        step = WIDE / max(1, len(mine) - 1)
        x = [at - WIDE / 2 + step * i for i in range(len(mine))]
        colour, mark = style(mechanism)
        dots += [Dots(mechanism, x, numbers(mine), (), colour, mark, 5)] if mine else []
        ticks.append((float(at), f"{called} (n = {len(mine)})"))
    return dots, tuple(ticks)


def _at_size(found: Results) -> list[Panel]:
    """Of models of the paper's size: score beyond chance, and parity lost with the head."""
    heads: dict[str, tuple[str, Head]] = {}
    for model, called in ((A, "AA"), (P, "PAA")):
        heads |= {name: (called, head) for name, head in best_heads(found, model).items()}
    marks: list[Any] = [
        ReferenceLine("x", 0, "chance"),
        ReferenceLine("y", 100 * LOST, "as the verdict asks"),
    ]
    for (name, (called, head)), colour in zip(heads.items(), TURNS, strict=False):
        x, y = [head.surplus], [head.lost or 0.0]
        ends = [head.low - head.chance, head.high - head.chance]
        mark = "circle" if called == "AA" else "triangle-up"
        marks.append(Line("", numbers(ends), numbers(y * 2), colour, mark=None))
        said = f"{called}: {short(found, name)}"
        marks.append(Dots(said, numbers(x), numbers(y), [name], colour, mark, 9))
    if not heads:
        return []
    return [
        Panel("points above chance, 95% intervals", "points of parity lost", tuple(marks),
              f"models of the paper's size ({len(heads)})", y_range=(-5, 50), tall=1.1)
    ]  # fmt: skip
