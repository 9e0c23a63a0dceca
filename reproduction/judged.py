"""Checkpoints of a study with what a verdict weighs, as tidy tables: from them any version of the
verdict names the mechanisms again, without the models.

    results/STUDY/models.csv   a row per checkpoint: cell, its levels, step, accuracy
    results/STUDY/links.csv    a row per checkpoint, link of the group's chain, and length
    results/STUDY/leads.csv    a row per checkpoint, quotient, and what it was learned before

Cost: none for the last checkpoints of a study with verdicts; a second per hundred earlier ones on a
GPU. Only `measure` needs torch.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.csv

from calibration.measuring import group_of, links, summary
from reproduction.tables import Row
from statetrace.mechanisms.links import Link
from statetrace.mechanisms.mastery import solved_length
from statetrace.mechanisms.mechanism_map import DECIDED, MechanismMap
from statetrace.runs import Run
from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.grid import SEED, Cell

if TYPE_CHECKING:
    from statetrace.lenses.result import LensResult
    from statetrace.reports.figures.chart import Chart

MODELS, LINKS, LEADS = "models.csv", "links.csv", "leads.csv"
BY_LENGTH = ("needed", "error")
EXACT = "sampling"
"""The standard error over pairs, which older tables lack."""
OF_LINK = ("soft", "first", "last", "split")
LINK_COLUMNS = ("cell", "step", "link", "kept", "length", *BY_LENGTH, EXACT, *OF_LINK)
UNLEARNED = "unlearned"
LEARNED = 0.9
"""Accuracy over all lengths from which a model counts as having learned its task."""
FEWEST_EVALUATIONS = 10
"""In a training log that shows what was learned first."""


def measure(study: Study, out: Path, every_checkpoint: bool = False, device: str = "auto") -> None:
    """Write the tables of a study's finished cells, of their last checkpoints or of all of them.
    Cells that were measured before and are on another machine keep their rows."""
    here = {cell.name for cells in batches(study) for cell in cells}
    models, by_length, learned = (
        [row for row in _read(out / name) if row["cell"] not in here]
        for name in (MODELS, LINKS, LEADS)
    )
    for cells in batches(study):
        earlier = study.run(cells[0]).checkpoints()[:-1] if every_checkpoint else []
        for step in (*(step for step, _ in earlier), None):
            for cell, results in zip(cells, evidence(study, cells, step, device), strict=True):
                known = step or (study.outcome(cell) or {})["final"]["step"]
                about = {"cell": cell.name, "step": known}
                model, rows = tables(results, about)
                family, spec = cell.recipe["model"]["name"], cell.recipe["task"]["group"]
                models.append({"model": family, **cell.levels, "group": spec} | model)
                by_length += rows
                learned += [about | row for row in leads(study.run(cell), known)]
    out.mkdir(parents=True, exist_ok=True)
    write(out / MODELS, models)
    write(out / LINKS, by_length)
    if learned:
        write(out / LEADS, learned)


def write(file: Path, rows: Sequence[Row]) -> None:
    """A table; of links if there are none."""
    names = dict.fromkeys(name for row in rows for name in row) or LINK_COLUMNS
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, names)
        writer.writeheader()
        writer.writerows(rows)


def batches(study: Study) -> list[list[Cell]]:
    """Finished cells with a run folder, those that are equal but for the seed together."""
    alike: dict[str, list[Cell]] = {}
    for cell in study.plan.cells:
        finished = (study.outcome(cell) or {}).get("state") == FINISHED
        if finished and study.run(cell).exists():
            levels = {name: level for name, level in cell.levels.items() if name != SEED}
            alike.setdefault(json.dumps(levels), []).append(cell)
    return list(alike.values())


def evidence(
    study: Study, cells: Sequence[Cell], step: int | None, device: str
) -> list[Mapping[str, LensResult]]:
    """The lens results of a checkpoint of each cell; those of the last one are stored."""
    from statetrace.analysis import Analyzer
    from statetrace.lenses.loading import load_run
    from statetrace.studies.stacked_analysis import measure_together

    runs = [study.run(cell) for cell in cells]
    if step is None:
        return [Analyzer(run, device=device).evidence() for run in runs]
    models = [Analyzer(load_run(run, step, device)) for run in runs]
    measure_together(models)
    return [model.evidence() for model in models]


def leads(run: Run, step: int) -> list[Row]:
    """How far a run learned each quotient before the state and before finer quotients, as a share
    of the possible maximum (as the dynamics lens does for the state). Of the quotients in the log;
    empty where that has too few evaluations."""
    from statetrace.lenses.dynamics import share_of_lead, surplus

    records = [record for record in run.evaluations() if record["step"] <= step]
    if len(records) < FEWEST_EVALUATIONS:
        return []
    group, logged = run.group, [record["accuracy_by_length"] for record in records]
    curves = {name: np.array([each[name] for each in logged]) for name in logged[0]}
    quotients = {name: group.quotient(name) for name in curves if name != "state"}
    orders = {name: each.image.order for name, each in quotients.items()} | {"state": group.order}
    rows = []
    for name, quotient in quotients.items():
        for over, order in orders.items():
            if over == "state" or {*quotients[over].kernel} < {*quotient.kernel}:
                lead = surplus(curves[over], curves[name], order, orders[name])
                share = share_of_lead(lead, order, orders[name])
                rows.append({"quotient": name, "over": over, "lead": round(share, 4)})
    return rows


def tables(results: Mapping[str, LensResult], about: Row) -> tuple[Row, list[Row]]:
    """A checkpoint's row of models.csv, and its rows of links.csv."""
    general = results["generalization"]
    accuracy = general.summary["accuracy"]
    quotient = next((name for name in accuracy if name != "state"), None)
    row = about | {
        "accuracy": round(accuracy["state"], 6),
        "parity_accuracy": round(accuracy[quotient], 6) if quotient else None,
        "solved": solved_length(general),
    }
    measured = summary(results)
    kept = {name: share and round(share, 4) for name, share in measured["kept"].items()}
    rows = [
        about
        | {"link": link["name"], "kept": kept.get(link["name"])}
        | dict(zip(("length", *BY_LENGTH, EXACT), values, strict=True))
        | {name: link[name] for name in OF_LINK}
        for link in measured["links"] or ()
        for values in zip(*(link[name] for name in ("lengths", *BY_LENGTH, EXACT)), strict=True)
    ]
    return row, rows


