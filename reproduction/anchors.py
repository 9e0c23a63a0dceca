"""What marks the start of a sequence: docs/findings/anchors.md.

    python -m reproduction.anchors --measure runs/anchors    # a second per hundred models
    python -m reproduction.anchors                           # seconds

The first copies the tables of a trained study to results/anchors and measures accuracy at length 2.
The second computes the tests and draws the figure from results/anchors; it does not need torch.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from reproduction.findings import Count, fisher_two_sided, holm
from reproduction.judged import command_line
from reproduction.lens_model import AA, NAMES
from reproduction.study_figures import mechanism_bars
from reproduction.tables import Row
from statetrace.reports.figures.chart import Chart
from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.table import write_tables

RESULTS, FIGURE = "results/anchors", "docs/findings/anchors.png"
FAMILIES, ANCHORS = ("gpt2", "pythia"), ("marker", "none", "own-first-token")
POSITIONS = {"gpt2": "learned", "pythia": "rotary"}
LEARNED = 0.9
"""Accuracy over all lengths from which a model counts as having learned the task."""
LENGTH_2 = "length_2.csv"
Pair = tuple[str, str, str, str]
"""Outcome, family, and the two anchors compared."""


def measure(study: Study, out: Path) -> None:
    """Copy a study's tables, and count how many pairs of actions each model solves."""
    from statetrace.lenses.loading import load_run

    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for (family, anchor), cells in itertools.groupby(
        (cell for cell in study.plan.cells if (study.outcome(cell) or {}).get("state") == FINISHED),
        lambda cell: (cell.levels["model"], cell.levels["anchor"]),
    ):
        some = list(cells)
        loaded = [load_run(study.run(cell), device="auto") for cell in some]
        correct = pairs_solved([each.model for each in loaded], loaded[0].task)
        rows += [
            {"model": family, "anchor": anchor, "seed": cell.levels["seed"], "solved": int(n)}
            for cell, n in zip(some, correct, strict=True)
        ]
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows), out / LENGTH_2)
    write_tables(study)
    for name in ("results.csv", "evidence.csv"):
        if (study.path / name).is_file():
            shutil.copyfile(study.path / name, out / name)


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


def read(folder: Path) -> list[Row]:
    """A row per model: model, anchor, seed, accuracy, verdict, confidence, solved."""
    rows, solved = (
        pyarrow.csv.read_csv(folder / name).to_pylist() for name in ("results.csv", LENGTH_2)
    )
    by_model = {(row["model"], row["anchor"], row["seed"]): row["solved"] for row in solved}
    return [
        row | {"solved": by_model[row["model"], row["anchor"], row["seed"]]}
        for row in rows
        if row["state"] == FINISHED
    ]


def of(rows: list[Row], family: str, anchor: str) -> list[Row]:
    return [row for row in rows if (row["model"], row["anchor"]) == (family, anchor)]


def has_learned(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["accuracy"] >= LEARNED]


def counts(rows: list[Row]) -> dict[tuple[str, str, str], Count]:
    """Outcome, family, anchor -> how many models have learned, and how many of these are AA."""
    counted = {}
    for family, anchor in itertools.product(FAMILIES, ANCHORS):
        mine = of(rows, family, anchor)
        able = has_learned(mine)
        counted["learned", family, anchor] = Count(len(able), len(mine))
        counted[AA, family, anchor] = Count(sum(row["verdict"] == AA for row in able), len(able))
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


def figure(rows: list[Row]) -> Chart:
    """Mechanisms of the models that have learned the task."""
    names = ("start marker", "no anchor", "first action with\ntokens of its own")
    panels = []
    for family in FAMILIES:
        able = [has_learned(of(rows, family, anchor)) for anchor in ANCHORS]
        title = f"{NAMES[family]} ({POSITIONS[family]} positions)"
        panels.append(mechanism_bars(list(zip(names, able, strict=True)), title))
    return Chart("anchors", "Mechanisms by what marks the start of a sequence", tuple(panels))


def main() -> None:
    options = command_line(__doc__)
    folder = options.root / RESULTS
    if options.measure:
        measure(Study.existing(options.measure), folder)
        return
    rows = read(folder)
    counted = counts(rows)
    for what, count in counted.items():
        low, high = count.interval()
        print(f"{', '.join(what)}: {count.count} of {count.n} ({low:.0%} to {high:.0%})")
    for (*which, first, second), (p, corrected) in planned_tests(counted).items():
        print(f"{', '.join(which)}, {first} against {second}: p {p:.3g}, corrected {corrected:.3g}")
    for family, anchor in itertools.product(FAMILIES, ANCHORS):
        mine = of(rows, family, anchor)
        print(family, anchor, dict(Counter(row["verdict"] for row in mine)),
              f"pairs solved at most: {max(row['solved'] for row in mine)} of 36")  # fmt: skip
    figure(rows).save(options.root / FIGURE)


if __name__ == "__main__":
    main()
