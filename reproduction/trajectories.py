"""Do models compose parity before they count it? docs/findings/trajectories.md.

    python -m reproduction.trajectories --measure runs/trajectories    # best on a GPU
    python -m reproduction.trajectories

The first measures the map of every checkpoint of a trained study. The second computes the tests and
draws the figure from results/trajectories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median, quantiles

from calibration.__main__ import rows
from calibration.measuring import group_of, read
from calibration.report import of_set
from reproduction.findings import Count, fisher_two_sided, holm
from reproduction.judged import Judged, by_cell, run
from reproduction.lens_model import PAA
from reproduction.statistics import sign_test, spearman
from statetrace.mechanisms.mechanism_map import DECIDED
from statetrace.reports.figures.chart import Chart, Line, Panel
from statetrace.reports.figures.study_shares import order, style

RESULTS, FIGURE = "results/trajectories", "docs/findings/trajectories.png"
TRAININGS = {"growing": "sequences that grow", "whole": "whole sequences"}
LONGEST = 6
"""Growth is compared at the lengths 2 to 6, from the first checkpoint that solves 6 actions on."""
COUNTING = (PAA, "parallel")
LINKS = {"parity": ("fourth", "diamond"), "state": ("ink", "circle")}
"""With the styles of their growth; the usual ones are those of mechanisms here."""
FEWEST = 3
"""Models from which medians and mechanisms are drawn."""
LENGTHS = (2, 3, 4, 6, 8, 12, 16)
SHAPE = "S3-16-gpt2-5-64_"
"""The calibration's models of the same size, from scratch, with sequences that grow."""


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

    @property
    def measured(self) -> list[Judged]:
        """The checkpoints that solve LONGEST actions."""
        return [model for model in self.models if model.growth("parity", LONGEST) is not None]

    def growths(self, link: str) -> dict[int, float]:
        """Step -> layers per doubling, at the measured checkpoints."""
        known = {model["step"]: model.growth(link, LONGEST) for model in self.measured}
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


def named(paths: Sequence[Trajectory], mechanism: str) -> list[Trajectory]:
    """Those that have learned the task, with this mechanism at the end."""
    return [path for path in paths if path.learned and path.last.mechanism == mechanism]


def layers(models: Sequence[Judged], link: str) -> dict[int, float]:
    """Length -> the median of the layers that a link needs, where at least half of the models were
    measured."""
    curves = [
        dict(zip(each.lengths, each.needed, strict=True))
        for model in models
        for each in model.links
        if each.name == link
    ]
    known = {n: [float(curve[n]) for curve in curves if n in curve] for n in LENGTHS}
    return {n: median(some) for n, some in known.items() if 2 * len(some) >= len(models) > 0}


def labels() -> dict[str, Counter[str]]:
    """How interventions label models of the calibration: those of SHAPE, and the fresh models of S3
    that the verdict calls parallel."""
    found: dict[str, Counter[str]] = {}
    for name in ("fitted: trained", "fresh: trained"):
        for row in of_set(rows, name):
            if SHAPE in row["name"]:
                found.setdefault("of this size", Counter())[row["label"]] += 1
            if row["group"] == "S3" and row["links"] and name.startswith("fresh"):
                shares = read(row).probabilities(group_of(row))
                if max(shares, key=shares.__getitem__) == "parallel":
                    found.setdefault("called parallel", Counter())[row["label"]] += 1
    return found


def figure(models: Sequence[Judged]) -> Chart:
    """A row per kind of training: the mechanisms at every checkpoint, the growth of parity and
    state, and the layers that the state needs by length at the first and the last checkpoint."""
    panels = []
    for training, title in TRAININGS.items():
        paths = [path for path in trajectories(models, training) if path.learned]
        panels += [
            Panel("step (thousands)", "models", _mechanisms(paths),
                  f"{title}, n = {len(paths)}", x_range=(0, 6.8), y_range=(0, len(paths))),
            Panel("step (thousands)", "layers per doubling", _growths(paths),
                  f"growth at lengths 2 to {LONGEST}", x_range=(0, 6.8), y_range=(-0.2, 2.2)),
            Panel("length", "layers needed", _layers(paths), "state, by mechanism at the end",
                  y_range=(1, 5.1), log_x=True),
        ]  # fmt: skip
    return Chart("trajectories", "Mechanisms during training", tuple(panels), columns=3)