class Judged:
    """A checkpoint, from its row of models.csv and its rows of links.csv.

    Attributes:
        row: its cell, levels, step, accuracy, parity_accuracy, solved.
        leads: of a quotient over a finer one or the state in training, where they were logged, by
            the names of both.
    """

    def __init__(self, row: Row, by_length: Sequence[Row], learned: Sequence[Row] = ()) -> None:
        self.row, self._by_length = row, by_length
        self.leads = {(each["quotient"], each["over"]): each["lead"] for each in learned}

    def __getitem__(self, name: str) -> Any:
        return self.row[name]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """As the verdict reads them; none for a model that has not learned."""
        return links({"links": [_link(rows) for rows in self._of_links()]})

    @cached_property
    def map(self) -> MechanismMap | None:
        kept = {rows[0]["link"]: rows[0]["kept"] for rows in self._of_links()[:-1]}
        return MechanismMap.of(self.links, kept) if self.links else None

    @cached_property
    def probabilities(self) -> dict[str, float]:
        return {} if self.map is None else self.map.probabilities(group_of(self.row))

    @property
    def mechanism(self) -> str:
        """The most probable mechanism."""
        return max(self.probabilities, key=self.probabilities.__getitem__, default=UNLEARNED)

    @property
    def learned(self) -> bool:
        return bool(self["accuracy"] >= LEARNED and self.probabilities)

    @property
    def decided(self) -> bool:
        return max(self.probabilities.values(), default=1.0) >= DECIDED

    def growth(self, link: str, longest: int) -> float | None:
        """Slope of the layers that a link needs, per doubling, at lengths up to `longest` alone;
        None if it was not measured up to there. Falling curves count as such, unlike in the
        verdict."""
        for each in self.links:
            if each.name == link and max(each.lengths) >= longest:
                some = each.lengths <= longest
                return float(np.polyfit(np.log2(each.lengths[some]), each.needed[some], 1)[0])
        return None

    def _of_links(self) -> list[list[Row]]:
        grouped = itertools.groupby(self._by_length, lambda row: row["link"])
        return [list(rows) for _, rows in grouped]


def _link(rows: Sequence[Row]) -> Row:
    measured = [name for name in (*BY_LENGTH, EXACT) if rows[0].get(name) is not None]
    by_length = {name: [row[name] for row in rows] for name in measured}
    lengths = np.array([row["length"] for row in rows], dtype=float)
    about = {name: rows[0][name] for name in OF_LINK}
    return {"name": rows[0]["link"], "lengths": lengths} | by_length | about


def judged(folder: Path) -> list[Judged]:
    """The checkpoints of a measured study, cell by cell and step by step as in models.csv."""
    rows, *others = (_read(folder / name) for name in (MODELS, LINKS, LEADS))
    mine: list[dict[tuple[str, int], list[Row]]] = [{}, {}]
    for of, table in zip(mine, others, strict=True):
        for row in table:
            of.setdefault((row["cell"], row["step"]), []).append(row)
    keys = [(row["cell"], row["step"]) for row in rows]
    return [Judged(r, *(of.get(key, []) for of in mine)) for r, key in zip(rows, keys, strict=True)]


def _read(file: Path) -> list[Row]:
    """The rows of a table; none if it was not measured."""
    return pyarrow.csv.read_csv(file).to_pylist() if file.is_file() else []


def by_cell(models: Sequence[Judged]) -> Iterator[list[Judged]]:
    """The checkpoints of each cell, in the order of their steps."""
    cells: dict[str, list[Judged]] = {}
    for model in models:
        cells.setdefault(model["cell"], []).append(model)
    for mine in cells.values():
        yield sorted(mine, key=lambda model: int(model["step"]))


def right_parity(model: Judged) -> float | None:
    """Share of the wrong states whose parity is right; None if no state is wrong."""
    wrong = 1 - model["accuracy"]
    return float((model["parity_accuracy"] - model["accuracy"]) / wrong) if wrong else None


def keeps_parity(model: Judged) -> bool | None:
    """Whether most of its wrong states have the right parity."""
    share = right_parity(model)
    return None if share is None else share > 0.5


def command_line(about: str) -> argparse.Namespace:
    """The options of a finding's program: measure a study, or print its numbers and draw its
    figure."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument(
        "--measure",
        type=Path,
        metavar="STUDY",
        help="measure a trained study, instead of the tests",
    )
    return parser.parse_args()


def run(
    about: str,
    results: str,
    picture: str,
    report: Callable[[Sequence[Judged]], None],
    figure: Callable[[Sequence[Judged]], Chart],
    every_checkpoint: bool = False,
) -> None:
    """The program of a finding."""
    options = command_line(about)
    folder = options.root / results
    if options.measure:
        measure(Study.existing(options.measure), folder, every_checkpoint)
        return
    models = judged(folder)
    if not models:
        raise SystemExit(f"there is no {folder / MODELS}; measure a study first")
    report(models)
    chart = figure(models)
    if chart.panels:
        chart.save(options.root / picture)
