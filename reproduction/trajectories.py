"""From composing parity to counting it: docs/findings/trajectories.md.

    python -m reproduction.trajectories --measure runs/trajectories    # best on a GPU
    python -m reproduction.trajectories

The first measures the map of every checkpoint of a trained study. The second computes the tests and
draws the figure from results/trajectories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from reproduction.findings import holm
from reproduction.judged import Judged, by_cell, run
from reproduction.lens_model import PAA
from reproduction.statistics import sign_test, spearman
from statetrace.mechanisms.mechanism_map import DECIDED
from statetrace.reports.figures.chart import Chart, Dots, Line, Mark, Panel
from statetrace.reports.figures.study_shares import order, style

RESULTS, FIGURE = "results/trajectories", "docs/findings/trajectories.png"
TRAININGS = {"growing": "sequences that grow", "whole": "whole sequences"}
LONGEST = 6
"""Growth is compared at the lengths 2 to 6, from the first checkpoint that solves 6 actions on."""
COUNTING = (PAA, "parallel")
LANDMARKS = {"parallel": (0.0, 0.0), PAA: (0.0, 1.0), "composes both": (1.0, 1.0)}
LINKS = ("parity", "state")
FEWEST = 3
"""Models with the same mechanism at the end whose median is drawn."""


@dataclass(frozen=True)
class Trajectory:
    """The checkpoints of a model, in the order of their steps."""

    models: Sequence[Judged]

    @property
    def last(self) -> Judged:
        return self.models[-1]

    @property
    def learned(self) -> bool:
        return self.last.learned

    def growths(self, link: str) -> dict[int, float]:
        """Step -> layers per doubling, from the first checkpoint that solves LONGEST actions."""
        known = {model["step"]: model.growth(link, LONGEST) for model in self.models}
        return {step: growth for step, growth in known.items() if growth is not None}

    def change(self, link: str) -> float | None:
        """From the first of these checkpoints to the last; None if there are not two."""
        growths = [*self.growths(link).values()]
        return growths[-1] - growths[0] if len(growths) > 1 else None

    def returns(self) -> bool:
        """Whether parity is counted at a checkpoint and composed at a later one, each with the
        probability that a decided verdict needs."""
        maps = [model.map for model in self.models if model.map is not None]
        counts = [m.own[0] * (1 - m.grows[0]) >= DECIDED for m in maps]
        composes = [m.grows[0] >= DECIDED for m in maps]
        return any(any(composes[at:]) for at, counted in enumerate(counts) if counted)


def trajectories(models: Sequence[Judged], training: str) -> list[Trajectory]:
    mine = [model for model in models if model["training"] == training]
    return [Trajectory(checkpoints) for checkpoints in by_cell(mine)]


def changes(paths: Sequence[Trajectory], link: str) -> list[float]:
    return [change for path in paths if (change := path.change(link)) is not None]


def counting(paths: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that have learned the task and count parity at the end."""
    return [path for path in paths if path.learned and path.last.mechanism in COUNTING]


def foresight(paths: Sequence[Trajectory]) -> tuple[float, float]:
    """Rank correlation between the growth of parity at the first and at the last checkpoint."""
    known = [[*path.growths("parity").values()] for path in paths if path.learned]
    pairs = [(growths[0], growths[-1]) for growths in known if len(growths) > 1]
    return spearman(*zip(*pairs, strict=True)) if len(pairs) > 1 else (0.0, 1.0)


def planned_tests(models: Sequence[Judged]) -> dict[tuple[str, str], tuple[float, float]]:
    """The six planned tests: p, and p after Holm's correction."""
    raw = {}
    for training in TRAININGS:
        paths = trajectories(models, training)
        raw[training, "parity"] = sign_test(changes(counting(paths), "parity"))
        learned = [path for path in paths if path.learned]
        raw[training, "state"] = sign_test(changes(learned, "state"))
        raw[training, "foresight"] = foresight(paths)[1]
    return {test: (raw[test], p) for test, p in holm(raw).items()}


def figure(models: Sequence[Judged]) -> Chart:
    """Median trajectories on the map, and the growth of parity during training, by the mechanism at
    the end."""
    panels = []
    for training, title in TRAININGS.items():
        paths = [path for path in trajectories(models, training) if path.learned]
        counts = Counter(path.last.mechanism for path in paths)
        on_map: list[Mark] = [
            Dots("known algorithm", [x], [y], [name], "faint", "circle", 12, labelled=True)
            for name, (x, y) in LANDMARKS.items()
        ]
        in_time: list[Mark] = []
        for mechanism in sorted((name for name, n in counts.items() if n >= FEWEST), key=order):
            mine = [path for path in paths if path.last.mechanism == mechanism]
            colour, mark = style(mechanism)
            name = f"{mechanism} at the end"
            bands = [_quartiles([path.growths(link) for path in mine]) for link in LINKS]
            steps = [step for step in bands[0] if step in bands[1]]
            x, y = ([band[step][1] for step in steps] for band in bands)
            on_map += [
                Line(name, x, y, colour, mark=mark),
                Dots("last checkpoint", x[-1:], y[-1:], [name], "ink", mark, 9),
            ]
            low, middle, high = ([bands[0][step][i] for step in steps] for i in range(3))
            in_time.append(Line(name, steps, middle, colour, mark=mark, low=low, high=high))
        about = f"{title}, n = {len(paths)}"
        growth = "layers per doubling"
        panels += [
            Panel(
                f"parity: {growth}",
                f"state: {growth}",
                tuple(on_map),
                f"{about}: medians",
                x_range=(-0.5, 1.5),
                y_range=(-0.5, 1.5),
            ),
            Panel("step", f"parity: {growth}", tuple(in_time), f"{about}: median, quartiles"),
        ]
    title = "Small models on the map of mechanisms during training"
    return Chart("trajectories", title, tuple(panels), columns=2)


def _quartiles(growths: Sequence[dict[int, float]]) -> dict[int, list[float]]:
    """Step -> the quartiles over models, where at least FEWEST were measured."""
    steps = sorted({step for growth in growths for step in growth})
    values = {step: [growth[step] for growth in growths if step in growth] for step in steps}
    return {
        step: quantiles(known, n=4, method="inclusive")
        for step, known in values.items()
        if len(known) >= FEWEST
    }


def report(models: Sequence[Judged]) -> None:
    for training in TRAININGS:
        paths = trajectories(models, training)
        learned = [path for path in paths if path.learned]
        ends = dict(Counter(path.last.mechanism for path in learned))
        print(f"{training}: {len(learned)} of {len(paths)} learned; at the end {ends}")
        for link, some in (("parity", counting(paths)), ("state", learned)):
            moved = changes(some, link)
            if moved:
                falls = sum(change < 0 for change in moved)
                print(f"  {link}: falls in {falls} of {len(moved)}, median {median(moved):+.2f}")
        value, _ = foresight(paths)
        print(f"  first against last growth of parity: rank correlation {value:.2f}")
        print(f"  counted parity and composed it later: {sum(path.returns() for path in paths)}")
        for step in sorted({model["step"] for path in paths for model in path.models}):
            at = [m for path in paths for m in path.models if m["step"] == step and m.map]
            print(f"  step {step}: {dict(Counter(model.mechanism for model in at))}")
    for test, (p, corrected) in planned_tests(models).items():
        print(f"{', '.join(test)}: p {p:.3g}, corrected {corrected:.3g}")


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure, every_checkpoint=True)