def _mechanisms(paths: Sequence[Trajectory]) -> tuple[Line, ...]:
    """How many models have each mechanism at each step; of rare mechanisms together."""
    by_step: dict[int, Counter[str]] = {}
    for model in (model for path in paths for model in path.models):
        by_step.setdefault(model["step"], Counter())[model.mechanism] += 1
    most = {name: max(c[name] for c in by_step.values()) for c in by_step.values() for name in c}
    names = sorted((name for name, n in most.items() if n > FEWEST), key=order)
    steps = sorted(by_step)
    return tuple(
        Line(name, [step / 1000 for step in steps], [by_step[step][name] for step in steps],
             style(name)[0], mark=style(name)[1])
        for name in names
    )  # fmt: skip


def _growths(paths: Sequence[Trajectory]) -> tuple[Line, ...]:
    """Median and quartiles, where at least half of the models were measured."""
    lines = []
    for link in LINKS:
        known = [path.growths(link) for path in paths]
        steps = sorted({step for growths in known for step in growths})
        values = {step: [growths[step] for growths in known if step in growths] for step in steps}
        bands = {
            step / 1000: quantiles(some, n=4, method="inclusive")
            for step, some in values.items()
            if len(some) >= max(2, len(paths) / 2)
        }
        low, middle, high = ([band[i] for band in bands.values()] for i in range(3))
        colour, mark = LINKS[link]
        name = f"growth, {link}"
        lines.append(Line(name, [*bands], middle, colour, mark=mark, low=low, high=high))
    return tuple(lines)


def _layers(paths: Sequence[Trajectory]) -> tuple[Line, ...]:
    """Of the state, by the mechanism at the end."""
    lines = []
    first = f"first checkpoint that solves {LONGEST}"
    for at, name, dash in ((0, first, "dash"), (-1, "last checkpoint", "solid")):
        lines.append(Line(name, [], [], "ink", dash, mark=None))
        for mechanism in COUNTING:
            mine = [path.measured[at] for path in named(paths, mechanism) if path.measured]
            if len(mine) >= FEWEST:
                curve = layers(mine, "state")
                colour, mark = style(mechanism)
                lines.append(Line("", [*curve], [*curve.values()], colour, dash, mark))
    return tuple(lines)


def report(models: Sequence[Judged]) -> None:
    parallel = {}
    for training in TRAININGS:
        paths = trajectories(models, training)
        learned = [path for path in paths if path.learned]
        ends = Counter(path.last.mechanism for path in learned)
        parallel[training] = Count(ends["parallel"], len(learned))
        print(f"{training}: {len(learned)} of {len(paths)} learned; at the end {dict(ends)}")
        low, high = parallel[training].interval()
        print(f"  parallel at the end: {low:.0%} to {high:.0%}")
        print(f"  decided at the end: {_tally(path.last for path in learned if path.last.decided)}")
        for link, some in (("parity", counting(paths)), ("state", learned)):
            if moved := changes(some, link):
                falls = sum(change < 0 for change in moved)
                print(f"  {link}: falls in {falls} of {len(moved)}, median {median(moved):+.2f}")
        for which, some in (("learned", learned), ("count parity at the end", counting(paths))):
            first = [path.measured[0] for path in some if path.measured]
            print(f"  first checkpoint that solves {LONGEST}, {which}: {_tally(first)}")
        value, _ = foresight(paths)
        print(f"  first against last growth of parity: rank correlation {value:.2f}")
        print(f"  counted parity and composed it later: {sum(path.returns() for path in paths)}")
        for mechanism, link in product((*COUNTING, "any"), LINKS):
            some = learned if mechanism == "any" else named(paths, mechanism)
            for which, at in (("first", 0), ("last", -1)):
                curve = layers([path.measured[at] for path in some if path.measured], link)
                shown = {n: round(x, 2) for n, x in curve.items()}
                print(f"  layers, {mechanism}, {link}, {which}: {shown}")
        for step in sorted({model["step"] for path in paths for model in path.models}):
            at_step = [m for path in learned for m in path.models if m["step"] == step]
            print(f"  step {step}: {_tally(at_step)}")
    for test, (p, corrected) in planned_tests(models).items():
        print(f"{', '.join(test)}: p {p:.3g}, corrected {corrected:.3g}")
    shares = [parallel[training] for training in TRAININGS]
    print(f"not planned: parallel at the end {shares}, p {fisher_two_sided(*shares):.3g}")
    for which, counts in labels().items():
        print(f"labels in the calibration, {which}: {dict(counts)}")


def _tally(models: Iterable[Judged]) -> dict[str, int]:
    return dict(Counter(model.mechanism for model in models))


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure, every_checkpoint=True)
