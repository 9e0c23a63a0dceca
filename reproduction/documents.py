"""What in pretraining text steers the mechanism: docs/findings/documents.md.

    python -m reproduction.documents --measure runs/documents    # and runs/documents-space, ...
    python -m reproduction.documents

The first adds the tables of a trained study to results/documents, the second computes the tests and
draws the figure from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from reproduction import document_space
from reproduction.document_space import LOGARITHMIC, RANGES, factors, scaled
from reproduction.findings import Count, fisher_two_sided, holm
from reproduction.judged import Judged, run
from reproduction.lens_model import AA
from reproduction.statistics import permutation_p, spearman
from reproduction.study_figures import mechanism_bars
from statetrace.reports.figures.chart import Chart, Dots, Line, Panel

RESULTS, FIGURE = "results/documents", "docs/findings/documents.png"
WIDTH, LENGTH, TOKENS, MARKER = 64, 16, "own-first-token", "marker"
BEFORE = {
    "nothing": "nothing",
    "longer": "longer",
    "constant": "one\ntoken",
    "shuffled": "shuffled",
    "random": "random",
    "topic-2": "topic\nmodel 2",
}
"""In words."""
COMPARED = (
    (TOKENS, "random", "nothing"),
    (TOKENS, "constant", "nothing"),
    (TOKENS, "longer", "nothing"),
    (TOKENS, "shuffled", "random"),
    (TOKENS, "topic-2", "random"),
    (MARKER, "random", "nothing"),
)
FEWEST = 10
"""Models of a distribution that have learned the task; with fewer it is left out."""

Shares = dict[str, float]
"""Distribution -> share of associative models."""


def trained(models: Sequence[Judged], anchor: str, before: str, width: int = WIDTH) -> list[Judged]:
    wanted = (width, anchor, before)
    return [m for m in models if (m["width"], m["anchor"], m["before"]) == wanted]


def cell(models: Sequence[Judged], anchor: str, before: str, width: int = WIDTH) -> list[Judged]:
    """The models that have learned the task."""
    return [model for model in trained(models, anchor, before, width) if model.learned]


def count(models: Sequence[Judged]) -> Count:
    return Count(sum(model.mechanism == AA for model in models), len(models))


def otherwise(models: Sequence[Judged]) -> dict[str, Count]:
    """The same, counted over other selections of the models of a cell."""
    able = [model for model in models if model.learned]
    return {
        "all": count(models),
        "decided": count([model for model in able if model.decided]),
        "solve all lengths": count([model for model in able if model["solved"] == LENGTH]),
    }


def shares(models: Sequence[Judged], space: Mapping[str, Any]) -> Shares:
    """Of the distributions that have enough models."""
    counts = {name: count(cell(models, TOKENS, name)) for name in space}
    return {name: each.count / each.n for name, each in counts.items() if each.n >= FEWEST}


def design(space: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """A column of ones, and one per factor as a share of its range: [distributions, 1 + factors]"""
    rows = [[1, *(scaled(k, v) for k, v in factors(space[name]).items())] for name in names]
    return np.array(rows)


def effects(share: Shares, space: Mapping[str, Any]) -> np.ndarray:
    """By least squares: the share where all factors are lowest, and what each adds at its highest
    value."""
    return np.linalg.pinv(design(space, [*share])) @ np.array([*share.values()])


def planned_tests(
    models: Sequence[Judged], space: Mapping[str, Any]
) -> dict[tuple[str, ...], tuple[float, float]]:
    """The twelve planned tests: p, and p after Holm's correction; 1 where nothing was trained."""
    raw: dict[tuple[str, ...], float] = dict.fromkeys((*COMPARED, *((name,) for name in RANGES)), 1)
    for anchor, first, second in COMPARED:
        counts = [count(cell(models, anchor, before)) for before in (first, second)]
        if all(each.n for each in counts):
            raw[anchor, first, second] = fisher_two_sided(*counts)
    share = shares(models, space)
    if len(share) > 2 * len(RANGES):
        rows = np.linalg.pinv(design(space, [*share]))[1:]
        for name, row in zip(RANGES, rows, strict=True):
            raw[(name,)] = permutation_p(partial(_size, row), [*share.values()])
    return {test: (raw[test], p) for test, p in holm(raw).items()}


