"""Numbers and figures of docs/findings, from results/ alone.

    python -m reproduction.findings [--root FOLDER]

prints counts and planned tests, and draws the figures. Cost: seconds. Needs no torch.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from reproduction.lens_model import AA, PAA, PAPER_LENGTH
from reproduction.measures.patching import fronts
from reproduction.model_selection import Selection
from reproduction.statistics import exact_p, exact_two_sided
from reproduction.study_figures import mechanism_bars
from reproduction.tables import Row, Tables
from statetrace.groups import group
from statetrace.lenses.store import Store
from statetrace.mechanisms.verdict import Verdict, verdict
from statetrace.reports.figures.chart import Chart, Dots, Line, Panel, ReferenceLine
from statetrace.reports.figures.study_shares import STYLES
from statetrace.runs import Run

FIGURE = "docs/findings/topic-models.png"
SWITCH_FIGURE = "docs/findings/mechanism-switch.png"
INSIDE_FIGURE = "docs/findings/mechanism-switch-inside.png"
SWITCHED = "pythia-160m-long-associative"
AROUND, STEPS, LENGTH = "pythia-160m-switch", (20_000, 22_000, 24_000, 28_000), 52
"""The same run with lenses at steps before, during and after the change, at the length that it
solves before."""
LONG_STUDY, WINDOW = "tiny-split-long", 5
"""The longer study, and the evaluations that its curves are averaged over."""
SMALL_STUDIES = (
    "tiny", "tiny-control", "tiny-orders", "tiny-pythia", "tiny-regimes", "tiny-split",
    "tiny-split-regimes",
)  # fmt: skip
BY_CHANCE = 0.4
"""Of the five wrong states of S3, two have the right parity."""
LEAST_ERRORS = 200
T = TypeVar("T")
REGIMES = ("scratch", "control", "topic-1", "topic-2")
READINGS = {"verdict": "by all lenses", "cutoff_verdict": "by accuracy alone"}


@dataclass(frozen=True)
class Count:
    """`count` of `n` models are associative."""

    count: int
    n: int

    def interval(self) -> tuple[float, float]:
        return clopper_pearson(self.count, self.n)


def models(selection: Selection) -> list[Row]:
    """Pythia-160M from scratch and after a stage."""
    return selection.rows({"study": ["scratch", "topics-pythia-160m"], "model": "pythia-160m"})


def counts(rows: list[Row], column: str) -> dict[str, Count]:
    """Associative models by regime, and after both topic models together."""
    groups = {name: (name,) for name in REGIMES} | {"topic": REGIMES[2:]}
    shares = {
        name: [r[column] == AA for r in rows if r["regime"] in g] for name, g in groups.items()
    }
    return {name: Count(sum(mine), len(mine)) for name, mine in shares.items()}


def planned_tests(made: Mapping[str, Count]) -> dict[tuple[str, str], tuple[float, float]]:
    """The seven planned tests: p, and p after Holm's correction. Fisher's exact test, one-sided
    except for control against scratch."""
    raw = {
        (first, second): exact_p([
            (made[first].count, made[first].n, made[second].count, made[second].n)
        ])
        for second in ("control", "scratch")
        for first in ("topic", *REGIMES[2:])
    }  # fmt: skip
    raw["control", "scratch"] = fisher_two_sided(made["control"], made["scratch"])
    return {pair: (raw[pair], p) for pair, p in holm(raw).items()}


def fisher_two_sided(first: Count, second: Count) -> float:
    return exact_two_sided(*([each.count, each.n - each.count] for each in (first, second)))


def holm(raw: Mapping[T, float]) -> dict[T, float]:
    """p-values after Holm's correction."""
    corrected, least = {}, 0.0
    for rank, name in enumerate(sorted(raw, key=lambda name: raw[name])):
        least = max(least, min(1.0, (len(raw) - rank) * raw[name]))
        corrected[name] = least
    return {name: corrected[name] for name in raw}


