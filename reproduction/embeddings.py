"""Do models count parity where their embeddings show it: docs/findings/embeddings.md.

    python -m reproduction.embeddings --measure runs/embeddings    # and -pythia, -documents
    python -m reproduction.embeddings

The first writes the tables of a trained study to a folder of its name in results/embeddings, the
second computes the tests and draws the figure from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.csv

from reproduction.findings import Count, fisher_two_sided, holm
from reproduction.foresight import EMBEDDINGS, initial, parity_distance
from reproduction.judged import Judged, batches, command_line, judged, measure, write
from reproduction.lens_model import AA
from reproduction.study_figures import mechanism_bars
from statetrace.reports.figures.chart import Chart
from statetrace.studies.folder import Study

RESULTS, FIGURE = Path("results/embeddings"), "docs/findings/embeddings.png"
CHOSEN = {"embeddings": "GPT-2", "embeddings-pythia": "Pythia"}
"""Studies of initial weights with small or large distances between even and odd embeddings."""
DOCUMENTS = "embeddings-documents"
BETWEEN = 0.82
"""A distance between the small and the large ones."""

Groups = Mapping[str, list[Judged]]
"""Models that have learned the task, by what they start from."""


def distances(study: Study) -> dict[str, float]:
    """Cell -> distance between the embeddings of even and odd actions before training."""
    from statetrace.config.recipe import Recipe
    from statetrace.models.from_recipe import make_task

    by_cell = {}
    for cells in batches(study):
        task = make_task(Recipe.of(dict(cells[0].recipe)))
        for cell, model in zip(cells, initial(cells), strict=True):
            by_cell[cell.name] = parity_distance(model, task)
    return by_cell


def groups(root: Path, study: str) -> Groups:
    folder = root / RESULTS / study
    able = [model for model in judged(folder) if model.learned] if folder.is_dir() else []
    if study == DOCUMENTS:
        return {name: [m for m in able if m["before"] == name] for name in ("both", "even")}
    file = folder / EMBEDDINGS
    rows = pyarrow.csv.read_csv(file).to_pylist() if file.is_file() else []
    far = {row["cell"] for row in rows if row["distance"] > BETWEEN}
    close = [model for model in able if model["cell"] not in far]
    return {"close": close, "far apart": [model for model in able if model["cell"] in far]}


def count(models: list[Judged]) -> Count:
    return Count(sum(model.mechanism == AA for model in models), len(models))


def planned_tests(by_study: Mapping[str, Groups]) -> dict[str, tuple[float, float]]:
    """The three planned tests: p, and p after Holm's correction; 1 where nothing was trained."""
    raw = {}
    for study, of_study in by_study.items():
        counts = [count(models) for models in of_study.values()]
        raw[study] = fisher_two_sided(*counts) if all(each.n for each in counts) else 1.0
    return {study: (raw[study], p) for study, p in holm(raw).items()}


def figure(by_study: Mapping[str, Groups]) -> Chart:
    panels = []
    for study, of_study in by_study.items():
        rows = [(name, [{"verdict": m.mechanism} for m in some]) for name, some in of_study.items()]
        panels.append(mechanism_bars(rows, CHOSEN.get(study, "GPT-2, after documents")))
    return Chart("embeddings", "Mechanisms by what embeddings show of parity", tuple(panels))


def main() -> None:
    options = command_line(__doc__)
    if options.measure:
        trained = Study.existing(options.measure)
        folder = options.root / RESULTS / trained.path.name
        measure(trained, folder)
        if trained.path.name in CHOSEN:
            rows = [{"cell": name, "distance": d} for name, d in distances(trained).items()]
            write(folder / EMBEDDINGS, rows)
        return
    by_study = {study: groups(options.root, study) for study in (*CHOSEN, DOCUMENTS)}
    for study, of_study in by_study.items():
        for name, models in of_study.items():
            if models:
                low, high = count(models).interval()
                share = f"{count(models).count} of {len(models)} ({low:.0%} to {high:.0%})"
                print(f"{study}, {name}: {AA} {share}")
    for study, (p, corrected) in planned_tests(by_study).items():
        print(f"{study}: p {p:.3g}, corrected {corrected:.3g}")
    known = {study: each for study, each in by_study.items() if any(each.values())}
    if known:
        figure(known).save(options.root / FIGURE)


if __name__ == "__main__":
    main()
