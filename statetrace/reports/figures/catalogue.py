"""All figures by name: the lens they draw, their options, and which views become files.

To add a figure, write a function that returns a Chart, list it here, and describe it in
assets/figures.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

from statetrace.reports.figures import (
    after_stages,
    attention,
    depth,
    dynamics,
    generalization,
    geometry,
    mechanism_map,
    own_lens,
    patching,
    predicted,
    probing,
    study_parameters,
    study_shares,
    study_stages,
    subspace,
)
from statetrace.reports.figures.chart import Chart
from statetrace.reports.run_results import RunResults

Options = dict[str, list[str]]
Table = tuple[list[str], list[list[Any]]]


class FigureText(NamedTuple):
    """What the report says about a figure: how to read it, and terms of the glossary."""

    title: str
    about: str = ""
    terms: Sequence[str] = ()


@cache
def _texts() -> dict[str, FigureText]:
    file = files("statetrace.reports").joinpath("assets", "figures.toml")
    texts = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: FigureText(t["title"], " ".join(t.get("about", "").split()), t.get("terms", ()))
        for name, t in texts.items()
    }


def figure_text(name: str) -> FigureText:
    """The text of a figure; a registered lens has none."""
    return _texts().get(name, FigureText(name))


@dataclass(frozen=True)
class Entry:
    """A figure of the catalogue, of a run or (its source is then a path) of a study.

    Attributes:
        lens: the lens whose result it draws; "" for a figure of the training log or of a study.
        make: source and one option per control -> chart.
        choices: source -> control -> options, the default first.
        on_paper: control -> how many of its options become files; of other controls only the first.
        tables: title -> a table shown below the figure.
        applies: whether the source can have the figure at all.
    """

    name: str
    lens: str
    make: Callable[..., Chart]
    choices: Callable[[Any], Options] = lambda source: {}
    on_paper: dict[str, int] = field(default_factory=dict)
    tables: Mapping[str, Callable[[Any], Table]] = field(default_factory=dict)
    applies: Callable[[Any], bool] = lambda source: True

    def draw(self, source: Any, *chosen: str) -> Chart:
        """The chart of the chosen options, in the order of `choices`."""
        chart = self.make(source, *chosen)
        return replace(chart, about=figure_text(self.name).about or chart.about)

    def views(self, source: Any) -> Iterator[tuple[tuple[str, ...], Callable[[], Chart]]]:
        """(chosen options, function that draws them) for every combination."""
        for chosen in product(*self.choices(source).values()):
            yield chosen, partial(self.draw, source, *chosen)

    def papers(self, source: Any) -> Iterator[tuple[str, Chart]]:
        """(file name without suffix, chart)."""
        choices = self.choices(source)
        shown = [options[: self.on_paper.get(name, 1)] for name, options in choices.items()]
        for chosen in product(*shown):
            varied = [option for option, all_ in zip(chosen, shown, strict=True) if len(all_) > 1]
            name = "-".join([self.name, *(option.replace(" ", "-") for option in varied)])
            yield name, self.draw(source, *chosen)


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        "patching",
        "patching",
        patching.patching,
        patching.choices,
        on_paper={"map": 9, "pairs": 3, "show": 2},
    ),
    Entry(
        "probes",
        "probing",
        probing.probes,
        probing.layer_choices,
        on_paper={"sequences of": 2},
        tables={"Probe accuracy by layer": probing.scatter_table},
    ),
    Entry(
        "probes-by-length",
        "probing",
        probing.probes_by_length,
        probing.length_choices,
        on_paper={"probe of": 9},
    ),
    Entry("depth", "depth", depth.depth, depth.choices, on_paper={"pairs": 4}),
    Entry("map", "depth", mechanism_map.mechanism_map),
    Entry(
        "geometry",
        "geometry",
        geometry.geometry,
        geometry.choices,
        on_paper={"along": 2},
        tables={"The prism at its clearest layer": geometry.prism_table},
    ),
    Entry("geometry-measures", "geometry", geometry.measures),
    Entry(
        "generalization",
        "generalization",
        generalization.generalization,
        tables={"Cutoffs": generalization.cutoff_table},
    ),
    Entry("training", "dynamics", dynamics.training, dynamics.choices),
    Entry(
        "stages",
        "",
        after_stages.stages,
        tables={"Cutoffs after each stage": after_stages.cutoff_table},
        applies=after_stages.staged,
    ),
    Entry(
        "attention-maps",
        "attention",
        attention.attention_maps,
        tables={
            "The best heads": attention.head_table,
            "Accuracy lost by ablating heads": attention.ablation_table,
        },
    ),
    Entry("attention-tree", "attention", attention.attention_tree, attention.tree_choices),
    Entry(
        "subspace",
        "subspace",
        subspace.subspace,
        subspace.choices,
        applies=lambda results: results.lens("subspace") is not None,
    ),
)

STUDY: tuple[Entry, ...] = (
    Entry("study-proportions", "", study_shares.study_proportions),
    Entry("study-sizes", "", study_parameters.study_sizes, applies=study_parameters.sizes_vary),
    Entry("study-cutoffs", "", study_shares.study_cutoffs),
    Entry(
        "study-lengths",
        "",
        study_stages.study_lengths,
        tables={"Cutoffs at the evaluation after each stage": study_stages.length_table},
        applies=study_stages.grows,
    ),
)


def figures_of(lens: str) -> list[Entry]:
    """The figures that draw the result of a lens, the main one first."""
    entries = [entry for entry in CATALOGUE if entry.lens == lens]
    if entries:
        return entries
    tables = {"Table": partial(own_lens.table, name=lens)}
    return [Entry(lens, lens, partial(own_lens.draw, name=lens), tables=tables)]


def all_figures(runs: Iterable[RunResults]) -> list[Entry]:
    """The catalogue, then the figures of registered lenses that have results in these runs."""
    builtin = {entry.lens for entry in CATALOGUE}
    names = dict.fromkeys(name for run in runs for name in run.all() if name not in builtin)
    return [*CATALOGUE, *(entry for name in names for entry in figures_of(name))]


def predictions(source: Any) -> Iterator[tuple[str, Chart]]:
    """(file name, chart) of the prediction of each algorithm at this group and length."""
    for name in predicted.predicting(source):
        charts = {split: predicted.patching(source, name, split) for split in predicted.SPLITS}
        charts["probes"] = predicted.probes(source, name)
        panels = [replace(c.panels[0], title=title) for title, c in charts.items() if c is not None]
        yield f"predicted-{name}", Chart(f"predicted-{name}", f"Predicted: {name}", tuple(panels))
