"""When is the mechanism decided: docs/findings/commitment.md.

    python -m reproduction.commitment --measure runs/commitment    # and -parents, -branches
    python -m reproduction.commitment

The first adds the tables of a trained study to results/commitment, the second computes the tests
and draws the figure from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from reproduction.findings import BY_CHANCE, Count, holm
from reproduction.judged import (
    UNLEARNED,
    Judged,
    by_cell,
    judged,
    keeps_parity,
    right_parity,
    run,
)
from reproduction.lens_model import AA, PAA
from reproduction.statistics import permutation_p, sign_test, spearman
from statetrace.reports.figures.chart import Beside, Chart, Dots, Panel, ReferenceLine
from statetrace.reports.figures.study_shares import STYLES, order

RESULTS, FIGURE = "results/commitment", "docs/findings/commitment.png"
OTHERS = "results/trajectories"
"""Models with a start marker whose checkpoints were measured, too."""
AGAIN = "results/anchors"
"""With the same models, trained with other rounding, as its cells SAME."""
SAME = "gpt2_own-first-token"
STEPS = (250, 500, 1000, 2000, 4000)
SECOND, EARLY, LAST = 500, 1000, 6500
COMMITTED = 0.9
"""Share of the branches that end as their parent."""
FEWEST = 8
"""Learned models whose share of AA is used."""
SHORT = 4
"""Actions that most models solve after 250 steps, and all after 500."""
MAP, LEAD = "probability of AA", "state minus parity accuracy"
READINGS: dict[str, Callable[[Judged], float | None]] = {
    MAP: lambda model: model.probabilities.get(AA),
    LEAD: lambda model: float(model["accuracy"] - model["parity_accuracy"]),
}


def mechanism(model: Judged) -> str:
    return model.mechanism


def learned(model: Judged) -> bool:
    return model.learned


def associative(model: Judged) -> bool:
    return model.mechanism == AA


def counts_parity(model: Judged) -> bool:
    return model.mechanism == PAA


def ahead(model: Judged) -> float | None:
    """How many layers fewer parity needs than the state, at SHORT actions."""
    needed = [float(x) for link in model.links for x in link.needed[link.lengths == SHORT]]
    return needed[-1] - needed[0] if len(needed) == len(model.links) > 1 else None


def crossed(models: Sequence[Judged]) -> list[Judged]:
    """Learned models whose initial weights and data order vary separately."""
    return [model for model in models if model.row.get("init_seed") is not None and model.learned]


def by_level(models: Sequence[Judged], factor: str) -> dict[int, list[bool]]:
    """Level of a factor -> whether its learned models are associative."""
    groups: dict[int, list[bool]] = {}
    for model in sorted(models, key=lambda model: int(model[factor])):
        if model.learned:
            groups.setdefault(model[factor], []).append(associative(model))
    return {level: group for level, group in groups.items() if len(group) >= FEWEST}


def differ(models: Sequence[Judged], factor: str) -> float:
    """p of the differences in AA between levels of a factor, by permutation of the models."""
    level = np.unique([model[factor] for model in models], return_inverse=True)[1]
    sizes = np.bincount(level)

    def between(values: np.ndarray) -> float:
        return float((np.bincount(level, values) ** 2 / sizes).sum())

    return permutation_p(between, [associative(model) for model in models])


def variance_between(groups: Iterable[Sequence[float]]) -> float:
    """Share of the variance that lies between groups (intraclass correlation): 0 if all have the
    same mean, 1 if each has one value."""
    known = [np.array(group, dtype=float) for group in groups if group]
    sizes, means, variances = (
        np.array([of(group) for group in known]) for of in (len, np.mean, np.var)
    )
    between = sizes @ (means - np.average(means, weights=sizes)) ** 2 / max(1, len(known) - 1)
    within = sizes @ variances / (sizes.sum() - len(known))
    total = between + (sizes.mean() - 1) * within
    return float((between - within) / total) if total else 0.0


@dataclass(frozen=True)
class Parent:
    """A model: its checkpoints and its branches, by step."""

    checkpoints: dict[int, Judged]
    branches: dict[int, list[Judged]]

    @property
    def last(self) -> Judged:
        return self.checkpoints[max(self.checkpoints)]

    def learned(self, step: int) -> list[Judged]:
        return [branch for branch in self.branches[step] if branch.learned]

    @property
    def counts(self) -> bool:
        """Whether it has learned the task and has enough learned branches at every step."""
        enough = [len(self.learned(step)) >= FEWEST for step in self.branches]
        return self.last.learned and tuple(self.branches) == STEPS and all(enough)

    def ends(self, step: int) -> list[bool]:
        """Whether its learned branches are associative."""
        return [associative(branch) for branch in self.learned(step)]

    def agreement(self, step: int) -> float:
        """Share of the learned branches that end as this model, AA or not."""
        return mean(end == associative(self.last) for end in self.ends(step))

    @property
    def committed(self) -> int:
        """The first step from which on nearly all branches end as this model."""
        early = [step for step in STEPS if self.agreement(step) < COMMITTED]
        return next((step for step in STEPS if step > max(early, default=0)), LAST)


def all_parents(models: Sequence[Judged]) -> list[Parent]:
    """Also those without branches."""
    rows = [model for model in models if model.row.get("init_seed") is None]
    branches: dict[tuple[int, int], list[Judged]] = {}
    for model in rows:
        if model.row.get("parent") is not None:
            branches.setdefault((model["parent"], model["branch_step"]), []).append(model)
    families = []
    for mine in by_cell([model for model in rows if model.row.get("parent") is None]):
        keys = {step: (mine[0]["seed"], step) for step in STEPS}
        own = {step: branches[key] for step, key in keys.items() if key in branches}
        families.append(Parent({int(model["step"]): model for model in mine}, own))
    return families


def parents(models: Sequence[Judged]) -> list[Parent]:
    """Those that count by the plan."""
    return [parent for parent in all_parents(models) if parent.counts]


def foresight(some: Sequence[Parent], step: int, reading: str) -> tuple[float, float]:
    """Rank correlation, over parents, of a reading at a step and the share of AA in the branches
    from there, and its one-sided p."""
    pairs = [(READINGS[reading](p.checkpoints[step]), mean(p.ends(step))) for p in some]
    known = [(x, y) for x, y in pairs if x is not None]
    return spearman(*zip(*known, strict=True)) if len(known) > 2 else (0.0, 1.0)


def planned_tests(models: Sequence[Judged]) -> dict[str, tuple[float, float]]:
    """The eight planned tests: p, and p after Holm's correction; 1 where nothing was trained."""
    both, some = crossed(models), parents(models)
    raw = {factor: differ(both, factor) if both else 1.0 for factor in ("init_seed", "seed")}
    raw[f"committed by {EARLY}"] = sign_test([EARLY + 1 - p.committed for p in some])
    raw |= {f"foresight at {step}": foresight(some, step, MAP)[1] for step in STEPS}
    return {test: (raw[test], p) for test, p in holm(raw).items()}


