"""All figures by name: what they need, what can be chosen, and what of it goes on paper.

Adding a figure is a function that returns a Chart, and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from statetrace.report.figures import (
    after_stages,
    attention,
    predicted,
    probing,
    study_parameters,
    study_shares,
    study_stages,
)
from statetrace.report.figures import depth as layers_needed
from statetrace.report.figures import dynamics as learning
from statetrace.report.figures import generalization as by_length
from statetrace.report.figures import geometry as shape
from statetrace.report.figures import patching as patch_maps
from statetrace.report.figures.chart import Chart
from statetrace.report.run_results import RunResults

Options = dict[str, list[str]]
Table = tuple[list[str], list[list[Any]]]


def _nothing(look: RunResults) -> Options:
    return {}


@dataclass(frozen=True)
class Entry:
    """A figure of the catalogue.

    Attributes:
        lens: whose result it draws; "" for a figure that reads the log.
        draw: look and one option per control -> chart.
        choices: look -> control -> options, the first one being shown first.
        on_paper: control -> how many of its options get a file; others only their first.
        tables: title -> the table that belongs to it.
        applies: whether a run can have it at all.
    """

    name: str
    title: str
    about: str
    lens: str
    draw: Callable[..., Chart]
    choices: Callable[[RunResults], Options] = _nothing
    on_paper: dict[str, int] = field(default_factory=dict)
    tables: dict[str, Callable[[RunResults], Table]] = field(default_factory=dict)
    applies: Callable[[RunResults], bool] = lambda look: True

    def views(self, look: RunResults) -> Iterator[tuple[tuple[str, ...], Callable[[], Chart]]]:
        """(options chosen, what draws it) for every combination."""
        offered = self.choices(look)
        for chosen in product(*offered.values()):
            yield chosen, lambda chosen=chosen: self.draw(look, *chosen)  # type: ignore[misc]

    def papers(self, look: RunResults) -> Iterator[tuple[str, Chart]]:
        """(file name without ending, chart)."""
        offered = self.choices(look)
        kept = [options[: self.on_paper.get(name, 1)] for name, options in offered.items()]
        many = [len(options) > 1 for options in kept]
        for chosen in product(*kept):
            words = [word for word, shown in zip(chosen, many, strict=True) if shown]
            name = "-".join([self.name, *(word.replace(" ", "-") for word in words)])
            yield name, self.draw(look, *chosen)


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        patch_maps.NAME,
        patch_maps.TITLE,
        patch_maps.ABOUT,
        "patching",
        patch_maps.patching,
        patch_maps.choices,
        {"map": 9, "pairs": 3, "show": 2},
    ),
    Entry(
        probing.LAYERS,
        probing.LAYERS_TITLE,
        probing.LAYERS_ABOUT,
        "probing",
        probing.probes,
        probing.layer_choices,
        {"sequences of": 2},
        {"Accuracy and its deviation over training sets, by layer": probing.scatter_table},
    ),
    Entry(
        probing.LENGTHS,
        probing.LENGTHS_TITLE,
        probing.LENGTHS_ABOUT,
        "probing",
        probing.probes_by_length,
        probing.length_choices,
        {"probe of": 9},
    ),
    Entry(
        layers_needed.NAME,
        layers_needed.TITLE,
        layers_needed.ABOUT,
        "depth",
        layers_needed.depth,
        layers_needed.choices,
        {"pairs": 3},
    ),
    Entry(
        shape.SPACE,
        shape.SPACE_TITLE,
        shape.SPACE_ABOUT,
        "geometry",
        shape.geometry,
        shape.choices,
        {"along": 2},
        {"The prism where it is clearest": shape.prism_table},
    ),
    Entry(
        shape.MEASURES,
        shape.MEASURES_TITLE,
        shape.MEASURES_ABOUT,
        "geometry",
        shape.measures,
    ),
    Entry(
        by_length.NAME,
        by_length.TITLE,
        by_length.ABOUT,
        "generalization",
        by_length.generalization,
        tables={"Cutoffs": by_length.cutoff_table},
    ),
    Entry(
        learning.NAME,
        learning.TITLE,
        learning.ABOUT,
        "dynamics",
        learning.training,
        learning.choices,
    ),
    Entry(
        after_stages.NAME,
        after_stages.TITLE,
        after_stages.ABOUT,
        "",
        after_stages.stages,
        tables={"Cutoffs after each stage": after_stages.cutoff_table},
        applies=after_stages.staged,
    ),
    Entry(
        attention.MAPS,
        attention.MAPS_TITLE,
        attention.MAPS_ABOUT,
        "attention",
        attention.attention_maps,
        tables={
            "The best heads": attention.head_table,
            "What is lost without heads": attention.ablation_table,
        },
    ),
    Entry(
        attention.TREE,
        attention.TREE_TITLE,
        attention.TREE_ABOUT,
        "attention",
        attention.attention_tree,
        attention.tree_choices,
    ),
)


@dataclass(frozen=True)
class StudyEntry:
    """A figure of a study folder; one that does not apply is not spoken of."""

    name: str
    title: str
    about: str
    draw: Callable[[Path], Chart]
    applies: Callable[[Path], bool] = lambda path: True
    tables: dict[str, Callable[[Path], Table]] = field(default_factory=dict)


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
    ),
    StudyEntry(
        study_stages.NAME,
        study_stages.TITLE,
        study_stages.ABOUT,
        study_stages.study_lengths,
        study_stages.grows,
        {"Where accuracy falls below 98%": study_stages.length_table},
    ),
)


def predictions(look: RunResults) -> Iterator[tuple[str, Chart]]:
    """(file name, chart) of what each algorithm predicts at this group and length."""
    of = predicted.Predicted.of(look)
    for name in of.names():
        splits = [s for s in predicted.SPLITS if predicted.patching(look, name, s) is not None]
        parts = [predicted.patching(look, name, split) for split in splits]
        parts.append(predicted.probes(look, name))
        panels = []
        for part, called in zip(parts, [*splits, "probes"], strict=True):
            if part is not None:
                panel = part.panels[0]
                panels.append(_titled(panel, called))
        yield f"predicted-{name}", Chart(f"predicted-{name}", f"Predicted: {name}", tuple(panels))


def _titled(panel: Any, title: str) -> Any:
    from dataclasses import replace

    return replace(panel, title=title)
