"""State and parity accuracy by length: the table, and the picture drawn from it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.runs import Run

CUTOFF = 0.98
"""The paper's threshold: a model is said to master a length above it."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, distinguishable with any kind of colour vision."""


@dataclass(frozen=True)
class AccuracyTable:
    """The last evaluation of a run.

    Attributes:
        title: what was trained, in a few words.
        step: after how many steps it was measured.
        by_length: "state", "parity", ... -> share of right answers at lengths 1, 2, ...
        chance: the same keys -> what guessing gives.
    """

    title: str
    step: int
    by_length: dict[str, list[float]]
    chance: dict[str, float]

    @staticmethod
    def of(run: Run) -> AccuracyTable:
        evaluations = run.metrics("evaluation")
        if not evaluations:
            raise StatetraceError(f"'{run.path}' has no evaluation yet; train it first")
        last = evaluations[-1]
        recipe = run.info["recipe"]
        of = group(recipe["task"]["group"], recipe["task"]["notation"])
        chance = {"state": 1 / of.order}
        for name in last["accuracy_by_length"]:
            if name != "state":
                chance[name] = 1 / of.quotient(name).image.order
        title = f"{recipe['model']['name']} on {of.name}, length {recipe['task']['length']}"
        return AccuracyTable(title, last["step"], last["accuracy_by_length"], chance)

    def mean(self, what: str) -> float:
        values = self.by_length[what]
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
        """Accuracy against length, with chance and the 98% line, as a picture file."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        lengths = [n for n, _ in self.rows()]
        for colour, (what, values) in zip(COLOURS * 9, self.by_length.items(), strict=False):
            marker = "o" if len(lengths) <= 40 else None
            axes.plot(lengths, values, color=colour, label=what, marker=marker, markersize=4)
            axes.axhline(self.chance[what], color=colour, linestyle=":", linewidth=1)
            axes.annotate(
                f"{what} by chance",
                (lengths[-1], self.chance[what]),
                color=colour,
                fontsize=8,
                ha="right",
                va="bottom",
            )
        axes.axhline(CUTOFF, color="grey", linestyle="--", linewidth=1)
        axes.annotate("98%", (lengths[0], CUTOFF), color="grey", fontsize=8, va="top")
        axes.set(xlabel="sequence length", ylabel="share of right answers", ylim=(0, 1.03))
        axes.set_title(f"{self.title}, after {self.step:,} steps", fontsize=11)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="center left")
        figure.savefig(path, dpi=150)
        plt.close(figure)
