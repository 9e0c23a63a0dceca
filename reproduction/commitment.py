"""When is the mechanism decided: docs/findings/commitment.md.

    python -m reproduction.commitment --measure runs/commitment    # and -parents, -branches
    python -m reproduction.commitment

The first adds the tables of a trained study to results/commitment, the second computes the tests
and draws the figure from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from reproduction.findings import holm
from reproduction.judged import Judged, by_cell, run
from reproduction.lens_model import AA
from reproduction.statistics import permutation_p, sign_test, spearman
from statetrace.reports.figures.chart import Bars, Chart, Line, Panel

RESULTS, FIGURE = "results/commitment", "docs/findings/commitment.png"
STEPS = (250, 500, 1000, 2000, 4000)
EARLY, LAST = 1000, 6500
COMMITTED = 0.9
"""Share of the branches that end as their parent."""
FEWEST = 8
"""Learned models whose share of AA is used."""
MAP, LEAD = "probability of AA", "state minus parity accuracy"
READINGS: dict[str, Callable[[Judged], float | None]] = {
    MAP: lambda model: model.probabilities.get(AA),
    LEAD: lambda model: float(model["accuracy"] - model["parity_accuracy"]),
}


def crossed(models: Sequence[Judged]) -> list[Judged]:
    """Learned models whose initial weights and data order vary separately."""
    return [model for model in models if model.row.get("init_seed") is not None and model.learned]


def by_level(models: Sequence[Judged], factor: str) -> dict[int, list[bool]]:
    """Level of a factor -> whether its learned models are associative."""
    groups: dict[int, list[bool]] = {}
    for model in sorted(models, key=lambda model: int(model[factor])):
        if model.learned:
            groups.setdefault(model[factor], []).append(model.mechanism == AA)
    return {level: group for level, group in groups.items() if len(group) >= FEWEST}


def differ(models: Sequence[Judged], factor: str) -> float:
    """p of the differences in AA between levels of a factor, by permutation of the models."""
    level = np.unique([model[factor] for model in models], return_inverse=True)[1]
    sizes = np.bincount(level)

    def between(values: np.ndarray) -> float:
        return float((np.bincount(level, values) ** 2 / sizes).sum())

    return permutation_p(between, [model.mechanism == AA for model in models])


def variance_between(groups: Sequence[Sequence[bool]]) -> float:
    """Share of the variance of AA that lies between groups (intraclass correlation): 0 if all have
    the same probability, 1 if each has one outcome."""
    sizes, means = (np.array([float(of(group)) for group in groups]) for of in (len, mean))
    between = sizes @ (means - np.average(means, weights=sizes)) ** 2 / max(1, len(groups) - 1)
    within = sizes @ (means * (1 - means)) / (sizes.sum() - len(groups))
    total = between + (sizes.mean() - 1) * within
    return float((between - within) / total) if total else 0.0


@dataclass(frozen=True)
class Parent:
    """A model: its checkpoints by step, and by step whether its branches are associative."""

    checkpoints: dict[int, Judged]
    branches: dict[int, list[bool]]

    @property
    def end(self) -> bool:
        return self.checkpoints[max(self.checkpoints)].mechanism == AA

    def agreement(self, step: int) -> float:
        """Share of the branches that end as this model."""
        return mean(end == self.end for end in self.branches[step])

    @property
    def committed(self) -> int:
        """The first step from which on nearly all branches end as this model."""
        early = [step for step in STEPS if self.agreement(step) < COMMITTED]
        return next((step for step in STEPS if step > max(early, default=0)), LAST)


def parents(models: Sequence[Judged]) -> list[Parent]:
    """Those that have learned the task and have enough branches at every step."""
    rows = [model for model in models if model.row.get("init_seed") is None]
    branches = [model for model in rows if model.row.get("parent") is not None]
    known = []
    for checkpoints in by_cell([model for model in rows if model.row.get("parent") is None]):
        mine = [model for model in branches if model["parent"] == checkpoints[0]["seed"]]
        groups = by_level(mine, "branch_step")
        if checkpoints[-1].learned and tuple(groups) == STEPS:
            known.append(Parent({int(model["step"]): model for model in checkpoints}, groups))
    return known


def foresight(some: Sequence[Parent], step: int, reading: str) -> tuple[float, float]:
    """Rank correlation, over parents, of a reading at a step and the share of AA in the branches
    from there, and its one-sided p."""
    pairs = [(READINGS[reading](p.checkpoints[step]), mean(p.branches[step])) for p in some]
    known = [(x, y) for x, y in pairs if x is not None]
    return spearman(*zip(*known, strict=True)) if len(known) > 2 else (0.0, 1.0)


def planned_tests(models: Sequence[Judged]) -> dict[str, tuple[float, float]]:
    """The eight planned tests: p, and p after Holm's correction; 1 where nothing was trained."""
    both, some = crossed(models), parents(models)
    raw = {factor: differ(both, factor) if both else 1.0 for factor in ("init_seed", "seed")}
    raw[f"committed by {EARLY}"] = sign_test([EARLY + 1 - p.committed for p in some])
    raw |= {f"foresight at {step}": foresight(some, step, MAP)[1] for step in STEPS}
    return {test: (raw[test], p) for test, p in holm(raw).items()}