def as_parent(
    some: Sequence[Parent],
    step: int,
    outcome: Callable[[Judged], Hashable],
    used: Callable[[Judged], bool] = learned,
) -> Count:
    """How many of the branches that are used have the outcome of their parent."""
    pairs = [(outcome(b), outcome(p.last)) for p in some for b in p.branches[step] if used(b)]
    return Count(sum(a == b for a, b in pairs), len(pairs))


def same_parity(some: Sequence[Parent], step: int) -> Count:
    """How many branches, learned or not, keep parity, or do not, as their parent."""
    return as_parent(some, step, keeps_parity, lambda b: keeps_parity(b) is not None)


def same_mechanism(some: Sequence[Parent], step: int) -> tuple[float, float]:
    """Share of the pairs of learned branches with the same mechanism, of one parent and of two."""
    names = [(number, m.mechanism) for number, p in enumerate(some) for m in p.learned(step)]
    pairs = [(i == j, a == b) for (i, a), (j, b) in combinations(names, 2)]
    one, two = (mean(same for own, same in pairs if own == side) for side in (True, False))
    return one, two


def measured(model: Judged) -> dict[str, float]:
    """The numbers of an early checkpoint, at lengths up to SHORT."""
    values = {name: float(model[name]) for name in ("accuracy", "parity_accuracy")}
    values |= {"ahead": ahead(model) or 0.0} | model.probabilities
    for link in model.links:
        short = link.lengths <= SHORT
        for n, layers, error in zip(link.lengths[short], link.needed, link.error, strict=False):
            values |= {
                f"{link.name}, layers at {n:g}": layers,
                f"{link.name}, error at {n:g}": error,
            }
        for name in ("soft", "first", "split"):
            values[f"{link.name}, {name}"] = getattr(link, name)
    return values


def threshold(values: np.ndarray, flags: np.ndarray) -> tuple[int, float, bool]:
    """The column of values [n, k] that separates the flagged rows [n] best (of equals, the one with
    the widest gap), the threshold, and whether flagged rows lie above it."""
    found, best = (0, 0.0, True), (0.0, 0.0)
    for column, x in enumerate(values.T):
        for low, high in pairwise(np.unique(x)):
            hits = float(np.mean((x > (low + high) / 2) == flags))
            score = (max(hits, 1 - hits), float((high - low) / x.std()))
            if score > best:
                found, best = (column, (low + high) / 2, hits >= 0.5), score
    return found


