"""What marks the start of a sequence: docs/findings/anchors.md.

    python -m reproduction.anchors --measure runs/anchors
    python -m reproduction.anchors

The first writes the tables of a trained study to results/anchors, with accuracy at length 2. The
second computes the tests and draws the figure from them; it does not need torch.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv

from reproduction.findings import Count, fisher_two_sided, holm
from reproduction.judged import Judged, batches, command_line, judged, measure, write
from reproduction.lens_model import AA, NAMES
from reproduction.study_figures import mechanism_bars
from statetrace.reports.figures.chart import Chart
from statetrace.studies.folder import Study

RESULTS, FIGURE = "results/anchors", "docs/findings/anchors.png"
FAMILIES, ANCHORS = ("gpt2", "pythia"), ("marker", "none", "own-first-token")
POSITIONS = {"gpt2": "learned", "pythia": "rotary"}
LENGTH_2 = "length_2.csv"
Pair = tuple[str, str, str, str]
"""Outcome, family, and the two anchors compared."""


def measure_pairs(study: Study, out: Path) -> None:
    """Count how many pairs of actions each model of a trained study solves."""
    from statetrace.lenses.loading import load_run

    rows = []
    for cells in batches(study):
        loaded = [load_run(study.run(cell), device="auto") for cell in cells]
        correct = pairs_solved([each.model for each in loaded], loaded[0].task)
        rows += [{"cell": cell.name, "solved": n} for cell, n in zip(cells, correct, strict=True)]
    out.mkdir(parents=True, exist_ok=True)
    write(out / LENGTH_2, rows)


def pairs_solved(models: list[Any], task: Any) -> list[int]:
    """How many of all pairs of actions each model solves."""
    import numpy as np

    from statetrace.lenses.parts.answers import stacked_answers
    from statetrace.models.stack import ModelStack
    from statetrace.tasks.sequences import Sequences, element_dtype, scan

    every = range(task.group.order)
    actions = np.array(list(itertools.product(every, every)), element_dtype(task.group.order))
    pairs = Sequences(actions, scan(task.group, actions))
    predicted = stacked_answers(ModelStack(models), task, pairs)[..., 1]
    return (predicted == pairs.states[:, 1]).sum(axis=1).tolist()


def pairs(folder: Path) -> dict[str, int]:
    """Cell -> how many pairs of actions its model solves."""
    rows = pyarrow.csv.read_csv(folder / LENGTH_2).to_pylist()
    return {row["cell"]: row["solved"] for row in rows}


def of(models: Sequence[Judged], family: str, anchor: str) -> list[Judged]:
    return [model for model in models if (model["model"], model["anchor"]) == (family, anchor)]


def has_learned(models: Sequence[Judged]) -> list[Judged]:
    return [model for model in models if model.learned]


def counts(models: Sequence[Judged]) -> dict[tuple[str, str, str], Count]:
    """Outcome, family, anchor -> how many models have learned, and how many of these are AA."""
    counted = {}
    for family, anchor in itertools.product(FAMILIES, ANCHORS):
        mine = of(models, family, anchor)
        able = has_learned(mine)
        counted["learned", family, anchor] = Count(len(able), len(mine))
        associative = sum(model.mechanism == AA for model in able)
        counted[AA, family, anchor] = Count(associative, len(able))
    return counted


def planned_tests(counted: dict[tuple[str, str, str], Count]) -> dict[Pair, tuple[float, float]]:
    """The twelve planned tests: p, and p after Holm's correction."""
    raw = {
        (outcome, family, first, second): fisher_two_sided(
            counted[outcome, family, first], counted[outcome, family, second]
        )
        for outcome in ("learned", AA)
        for family in FAMILIES
        for first, second in itertools.combinations(ANCHORS, 2)
    }
    return {pair: (raw[pair], p) for pair, p in holm(raw).items()}


def figure(models: Sequence[Judged]) -> Chart:
    """Mechanisms of the models that have learned the task."""
    names = ("start marker", "no anchor", "first action with\ntokens of its own")
    panels = []
    for family in FAMILIES:
        able = [has_learned(of(models, family, anchor)) for anchor in ANCHORS]
        rows = [[{"verdict": model.mechanism} for model in some] for some in able]
        title = f"{NAMES[family]} ({POSITIONS[family]} positions)"
        panels.append(mechanism_bars(list(zip(names, rows, strict=True)), title))
    return Chart("anchors", "Mechanisms by what marks the start of a sequence", tuple(panels))


def report(models: Sequence[Judged], solved: Mapping[str, int]) -> None:
    counted = counts(models)
    for what, count in counted.items():
        low, high = count.interval()
        print(f"{', '.join(what)}: {count.count} of {count.n} ({low:.0%} to {high:.0%})")
    for (*which, first, second), (p, corrected) in planned_tests(counted).items():
        print(f"{', '.join(which)}, {first} against {second}: p {p:.3g}, corrected {corrected:.3g}")
    for family, anchor in itertools.product(FAMILIES, ANCHORS):
        mine = of(models, family, anchor)
        able = has_learned(mine)
        found, every = (
            dict(Counter(each))
            for each in ((m.mechanism for m in able), (solved[m["cell"]] for m in mine))
        )
        decided = sum(model.decided for model in able)
        print(f"{family}, {anchor}: {found}, decided: {decided}, pairs solved: {every}")


def main() -> None:
    options = command_line(__doc__)
    folder = options.root / RESULTS
    if options.measure:
        study = Study.existing(options.measure)
        measure(study, folder)
        measure_pairs(study, folder)
        return
    models = judged(folder)
    report(models, pairs(folder))
    figure(models).save(options.root / FIGURE)


if __name__ == "__main__":
    main()