def _size(row: np.ndarray, values: np.ndarray) -> float:
    return abs(float(row @ values))


def extremes(share: Shares, space: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The distributions with the lowest and the highest share according to the fit."""
    fitted = design(space, [*share]) @ effects(share, space)
    by_share = sorted(zip(share, fitted.tolist(), strict=True), key=lambda each: each[1])
    return [by_share[0], by_share[-1]]


def figure(models: Sequence[Judged], space: Mapping[str, Any]) -> Chart:
    """Mechanisms after each kind of stage, and the share of AA by each factor."""
    panels, share = [], shares(models, space)
    for anchor, title in (TOKENS, "first action with tokens of its own"), (MARKER, "start marker"):
        groups = [(words, cell(models, anchor, name)) for name, words in BEFORE.items()]
        rows = [(name, [{"verdict": m.mechanism} for m in some]) for name, some in groups if some]
        panels += [mechanism_bars(rows, title)] if rows else []
    if share:
        steepness, centers = effects(share, space)[1:], design(space, [*share]).mean(0)[1:]
        for name, slope, center in zip(RANGES, steepness, centers, strict=True):
            values = [factors(space[each])[name] for each in share]
            dots = Dots("distribution", values, [*share.values()], [*share])
            low, high = RANGES[name]
            start = float(mean(share.values()) - slope * center)
            line = Line("fit", [low, high], [start, start + float(slope)], mark=None)
            about: dict[str, Any] = {"log_x": True, "x_range": (low, high)}
            if name != LOGARITHMIC:
                margin = (high - low) / 20
                about = {"x_range": (low - margin, high + margin), "whole": "x" * (high > 1 + low)}
            panels.append(Panel(name, "share of AA", (dots, line), y_range=(-0.04, 1.04), **about))
    title = "Mechanisms by what came before the state task"
    return Chart("documents", title, tuple(panels), columns=2)


def report(models: Sequence[Judged], space: Mapping[str, Any]) -> None:
    for width, anchor, before in sorted({(m["width"], m["anchor"], m["before"]) for m in models}):
        if before in space and width == WIDTH:
            continue
        mine, able = (get(models, anchor, before, width) for get in (trained, cell))
        low, high = count(able).interval() if able else (0.0, 1.0)
        print(f"{width}, {anchor}, {before}: {dict(Counter(m.mechanism for m in able))}; "
              f"AA {count(able).count} of {len(able)} ({low:.0%} to {high:.0%})")  # fmt: skip
        others = (f"{name}: {each.count} of {each.n}" for name, each in otherwise(mine).items())
        print(f"  AA among others: {', '.join(others)}")
    if share := shares(models, space):
        print(f"{len(share)} distributions; {AA} {min(share.values())} to {max(share.values())}")
        for name, effect in zip(RANGES, effects(share, space)[1:], strict=True):
            print(f"  {name}: {effect:+.2f} from its lowest to its highest value")
        rest = np.array([*share.values()]) - design(space, [*share]) @ effects(share, space)
        about_parity = [document_space.parity_information(space[name]) for name in share]
        print(
            f"  rest and information about parity: {spearman(about_parity, rest.tolist())[0]:+.2f}"
        )
        for name, fitted in extremes(share, space):
            print(f"  fitted share {fitted:.2f}: {name} {space[name]}")
    for test, (p, corrected) in planned_tests(models, space).items():
        print(f"{', '.join(test)}: p {p:.3g}, corrected {corrected:.3g}")


if __name__ == "__main__":
    every = document_space.stages()
    run(__doc__, RESULTS, FIGURE, partial(report, space=every), partial(figure, space=every))