def figure(models: Sequence[Judged]) -> Chart:
    """The share of AA by initial weights, and what is decided and foreseen by step."""
    panels, some = [], parents(models)
    groups = [*by_level(crossed(models), "init_seed").values()]
    decided = {0: variance_between(groups)} if groups else {}
    if groups:
        shares, sizes = [mean(group) for group in groups], [len(group) for group in groups]
        draws = np.random.default_rng(0).binomial(sizes, np.mean(shares), (1000, len(sizes)))
        counts, chance = (np.histogram(x, 10, (0, 1))[0] for x in (shares, draws / sizes))
        x, y = [0.05 + 0.1 * i for i in range(10)], counts.tolist()
        bars = Bars("initial weights", x, y, y, y, [""] * 10, width=0.09)
        line = Line("if all were alike", x, (chance / 1000).tolist(), "grey", "dash", mark=None)
        panels.append(Panel("share of AA over data orders", "initial weights", (bars, line),
                            "initial weights by share of AA"))  # fmt: skip
    if some:
        decided |= {step: variance_between([p.branches[step] for p in some]) for step in STEPS}
        agreement = [mean(p.agreement(step) for p in some) for step in STEPS]
        marks = (Line("share of variance between models", [*decided], [*decided.values()]),
                 Line("branches that end as their parent", STEPS, agreement, "third",
                      mark="square"))  # fmt: skip
        panels.append(Panel("step", "share", marks, "decided in branches", y_range=(-0.2, 1.04)))
        lines = [Line(name, STEPS, [foresight(some, step, name)[0] for step in STEPS], colour)
                 for name, colour in ((MAP, "state"), (LEAD, "parity"))]  # fmt: skip
        panels.append(Panel("step", "rank correlation", tuple(lines),
                            "AA in branches, foreseen", y_range=(-1.04, 1.04)))  # fmt: skip
    return Chart("commitment", "When the mechanism is decided", tuple(panels))


def report(models: Sequence[Judged]) -> None:
    both, some = crossed(models), parents(models)
    for factor in ("init_seed", "seed"):
        if groups := by_level(both, factor):
            shares = {level: round(mean(group), 2) for level, group in groups.items()}
            between = variance_between([*groups.values()])
            print(f"{factor}: variance between {between:.2f}, shares of AA {shares}")
    committed = dict(sorted(Counter(p.committed for p in some).items()))
    print(f"{len(some)} parents, {sum(p.end for p in some)} AA; committed at {committed}")
    for step in STEPS if some else ():
        between = variance_between([p.branches[step] for p in some])
        agreement = mean(p.agreement(step) for p in some)
        known = {name: round(foresight(some, step, name)[0], 2) for name in READINGS}
        print(f"  step {step}: between {between:.2f}, agreement {agreement:.2f}, {known}")
    for test, (p, corrected) in planned_tests(models).items():
        print(f"{test}: p {p:.3g}, corrected {corrected:.3g}")


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure, every_checkpoint=True)