def left_out(models: Sequence[Judged], flags: Sequence[bool]) -> tuple[Count, Counter[str]]:
    """How many models get their flag from the threshold that separates all others best; and how
    often each number was used."""
    tables = [measured(model) for model in models]
    names, flag = [*tables[0]], np.array(flags)
    values = np.array([[row[name] for name in names] for row in tables])
    hits, used = 0, Counter[str]()
    for number, row in enumerate(values):
        rest = np.arange(len(values)) != number
        column, at, above = threshold(values[rest], flag[rest])
        hits += bool(((row[column] > at) == above) == flag[number])
        used[names[column]] += 1
    return Count(hits, len(values)), used


Ends = Sequence[tuple[Judged, Judged]]
"""A checkpoint and the last one of each model."""


def ends(paths: Iterable[Sequence[Judged]], step: int) -> Ends:
    """The checkpoint at that step, where parity's lead is known there, and the last one."""
    known = [(model, path[-1]) for path in paths for model in path if model["step"] == step]
    return [pair for pair in known if ahead(pair[0]) is not None]


def gaps(some: Ends, keeps: bool) -> list[float]:
    """How far parity is ahead at the step, in models that keep parity at the end, or do not."""
    known = [ahead(model) for model, last in some if keeps_parity(last) is keeps]
    return sorted(round(gap, 2) for gap in known if gap is not None)


def trained_again(everyone: Sequence[Parent]) -> Ends:
    """Each model, and itself with other rounding."""
    twins = {model["seed"]: model for model in judged(Path(AGAIN)) if SAME in model["cell"]}
    return [(p.last, twins[p.last["seed"]]) for p in everyone]


def figure(models: Sequence[Judged]) -> Chart:
    """A row per parent: the verdicts on its checkpoints, and the mechanisms and errors of its first
    branches; and for all models, what an early checkpoint shows of the errors at the end."""
    everyone, first, steps = all_parents(models), STEPS[0], (*STEPS, LAST)
    families = [p for p in everyone if p.branches]
    rows: dict[int, Parent] = {}
    sections: dict[int, str] = {}
    for name in sorted({p.last.mechanism for p in families}, key=order):
        at = len(rows) + len(sections)
        sections[at] = name
        mine = [p for p in families if p.last.mechanism == name]
        rows |= {at + i: p for i, p in enumerate(mine, start=1)}
    titles = [ReferenceLine("y", y + 0.45, text, "faint", "solid") for y, text in sections.items()]
    lines = [ReferenceLine("y", y + 0.45, "", "faint", "solid") for y in sections]
    seeds = {y: str(p.last["seed"]) if p.counts else f"({p.last['seed']})" for y, p in rows.items()}
    down, branches = len(rows) + len(sections), {y: p.branches[first] for y, p in rows.items()}
    about: dict[str, Any] = {"y_range": (-0.4, down - 0.3), "down": True}
    about |= {"y_ticks": tuple((float(y), seed) for y, seed in seeds.items())}
    seen = [(x, y, p.checkpoints[step].mechanism)
            for y, p in rows.items() for x, step in enumerate(steps)]  # fmt: skip
    found = [(x, y, name) for y, mine in branches.items()
             for x, name in enumerate(sorted(map(_shown, mine), key=order), start=1)]  # fmt: skip
    errors = [(right_parity(branch), y, _shown(branch)) for y, mine in branches.items()
              for branch in mine]  # fmt: skip
    known = [(p.checkpoints[SECOND], p.last) for p in everyone]
    early = [(ahead(model), right_parity(last), last.mechanism) for model, last in known]
    chance = ReferenceLine("x", BY_CHANCE, "by chance", beside=Beside("right", 0.6, BY_CHANCE))
    panels = (
        Panel("step (thousands)", "parent", (*titles, *_dots(seen)), "verdict on the parent",
              ticks=tuple((float(x), f"{step / 1000:g}") for x, step in enumerate(steps)),
              x_range=(-0.7, len(steps) - 0.3), tall=0.4 + down / 16, **about),
        Panel("branches", "", (*lines, *_dots(found)), f"branches from step {first}",
              x_range=(0.2, 16.8), **about),
        Panel("errors with right parity", "", (*lines, chance, *_dots(errors)), "their errors",
              x_range=(-0.04, 1.04), **about),
        Panel("layers, state minus parity", "errors with right parity", tuple(_dots(early)),
              f"step {SECOND} and the end", y_range=(-0.04, 1.04)),
    )  # fmt: skip
    return Chart("commitment", "When the mechanism is decided", panels, columns=len(panels))


def _shown(branch: Judged) -> str:
    return branch.mechanism if branch.learned else UNLEARNED


