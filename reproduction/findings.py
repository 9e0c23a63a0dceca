"""Numbers and figures of docs/findings, from results/ alone.

    python -m reproduction.findings [--root FOLDER]

prints the counts and tests of docs/findings/topic-models.md and draws its figure.

Cost: a second. Needs no torch.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reproduction.figures.studies import bars
from reproduction.measures.regime_effects import SCRATCH, at_least
from reproduction.measures.studies import AA, judged
from reproduction.results import Results, Row
from statetrace.reports.figures.chart import Chart, Dots, Panel
from statetrace.reports.figures.study_shares import order, style

FIGURE = "docs/findings/topic-models.png"
STUDY, FROM_SCRATCH = "topics-pythia-160m", "scratch"
MODEL, CONTROL = "pythia-160m", "control"
TOPICS = ("topic-1", "topic-2")
READINGS = {"verdict": "by all lenses", "quick_verdict": "by accuracy alone"}


@dataclass(frozen=True)
class Count:
    """`count` of `n` models are associative."""

    count: int
    n: int

    def interval(self) -> tuple[float, float]:
        return clopper_pearson(self.count, self.n)


def models(found: Results) -> list[Row]:
    """Pythia-160M of both studies, each with its regime."""
    free = judged(found, (FROM_SCRATCH,), "verdict", model=MODEL)
    taught = judged(found, (STUDY,), "verdict")
    return [row | {"regime": SCRATCH} for row in free] + taught


def counts(rows: list[Row], column: str) -> dict[str, Count]:
    """Associative models by regime, and after both topic models together."""
    groups = {name: (name,) for name in (SCRATCH, CONTROL, *TOPICS)} | {"topic": TOPICS}
    found = {}
    for name, regimes in groups.items():
        mine = [row[column] == AA for row in rows if row["regime"] in regimes]
        found[name] = Count(sum(mine), len(mine))
    return found


def planned_tests(made: Mapping[str, Count]) -> dict[tuple[str, str], tuple[float, float]]:
    """The seven planned tests: p, and p after Holm's correction. Fisher's exact test, one-sided
    but for control against scratch."""
    raw = {
        (one, other): fisher(made[one], made[other])
        for other in (CONTROL, SCRATCH)
        for one in ("topic", *TOPICS)
    }
    raw[CONTROL, SCRATCH] = fisher_two_sided(made[CONTROL], made[SCRATCH])
    return {pair: (raw[pair], p) for pair, p in holm(raw).items()}


def fisher(one: Count, other: Count) -> float:
    """Chance of as many in the first group, or more, if both are alike."""
    return at_least([(one.count, one.n, other.count, other.n)])


def fisher_two_sided(one: Count, other: Count) -> float:
    """Chance of any split that is no likelier than this one."""
    total = one.count + other.count
    ways = [math.comb(one.n, k) * math.comb(other.n, total - k) for k in range(total + 1)]
    return sum(way for way in ways if way <= ways[one.count]) / sum(ways)


def holm(raw: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """p-values after Holm's correction for how many there are."""
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
    """The least share from 0 to 1 at which it is reached, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def topic_models(found: Results) -> Chart:
    """Mechanisms by all lenses and by cutoffs, and how much of the task each model knows."""
    rows = models(found)
    panels = [
        bars([row | {"what": row["regime"], "verdict": row[column]} for row in rows], called)
        for column, called in READINGS.items()
    ]
    names = list(dict.fromkeys(row["regime"] for row in rows))
    dots = []
    for mechanism in sorted({row["verdict"] for row in rows}, key=order):
        mine = [row for row in rows if row["verdict"] == mechanism]
        x = [names.index(row["regime"]) + 0.12 * (row["seed"] - 2) for row in mine]
        y = [float(row["accuracy"]) for row in mine]
        colour, mark = style(mechanism)
        dots.append(Dots(mechanism, x, y, [row["cell"] for row in mine], colour, mark, 7))
    ticks = tuple((float(i), name) for i, name in enumerate(names))
    panels.append(
        Panel(
            "",
            "states right",
            tuple(dots),
            "each model, lengths 1 to 100",
            ticks=ticks,
            x_range=(-0.6, len(names) - 0.4),
            y_range=(0, 1.02),
            bare=True,
        )
    )
    return Chart(
        "topic-models", "Pythia-160M on S3, by what it was trained on before", tuple(panels)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Numbers and figures of docs/findings.")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    found = Results(parser.parse_args().root)
    rows = models(found)
    for column, called in READINGS.items():
        made = counts(rows, column)
        print(f"associative {called}")
        for name, count in made.items():
            low, high = count.interval()
            print(f"  {name}: {count.count} of {count.n} ({low:.0%} to {high:.0%})")
        for (one, other), (p, corrected) in planned_tests(made).items():
            print(f"  {one} against {other}: p {p:.3g}, corrected {corrected:.3g}")
    topic_models(found).save(found.root / FIGURE)


if __name__ == "__main__":
    main()
