"""State and parity accuracy, by length and over training: the table, and the picture of it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.runs import Run

CUTOFF = 0.98
"""The paper's threshold: a model is said to master a length above it."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, distinguishable with any kind of colour vision."""


@dataclass(frozen=True)
class AccuracyTable:
    """What a run's log says.

    Attributes:
        title: what was trained, in a few words.
        training_length: the length it was trained on.
        steps: of the evaluations; the last one is the trained model.
        over_training: "state", "parity", ... -> mean accuracy over lengths at each evaluation.
        by_length: the same keys -> accuracy of the trained model at lengths 1, 2, ...
        chance: the same keys -> what guessing gives.
    """

    title: str
    training_length: int
    steps: list[int]
    over_training: dict[str, list[float]]
    by_length: dict[str, list[float]]
    chance: dict[str, float]

    @staticmethod
    def of(run: Run) -> AccuracyTable:
        """From metrics.jsonl; beyond the training length from the generalization lens's table,
        where that has been made."""
        recipe = run.recipe
        evaluations = run.evaluations()
        if not evaluations:
            raise StatetraceError(f"'{run.path}' has no evaluation in its log to show")
        of = run.group
        length = recipe["task"]["length"]
        names = list(evaluations[-1]["accuracy_by_length"])
        orders = {w: of.order if w == "state" else of.quotient(w).image.order for w in names}
        beyond = _beyond(run, length, evaluations[-1]["step"])
        last = evaluations[-1]["accuracy_by_length"]
        return AccuracyTable(
            title=f"{recipe['model']['name']} on {of.name}, trained on length {length}",
            training_length=length,
            steps=[record["step"] for record in evaluations],
            over_training={w: [record["accuracy"][w] for record in evaluations] for w in names},
            by_length={what: last[what] + beyond.get(what, []) for what in names},
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

    def draw(self, path: Path) -> None:
        """Two panels as a picture file: by length, and over training."""
        from matplotlib.figure import Figure  # not pyplot: a notebook keeps its own backend

        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        lengths = list(range(1, len(self.by_length["state"]) + 1))
        self._curves(left, lengths, self.by_length)
        left.axhline(CUTOFF, color="grey", linestyle="--", linewidth=1)
        left.annotate("98%", (lengths[-1], CUTOFF), color="grey", fontsize=8, va="top")
        if lengths[-1] > self.training_length:
            left.axvspan(self.training_length + 0.5, lengths[-1] + 0.5, color="grey", alpha=0.12)
            left.text(
                self.training_length + 0.7, 0.03, "longer than trained on", color="dimgrey", size=8
            )
        left.set(xlabel="sequence length", ylabel="share of right answers", ylim=(0, 1.04))
        left.set_title("the trained model, by length", fontsize=10)
        self._curves(right, self.steps, self.over_training)
        right.set(xlabel="training step")
        right.set_title(f"over training, mean of lengths 1-{self.training_length}", fontsize=10)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        left.xaxis.get_major_locator().set_params(integer=True)
        right.legend(frameon=False, loc="lower right")
        figure.suptitle(self.title, fontsize=11)
        figure.savefig(path, dpi=150)

    def _curves(self, axes: Any, x: list[int], curves: dict[str, list[float]]) -> None:
        """One line each; later ones have larger, hollow marks, so that equal curves both show."""
        size = 4.0
        for colour, (what, values) in zip(COLOURS * 99, curves.items(), strict=False):
            marker = "o" if len(x) <= 60 else None
            style = {"marker": marker, "markersize": size, "markerfacecolor": "none"}
            axes.plot(x, values, color=colour, label=what, linewidth=1.5, zorder=9 - size, **style)
            axes.axhline(self.chance[what], color=colour, linestyle=":", linewidth=1)
            axes.annotate(
                f"{what} by chance",
                (x[0], self.chance[what]),
                color=colour,
                fontsize=8,
                va="bottom",
            )
            size += 2.5


def _beyond(run: Run, length: int, step: int) -> dict[str, list[float]]:
    """What the generalization lens measured at lengths beyond `length`, if it was at that step."""
    folder = run.path / "lenses"
    if not (folder / "generalization.json").is_file():
        return {}
    from statetrace.lenses.result import LensResult

    result = LensResult.load(folder, "generalization")
    found: dict[str, list[float]] = {}
    for row in result.rows() if result.subject.get("step") == step else ():
        if row["length"] > length:
            found.setdefault(row["what"], []).append(row["accuracy"])
    return found