def _dots(places: Sequence[tuple[float | None, float | None, str]]) -> list[Dots]:
    """A dot for each x, y and mechanism."""
    known = [place for place in places if None not in place]
    dots = []
    for name in sorted({name for *_, name in known}, key=order):
        x, y, _ = zip(*(place for place in known if place[-1] == name), strict=True)
        dots.append(Dots(name, x, y, (), *STYLES[name], 6))
    return dots


def report(models: Sequence[Judged]) -> None:
    both, some = crossed(models), parents(models)
    for factor in ("init_seed", "seed"):
        if groups := by_level(both, factor):
            shares = {level: round(mean(group), 2) for level, group in groups.items()}
            between = variance_between(groups.values())
            print(f"{factor}: variance between {between:.2f}, shares of AA {shares}")
    committed = dict(sorted(Counter(p.committed for p in some).items()))
    print(f"{len(some)} parents, {sum(associative(p.last) for p in some)} AA; at {committed}")
    for step in STEPS if some else ():
        between = variance_between(p.ends(step) for p in some)
        agreement = mean(p.agreement(step) for p in some)
        known = {name: round(foresight(some, step, name)[0], 2) for name in READINGS}
        print(f"  step {step}: between {between:.2f}, agreement {agreement:.3f}, {known}")
    for test, (p, corrected) in planned_tests(models).items():
        print(f"{test}: p {p:.3g}, corrected {corrected:.3g}")
    if some:
        unplanned(all_parents(models))


def unplanned(everyone: Sequence[Parent]) -> None:
    """What was seen afterwards."""
    families = [p for p in everyone if p.branches]
    counted = [p for p in families if p.counts]
    for step in STEPS:
        names = as_parent(counted, step, mechanism)
        sure = as_parent(counted, step, mechanism, lambda b: b.learned and b.decided)
        pairs = " and ".join(f"{share:.2f}" for share in same_mechanism(counted, step))
        print(f"step {step}: same mechanism {names}, if decided {sure}; of two branches {pairs}")
        every = [p.branches[step] for p in families]
        accuracy = variance_between([m["accuracy"] for m in mine] for mine in every)
        passed = variance_between([m.learned for m in mine] for mine in every)
        print(f"  all parents: parity {same_parity(families, step)}; "
              f"variance between, accuracy {accuracy:.2f}, learned {passed:.2f}")  # fmt: skip
    moves = [(p.last.mechanism, b.mechanism, b.decided)
             for p in counted for step in STEPS for b in p.learned(step)]  # fmt: skip
    for (end, name), n in Counter((end, name) for end, name, _ in moves).items():
        print(f"  {end} -> {name}: {n}, {moves.count((end, name, False))} undecided")
    for p in families:
        tallies = {step: dict(Counter(map(mechanism, p.learned(step)))) for step in STEPS}
        print(p.last["seed"], p.last.mechanism, f"{p.last['accuracy']:.3f}", p.counts, tallies)
    for step in (STEPS[0], SECOND, EARLY):
        pairs_at = ends(([*p.checkpoints.values()] for p in everyone), step)
        as_end = sum(early.mechanism == last.mechanism for early, last in pairs_at)
        print(f"step {step}: {len(pairs_at)} verdicts, {as_end} as at the end")
        print("  ahead:", gaps(pairs_at, True)[:3], "and", gaps(pairs_at, False))
        kept = [(early, last) for early, last in pairs_at if keeps_parity(last)]
        for flag, of in ((keeps_parity, pairs_at), (counts_parity, kept)):
            flags = [bool(flag(last)) for _, last in of]
            hits, used = left_out([early for early, _ in of], flags)
            print(f"  {flag.__name__}: {sum(flags)}; foreseen if left out {hits}, by {dict(used)}")
    others = [path for path in by_cell(judged(Path(OTHERS))) if path[0]["training"] == "growing"]
    marked = ends(others, SECOND)
    print(f"{OTHERS}, step {SECOND}, ahead:", gaps(marked, True)[:3], "and", gaps(marked, False))
    again = trained_again(everyone)
    both = [(a, b) for a, b in again if a.learned and b.learned]
    pairs_of = {"parity": (keeps_parity, again), "mechanism": (mechanism, again)}
    for name, (outcome, of) in (pairs_of | {"AA": (associative, both)}).items():
        print(f"trained again, {name}: {sum(outcome(a) == outcome(b) for a, b in of)} of {len(of)}")
    accuracies = [(a["accuracy"], b["accuracy"]) for a, b in again]
    print(f"  correlation of accuracies {np.corrcoef(accuracies, rowvar=False)[0, 1]:.2f}")


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure, every_checkpoint=True)
