"""Pictures of what single lenses say of many models (sections 4.3, 4.5 and 5.1)."""

from __future__ import annotations

from typing import Any

from statetrace.report.figures.chart import TURNS, Chart, Dots, Line, Panel, Rule, numbers
from statetrace.report.figures.study_shares import order, style
from statetrace.reproduction import of_logs as logs
from statetrace.reproduction.kept import A, P, large_ones, short
from statetrace.reproduction.of_evidence import LEAD, Model, head_surplus, models
from statetrace.reproduction.of_studies import AA, PAA
from statetrace.reproduction.results import Missing, Results, lens_file

CALLED = {AA: "AA", PAA: "PAA"}
WIDE = 0.6
"""How far a mechanism's models are spread, in order of their numbers."""


def lenses(found: Results) -> Chart:
    """Section 4.3: of every model which mechanism patching finds nearer, and which the probes."""
    there = models(found)
    if not there:
        raise Missing("no evidence of single lenses was kept")
    marks: list[Any] = [Rule("x", 0), Rule("y", 0)]
    for mechanism in sorted({one.mechanism for one in there}, key=order):
        mine = [one for one in there if one.mechanism == mechanism]
        x, y = (
            numbers(of[AA] - of[PAA] for of in distances)
            for distances in ([one.patching for one in mine], [one.probing for one in mine])
        )
        colour, mark = style(mechanism)
        texts = [one.source for one in mine]
        marks.append(Dots(f"{mechanism} ({len(mine)})", x, y, texts, colour, mark, 6))
    panel = Panel("distances by patching", "distances by probes", tuple(marks), tall=1.5)
    title = f"How much nearer to PAA than to AA (below 0: AA), {len(there)} models (§4.3)"
    return Chart("lenses", title, (panel,))


def leads(found: Results) -> Chart:
    """Section 5.1: how far parity ran ahead in training, of models that were not taught it."""
    there = [one for one in models(found) if one.logged and one.mechanism in CALLED]
    if not there:
        raise Missing("no training log was kept with the evidence")
    marks: list[Any] = [Rule("y", LEAD, f"{LEAD:.0%}: together below (ours)")]
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
    panels = [*_surplus(found), *_lost(found)]
    if not panels:
        raise Missing("no parity head was compared with chance")
    title = "The best parity head of each model, against chance and removed (§4.5)"
    return Chart("needed-heads", title, tuple(panels))


def _surplus(found: Results) -> list[Panel]:
    """A mark for each model; the means as the row has them, resampled for their interval."""
    there = [one for one in models(found) if one.mechanism in CALLED]
    values = [(one, float(one.surplus)) for one in there if one.surplus is not None]
    if not values:
        return []
    marks: list[Any] = [Rule("y", 0, "chance")]
    dots, ticks = _spread(values)
    for at, mechanism in enumerate(CALLED):
        mean = head_surplus(mechanism)(found)
        if mean.value is not None:
            x = at + WIDE / 2 + 0.12
            ends = Line("95% interval", [x, x], numbers((mean.low, mean.high)), "grey", mark=None)
            marks += [ends, Dots("mean", [x], numbers([mean.value]), (), "ink", "diamond", 7)]
    return [
        Panel("models, in order", "points above chance", (*marks, *dots), "models of studies",
              x_range=(-0.5, 1.6), ticks=ticks, tall=1.1)
    ]  # fmt: skip


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


def _lost(found: Results) -> list[Panel]:
    """Of PAA models of the paper's size: parity lost with the best head at its mean."""
    names = large_ones(found, P, "attention.json")
    marks: list[Any] = [Rule("y", 0), Rule("x", 0)]
    for name, colour in zip(names, TURNS, strict=False):
        about = found.json(lens_file(name, "attention", "json"))["summary"]
        if not about.get("ablation"):
            continue
        lost = {(one["heads"], one["method"]): one["drop"] for one in about["ablation"]}
        x = about["top_heads"][0]["score"] - about["top_score_by_chance"]
        y = 100 * lost["top 1", "mean"][about["quotient"]]
        marks.append(
            Dots(short(found, name), numbers([x]), numbers([y]), [name], colour, "triangle-up", 9)
        )
    if len(marks) == 2:
        return []
    title = f"PAA models of the paper's size ({len(marks) - 2})"
    return [
        Panel("points above chance", "points of parity lost", tuple(marks), title,
              tall=1.1)
    ]  # fmt: skip
