"""State and parity accuracy, by length and over training, as a table and a chart."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.cutoffs import THRESHOLD
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.mastery import by_length
from statetrace.reports.figures.chart import (
    Band,
    Chart,
    Line,
    Mark,
    ReferenceLine,
    share_panel,
    target_styles,
)
from statetrace.runs import Run


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
        source: what measured `by_length`, each on its own sequences.
    """

    title: str
    training_length: int
    steps: list[int]
    over_training: dict[str, list[float]]
    by_length: dict[str, list[float]]
    chance: dict[str, float]
    source: str

    @staticmethod
    def of(run: Run) -> AccuracyTable:
        """From the generalization lens if it analyzed the trained model, else from the last
        evaluation in metrics.jsonl."""
        evaluations = [] if run.external else run.evaluations()
        task_group, length = run.group, int(run.task["length"])
        logged = evaluations[-1] if evaluations else {"step": None, "accuracy_by_length": {}}
        measured = _measured(run, logged["step"])
        names = list(logged["accuracy_by_length"] or measured)
        if not names:
            raise StatetraceError(f"'{run.path}' has no evaluations in its log")
        orders = {
            what: task_group.order if what == "state" else task_group.quotient(what).image.order
            for what in names
        }
        last = logged["accuracy_by_length"] | measured
        return AccuracyTable(
            title=f"{_model_name(run)} on {task_group.name}, trained on length {length}",
            training_length=length,
            steps=[record["step"] for record in evaluations],
            over_training={w: [r["accuracy"][w] for r in evaluations] for w in names},
            by_length={what: last[what] for what in names},
            chance={what: 1 / order for what, order in orders.items()},
            source="generalization lens" if measured else "last evaluation in training",
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
        marks.append(ReferenceLine("y", THRESHOLD, "98%"))
        trained = f"over training, mean of lengths 1-{self.training_length}"
        curves = self._curves(self.steps, self.over_training)
        title = "the trained model, by length"
        panels = (
            share_panel("sequence length", "accuracy", marks, title, whole="x", tall=1.3),
            share_panel("training step", "accuracy", curves, trained, tall=1.3),
        )
        return Chart("accuracy", self.title, panels if self.steps else panels[:1])

    def _curves(self, x: list[int], curves: dict[str, list[float]]) -> list[Mark]:
        marks: list[Mark] = []
        for what, (colour, symbol) in target_styles(curves).items():
            marks.append(Line(what, x, curves[what], colour, mark=symbol))
            chance = self.chance[what]
            marks.append(ReferenceLine("y", chance, f"{what} by chance", colour, "dot"))
        return marks


def _model_name(run: Run) -> str:
    """Its family; for an external checkpoint the name of its folder."""
    if not run.external:
        return str(run.recipe["model"]["name"])
    return str(run.info.get("zoo") or (run.path / run.info["foreign"]["folder"]).resolve().name)


def _measured(run: Run, step: int | None) -> dict[str, list[float]]:
    """The accuracy that the generalization lens measured, if it analyzed that step (None: any)."""
    folder = run.path / "lenses"
    if not (folder / "generalization.json").is_file():
        return {}
    result = LensResult.load(folder, "generalization")
    if step not in (None, result.subject.get("step")):
        return {}
    return {what: by_length(result, what).tolist() for what in result.summary["cutoff"]}
