"""How much a probe's accuracy deviates over training subsets (Table 1, appendix C.1)."""

from __future__ import annotations

import numpy as np

from reproduction.measured import Measure, Measured, of_deviation, share_of
from reproduction.measures.models import ranks
from reproduction.measures.probing import curve
from reproduction.model_selection import A, P, first, of_best, sized
from reproduction.results import Missing, Results, lens_file, lens_files

Array = np.ndarray
TABLE_1 = {
    (P, "state"): (4.16e-6, 3.36e-6, 4.52e-6, 4.31e-5, 1.58e-5, 1.70e-5, 1.87e-5, 1.29e-5, 3.18e-5,
                   2.96e-4, 3.10e-4, 1.86e-4, 7.05e-5),
    (P, "parity"): (3.03e-6, 3.31e-6, 5.45e-6, 5.59e-4, 3.72e-5, 5.38e-6, 7.02e-6, 1.34e-5, 3.08e-5,
                    6.85e-5, 7.98e-5, 8.22e-5, 4.01e-5),
    (A, "state"): (6.33e-6, 2.62e-6, 1.46e-6, 5.00e-6, 4.16e-6, 1.97e-6, 4.73e-6, 7.79e-6, 1.18e-5,
                   2.36e-5, 2.60e-5, 8.83e-6, 1.20e-6),
    (A, "parity"): (2.71e-6, 2.82e-6, 8.97e-7, 1.38e-6, 1.11e-6, 1.11e-6, 1.59e-6, 3.05e-6, 2.64e-6,
                    3.53e-6, 2.96e-6, 2.77e-6, 2.75e-6),
}  # fmt: skip
"""The paper's deviations, layers 0 to 12."""
FACTOR = 10.0
"""Deviations that are apart by less count as alike."""


def widest(found: Results, model: str) -> str:
    """The folder with larger subsets (MODEL-wide), where there is one."""
    wide = f"{model}-wide"
    return wide if found.exists(lens_file(wide, "probing")) else model


@of_best
def largest_deviation(model: str, target: str) -> Measure:
    """Of a probe's accuracies over training subsets, the largest deviation among layers, with the
    larger subsets of the folder MODEL-wide where there is one; beside it that of smaller ones."""

    def measure(found: Results) -> Measured:
        name = widest(found, model)
        values, _ = curve(found, name, target, column="std")
        about = found.json(lens_file(name, "probing", "json"))["summary"]
        each = about["train"] // about["subsets"]
        words = f"largest of all layers, subsets of {each:,} tried on {about['test']:,}"
        sources = lens_files(name, "probing", "probing.json")
        if name != model:
            other, _ = curve(found, model, target, column="std")
            less = found.json(lens_file(model, "probing", "json"))["summary"]
            words += f"; {other.max():.3g} with subsets of {less['train'] // less['subsets']:,}"
            sources += lens_files(model, "probing")
        value, n = float(values.max()), int(about["subsets"])
        low, high = of_deviation(value, n)
        return Measured(value, n, "subsets", low, high, words=words, sources=sources)

    return measure


def cells(found: Results) -> dict[tuple[str, str], tuple[str, Array]]:
    """Deviations by layer of the best model of each column of the table, with its folder; of models
    with as many layers as the paper's."""
    made = {}
    for (model, target), paper in TABLE_1.items():

        def column(name: str, target: str = target, layers: int = len(paper)) -> Array:
            values, _ = curve(found, name, target, column="std")
            if len(values) != layers:
                raise Missing(f"'{name}' has {len(values)} layers, not {layers}")
            return values

        made[model, target] = first(found, model, column)
    return made


def alike_cells(found: Results) -> Measured:
    """Of all cells of Table 1, the share in which our deviation and the paper's are apart by less
    than a factor; in words whether at least their order is the same."""
    ours = cells(found)
    deviations = np.concatenate([values for _, values in ours.values()])
    paper = np.concatenate([np.array(TABLE_1[column]) for column in ours])
    alike = int((np.abs(np.log10(np.maximum(deviations, 1e-12) / paper)) < np.log10(FACTOR)).sum())
    order = np.corrcoef(ranks(deviations.tolist()), ranks(paper.tolist()))[0, 1]
    names = list(dict.fromkeys(name for name, _ in ours.values()))
    words = f"apart by less than a factor of {FACTOR:g}; rank correlation of all {order:.2f}"
    sources = tuple(lens_file(name, "probing") for name in names)
    return sized(found, share_of(alike, len(paper), "cells", sources, words), names)