def clopper_pearson(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share."""
    tail = (1 - level) / 2

    def beyond(share: float, least: int) -> float:
        ways = (math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(least, n + 1))
        return sum(ways)

    low = 0.0 if count == 0 else _where(lambda share: beyond(share, count) >= tail)
    high = 1.0 if count == n else _where(lambda share: beyond(share, count + 1) >= 1 - tail)
    return low, high


def _where(reached: Callable[[float], bool]) -> float:
    """The least share at which it is reached, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def topic_models(rows: list[Row]) -> Chart:
    """Mechanisms by all lenses and by accuracy, and the state accuracy of each model."""
    panels = [
        mechanism_bars(
            [(name, [r | {"verdict": r[column]} for r in rows if r["regime"] == name])
             for name in REGIMES],
            title,
        )
        for column, title in READINGS.items()
    ]  # fmt: skip
    dots = []
    for mechanism in sorted({row["verdict"] for row in rows}):
        mine = [row for row in rows if row["verdict"] == mechanism]
        x = [REGIMES.index(row["regime"]) + 0.12 * (row["seed"] - 2) for row in mine]
        y = [float(row["accuracy"]) for row in mine]
        dots.append(Dots(mechanism, x, y, [r["cell"] for r in mine], *STYLES[mechanism], 7))
    ticks = tuple((float(i), name) for i, name in enumerate(REGIMES))
    panels.append(
        Panel("", "state accuracy", tuple(dots), "each model, lengths 1 to 100", ticks=ticks,
              x_range=(-0.6, len(REGIMES) - 0.4), y_range=(0, 1.02), bare=True)
    )  # fmt: skip
    title = "Pythia-160M on S3, by what it was trained on before"
    return Chart("topic-models", title, tuple(panels))


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training; `errors` is None where there are too few wrong states.

    Attributes:
        errors: share of the wrong states whose parity is right.
    """

    step: int
    state: float
    parity: float
    errors: float | None


def trajectory(run: Run) -> list[Evaluation]:
    """The evaluations of a run, over all lengths."""
    sequences = int(run.recipe["evaluation"]["evaluate_sequences"])
    evaluations = []
    for record in run.evaluations():
        by_length = record["accuracy_by_length"]
        n = len(by_length["state"])
        state, parity = (sum(by_length[what]) / n for what in ("state", "parity"))
        enough = (1 - state) * n * sequences >= LEAST_ERRORS
        errors = (parity - state) / (1 - state) if enough else None
        evaluations.append(Evaluation(record["step"], state, parity, errors))
    return evaluations


def highest_while_learning(run: Run) -> float | None:
    """The highest share of wrong states with the right parity, between 30% and 97% accuracy."""
    shares = [e.errors for e in trajectory(run) if 0.3 < e.state < 0.97 and e.errors is not None]
    return max(shares, default=None)


def small_trajectories(selection: Selection) -> dict[str, list[float]]:
    """`highest_while_learning` of small models, by mechanism."""
    shares: dict[str, list[float]] = {AA: [], PAA: []}
    for row in selection.rows({"study": list(SMALL_STUDIES), "label": ["AA", "PAA"]}):
        folder = selection.tables.folder / row["study"] / "cells" / row["cell"]
        highest = highest_while_learning(Run(folder))
        if highest is not None:
            shares[row["verdict"]].append(highest)
    return shares


def mechanism_switch(selection: Selection) -> Chart:
    """Accuracy, and parity where the state is wrong, during training; small models beside it."""
    points = trajectory(Run(selection.tables.folder / SWITCHED))
    steps = [point.step / 1000 for point in points]
    measured = [point for point in points if point.errors is not None]
    lines = [
        Line(name, steps, [getattr(point, name) for point in points], name, mark=None)
        for name in ("state", "parity")
    ]
    errors = Line("Pythia-160M", [p.step / 1000 for p in measured], [p.errors for p in measured])
    chance = ReferenceLine("y", BY_CHANCE, "chance")
    dots = [
        Dots(name, [number + 0.3 * ((i % 21) / 20 - 0.5) for i in range(len(shares))], shares,
             (), *STYLES[name])
        for number, (name, shares) in enumerate(small_trajectories(selection).items())
    ]  # fmt: skip
    longer = [
        Line(row["verdict"], [p.step / 1000 for p in points[WINDOW // 2 : -(WINDOW // 2)]],
             np.convolve(np.array([p.errors for p in points], float), np.full(WINDOW, 1 / WINDOW),
                         "valid").tolist(),
             STYLES[row["verdict"]][0], mark=None)
        for row, points in long_trajectories(selection)
    ]  # fmt: skip
    ticks = ((0.0, AA), (1.0, PAA))
    panels = (
        Panel("step (thousands)", "accuracy", tuple(lines), "Pythia-160M",
              y_range=(0, 1.06)),
        Panel("step (thousands)", "errors with right parity", (errors, chance),
              "Pythia-160M", y_range=(0, 1.06)),
        Panel("", "errors with right parity", (*dots, chance),
              "small models (highest)", ticks=ticks, x_range=(-0.6, 1.6),
              y_range=(0, 1.06), bare=True),
        Panel("step (thousands)", "errors with right parity", (*longer, chance),
              "small models, trained longer (means of 5)", y_range=(0, 1.06)),
    )  # fmt: skip
    title = "One model that changed its mechanism, and 24 small ones that did not"
    return Chart("mechanism-switch", title, panels, columns=2)


def long_trajectories(selection: Selection) -> list[tuple[Row, list[Evaluation]]]:
    """Models of the longer study, each with its evaluations that have enough errors."""
    rows = selection.rows({"study": [LONG_STUDY]})
    runs = [Run(selection.tables.folder / LONG_STUDY / "cells" / row["cell"]) for row in rows]
    evaluations = [[e for e in trajectory(run) if e.errors is not None] for run in runs]
    return list(zip(rows, evaluations, strict=True))


def inside_the_switch(selection: Selection) -> Chart:
    """What patching and probes find at several steps of one run, on the same sequences."""
    colours = ("grey", "third", "fourth", "state")
    fronts_of: dict[str, list[Line]] = {"same parity": [], "opposite parity": []}
    parity: list[Line] = []
    for step, colour in zip(STEPS, colours, strict=True):
        store = Store(selection.tables.folder / AROUND / "lenses" / f"step-{step}")
        patching, probing = (store.get(lens, LENGTH) for lens in ("patching", "probing"))
        assert patching is not None
        assert probing is not None
        for split, lines in fronts_of.items():
            counts = fronts(patching.grid("mean", where="prefix", split=split, metric="nld"))
            lines.append(Line(f"step {step:,}", range(len(counts)), counts, colour))
        read = {"target": "parity", "position": "last", "length": LENGTH, "metric": "accuracy"}
        rows = [r for r in probing.rows() if all(r[k] == v for k, v in read.items())]
        parity.append(Line(f"step {step:,}", [r["layer"] for r in rows],
                           [r["mean"] for r in rows], colour))  # fmt: skip
    panels = [
        Panel("layer", "actions to restore", tuple(lines), f"patching, {split}", y_range=(0, 54))
        for split, lines in fronts_of.items()
    ]
    panels.append(Panel("layer", "accuracy", tuple(parity), "probes of parity", y_range=(0, 1.06)))
    return Chart("mechanism-switch-inside", "Inside the model while it changes", tuple(panels))


def named_again(selection: Selection) -> dict[str, Verdict]:
    """Models of the paper's size by the present weights, by folder of lens results. Their layers
    needed are those of logit differences, which a verdict otherwise refuses: it counts votes."""
    results = selection.tables.folder
    sized = [name for name, model in selection.all_models.items() if model.at_paper_size]
    steps = sorted((results / AROUND / "lenses").glob("step-*"))
    verdicts = {}
    for folder in [*(results / name / "lenses" for name in sized), *steps]:
        store = Store(folder)
        general, (_, depth) = store.get("generalization"), store.longest("depth", PAPER_LENGTH)
        if general is not None and depth is not None:
            lenses = {"generalization": general, "depth": depth}
            verdicts[folder.relative_to(results).as_posix()] = verdict(lenses, group("S3"))
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description="Numbers and figures of docs/findings.")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    root = parser.parse_args().root
    selection = Selection(Tables(root))
    rows = models(selection)
    for column, reading in READINGS.items():
        made = counts(rows, column)
        print(f"associative {reading}")
        for name, count in made.items():
            low, high = count.interval()
            print(f"  {name}: {count.count} of {count.n} ({low:.0%} to {high:.0%})")
        for (first, second), (p, corrected) in planned_tests(made).items():
            print(f"  {first} against {second}: p {p:.3g}, corrected {corrected:.3g}")
    topic_models(rows).save(root / FIGURE)
    for mechanism, shares in small_trajectories(selection).items():
        print(f"{mechanism}: n {len(shares)}, {min(shares):.2f} to {max(shares):.2f}")
    for folder, named in named_again(selection).items():
        likely = sorted(named.probabilities.items(), key=lambda item: -item[1])[:2]
        print(f"{folder}: {named.mechanism},", *(f"{name} {share:.0%}" for name, share in likely))
    mechanism_switch(selection).save(root / SWITCH_FIGURE)
    inside_the_switch(selection).save(root / INSIDE_FIGURE)


if __name__ == "__main__":
    main()
