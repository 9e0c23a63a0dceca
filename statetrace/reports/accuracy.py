"""State and parity accuracy, by length and over training, as a table and a chart."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from statetrace.errors import StatetraceError
from statetrace.reports.figures.chart import TURNS, Band, Chart, Line, Mark, Panel, ReferenceLine
from statetrace.runs import Run

CUTOFF = 0.98
"""The paper's threshold above which a model masters a length."""

_COLOURS = ("state", "parity", *TURNS)


@dataclass(frozen=True)
class AccuracyTable:
    """The accuracy of a run.

    Attributes:
        title: the model and its task.
        training_length: the length it was trained on.
        steps: of the evaluations; the last one is the trained model. Empty without a log.
        over_training: "state", "parity", ... -> mean accuracy over lengths at each evaluation.
        by_length: the same keys -> accuracy of the trained model at lengths 1, 2, ...
        chance: the same keys -> accuracy of guessing.
    """

    title: str
    training_length: int
    steps: list[int]
    over_training: dict[str, list[float]]
    by_length: dict[str, list[float]]
    chance: dict[str, float]

    @staticmethod
    def of(run: Run) -> AccuracyTable:
        """From metrics.jsonl; beyond the training length, and without a log, from the
        generalization lens, if it was run."""
        evaluations = [] if run.external else run.evaluations()
        task_group, length = run.group, int(run.task["length"])
        step = evaluations[-1]["step"] if evaluations else None
        measured = _measured(run, step)
        if not evaluations and not measured:
            raise StatetraceError(f"'{run.path}' has no evaluations in its log")
        last = evaluations[-1]["accuracy_by_length"] if evaluations else measured
        beyond = {what: values[length:] for what, values in measured.items()} if evaluations else {}
        orders = {
            what: task_group.order if what == "state" else task_group.quotient(what).image.order
            for what in last
        }
        name = run.info.get("zoo") if run.external else run.recipe["model"]["name"]
        return AccuracyTable(
            title=f"{name or 'model'} on {task_group.name}, trained on length {length}",
            training_length=length,
            steps=[record["step"] for record in evaluations],
            over_training={w: [r["accuracy"][w] for r in evaluations] for w in last},
            by_length={what: last[what] + beyond.get(what, []) for what in last},
            chance={what: 1 / order for what, order in orders.items()},
        )

    def mean(self, what: str) -> float:
        """Over all lengths up to the training length."""
        values = self.by_length[what][: self.training_length]
        return sum(values) / len(values)

    def rows(self) -> list[tuple[int, dict[str, float]]]:
        """(length, {what: accuracy}) for every length."""
        lengths = range(1, len(self.by_length["state"]) + 1)
        return [(n, {w: v[n - 1] for w, v in self.by_length.items()}) for n in lengths]

    def write_csv(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["length", *self.by_length])
            writer.writerows([n, *values.values()] for n, values in self.rows())

    def chart(self) -> Chart:
        """Accuracy by length, and over training."""
        lengths = list(range(1, len(self.by_length["state"]) + 1))
        marks = [*self._curves(lengths, self.by_length)]
        if lengths[-1] > self.training_length:
            end = lengths[-1] + 0.5
            marks.insert(0, Band(self.training_length + 0.5, end, "beyond the training length"))
        marks.append(ReferenceLine("y", CUTOFF, "98%"))
        trained = f"over training, mean of lengths 1-{self.training_length}"
        curves = self._curves(self.steps, self.over_training)
        panels = (
            Panel(
                "sequence length",
                "accuracy",
                tuple(marks),
                "the trained model, by length",
                y_range=(0, 1.04),
                whole="x",
                tall=1.3,
            ),
            Panel("training step", "accuracy", tuple(curves), trained, y_range=(0, 1.04), tall=1.3),
        )
        return Chart("accuracy", self.title, panels if self.steps else panels[:1])

    def _curves(self, x: list[int], curves: dict[str, list[float]]) -> list[Mark]:
        marks: list[Mark] = []
        for number, (what, values) in enumerate(curves.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            symbol = ("circle", "square", "diamond")[number % 3]
            marks.append(Line(what, x, values, colour, mark=symbol))
            chance = self.chance[what]
            marks.append(ReferenceLine("y", chance, f"{what} by chance", colour, "dot"))
        return marks


def _measured(run: Run, step: int | None) -> dict[str, list[float]]:
    """The accuracy that the generalization lens measured at each length, if it analyzed that step
    (None: any)."""
    folder = run.path / "lenses"
    if not (folder / "generalization.json").is_file():
        return {}
    from statetrace.lenses.result import LensResult

    result = LensResult.load(folder, "generalization")
    accuracy: dict[str, list[float]] = {}
    for row in result.rows() if step in (None, result.subject.get("step")) else ():
        accuracy.setdefault(row["what"], []).append(row["accuracy"])
    return accuracy
