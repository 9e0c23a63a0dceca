"""All figures by name: the lens they draw, their options, and which views become files.

To add a figure, write a function that returns a Chart and list it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from statetrace.reports.figures import (
    after_stages,
    attention,
    depth,
    dynamics,
    generalization,
    geometry,
    own_lens,
    patching,
    predicted,
    probing,
    study_parameters,
    study_shares,
    study_stages,
)
from statetrace.reports.figures.chart import Chart
from statetrace.reports.run_results import RunResults

Options = dict[str, list[str]]
Table = tuple[list[str], list[list[Any]]]


def _no_options(results: RunResults) -> Options:
    return {}


@dataclass(frozen=True)
class Entry:
    """A figure of the catalogue.

    Attributes:
        lens: the lens whose result it draws; "" for a figure of the training log.
        draw: results and one option per control -> chart.
        choices: results -> control -> options, the default first.
        on_paper: control -> how many of its options become files; of other controls only the first.
        tables: title -> a table shown below the figure.
        terms: of the glossary that it uses.
        applies: whether a run can have the figure at all.
    """

    name: str
    title: str
    about: str
    lens: str
    draw: Callable[..., Chart]
    choices: Callable[[RunResults], Options] = _no_options
    on_paper: dict[str, int] = field(default_factory=dict)
    tables: dict[str, Callable[[RunResults], Table]] = field(default_factory=dict)
    applies: Callable[[RunResults], bool] = lambda results: True
    terms: tuple[str, ...] = ()

    def views(self, results: RunResults) -> Iterator[tuple[tuple[str, ...], Callable[[], Chart]]]:
        """(chosen options, function that draws them) for every combination."""
        for chosen in product(*self.choices(results).values()):
            yield chosen, partial(self.draw, results, *chosen)

    def papers(self, results: RunResults) -> Iterator[tuple[str, Chart]]:
        """(file name without suffix, chart)."""
        choices = self.choices(results)
        shown = [options[: self.on_paper.get(name, 1)] for name, options in choices.items()]
        for chosen in product(*shown):
            varied = [option for option, all_ in zip(chosen, shown, strict=True) if len(all_) > 1]
            name = "-".join([self.name, *(option.replace(" ", "-") for option in varied)])
            yield name, self.draw(results, *chosen)


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        patching.NAME,
        patching.TITLE,
        patching.ABOUT,
        "patching",
        patching.patching,
        patching.choices,
        {"map": 9, "pairs": 3, "show": 2},
        terms=("clean and corrupted", "prefix patching", "substitution", "deletion", "NLD"),
    ),
    Entry(
        probing.LAYERS,
        probing.LAYERS_TITLE,
        probing.LAYERS_ABOUT,
        "probing",
        probing.probes,
        probing.layer_choices,
        {"sequences of": 2},
        {"Probe accuracy by layer": probing.scatter_table},
        terms=("probe", "control"),
    ),
    Entry(
        probing.LENGTHS,
        probing.LENGTHS_TITLE,
        probing.LENGTHS_ABOUT,
        "probing",
        probing.probes_by_length,
        probing.length_choices,
        {"probe of": 9},
        terms=("probe", "front"),
    ),
    Entry(
        depth.NAME,
        depth.TITLE,
        depth.ABOUT,
        "depth",
        depth.depth,
        depth.choices,
        {"pairs": 3},
        terms=("clean and corrupted", "layers needed", "restored share"),
    ),
    Entry(
        geometry.SPACE,
        geometry.SPACE_TITLE,
        geometry.SPACE_ABOUT,
        "geometry",
        geometry.geometry,
        geometry.choices,
        {"along": 2},
        {"The prism at its clearest layer": geometry.prism_table},
        terms=("prism", "prism score"),
    ),
    Entry(
        geometry.MEASURES,
        geometry.MEASURES_TITLE,
        geometry.MEASURES_ABOUT,
        "geometry",
        geometry.measures,
        terms=("prism score", "irreducible representation"),
    ),
    Entry(
        generalization.NAME,
        generalization.TITLE,
        generalization.ABOUT,
        "generalization",
        generalization.generalization,
        tables={"Cutoffs": generalization.cutoff_table},
        terms=("accuracy", "cutoff", "solved length"),
    ),
    Entry(
        dynamics.NAME,
        dynamics.TITLE,
        dynamics.ABOUT,
        "dynamics",
        dynamics.training,
        dynamics.choices,
        terms=("phase", "lead of parity"),
    ),
    Entry(
        after_stages.NAME,
        after_stages.TITLE,
        after_stages.ABOUT,
        "",
        after_stages.stages,
        tables={"Cutoffs after each stage": after_stages.cutoff_table},
        applies=after_stages.staged,
        terms=("cutoff",),
    ),
    Entry(
        attention.MAPS,
        attention.MAPS_TITLE,
        attention.MAPS_ABOUT,
        "attention",
        attention.attention_maps,
        tables={
            "The best heads": attention.head_table,
            "Accuracy lost by ablating heads": attention.ablation_table,
        },
        terms=("parity head", "head score", "chance", "ablation"),
    ),
    Entry(
        attention.TREE,
        attention.TREE_TITLE,
        attention.TREE_ABOUT,
        "attention",
        attention.attention_tree,
        attention.tree_choices,
        terms=("attention tree",),
    ),
)


def figures_of(lens: str) -> list[Entry]:
    """The figures that draw the result of a lens, the main one first."""
    entries = [entry for entry in CATALOGUE if entry.lens == lens]
    if entries:
        return entries
    tables: dict[str, Callable[[RunResults], Table]] = {"Table": partial(own_lens.table, name=lens)}
    return [Entry(lens, lens, "", lens, partial(own_lens.draw, name=lens), tables=tables)]


def all_figures(runs: Iterable[RunResults]) -> list[Entry]:
    """The catalogue, then the figures of registered lenses that have results in these runs."""
    builtin = {entry.lens for entry in CATALOGUE}
    names = dict.fromkeys(name for run in runs for name in run.all() if name not in builtin)
    return [*CATALOGUE, *(entry for name in names for entry in figures_of(name))]


@dataclass(frozen=True)
class StudyEntry:
    """A figure of a study folder, omitted where it does not apply."""

    name: str
    title: str
    about: str
    draw: Callable[[Path], Chart]
    applies: Callable[[Path], bool] = lambda path: True
    tables: dict[str, Callable[[Path], Table]] = field(default_factory=dict)
    terms: tuple[str, ...] = ()


STUDY: tuple[StudyEntry, ...] = (
    StudyEntry(
        study_shares.SHARES,
        study_shares.SHARES_TITLE,
        study_shares.SHARES_ABOUT,
        study_shares.study_proportions,
    ),
    StudyEntry(
        study_parameters.NAME,
        study_parameters.TITLE,
        study_parameters.ABOUT,
        study_parameters.study_sizes,
        study_parameters.sizes_vary,
    ),
    StudyEntry(
        study_shares.CUTOFFS,
        study_shares.CUTOFFS_TITLE,
        study_shares.CUTOFFS_ABOUT,
        study_shares.study_cutoffs,
        terms=("cutoff",),
    ),
    StudyEntry(
        study_stages.NAME,
        study_stages.TITLE,
        study_stages.ABOUT,
        study_stages.study_lengths,
        study_stages.grows,
        {"Cutoffs at the evaluation after each stage": study_stages.length_table},
        terms=("cutoff",),
    ),
)


def predictions(results: RunResults) -> Iterator[tuple[str, Chart]]:
    """(file name, chart) of the prediction of each algorithm at this group and length."""
    for name in predicted.Predicted.of(results).names():
        charts = {split: predicted.patching(results, name, split) for split in predicted.SPLITS}
        charts["probes"] = predicted.probes(results, name)
        panels = [replace(c.panels[0], title=title) for title, c in charts.items() if c is not None]
        yield f"predicted-{name}", Chart(f"predicted-{name}", f"Predicted: {name}", tuple(panels))
