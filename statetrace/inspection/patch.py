"""Patches on pairs of the caller's own sequences, every cell of a grid at once.

    table = patch(model, task, "213,132,231", "132,132,231")     # prefixes at every layer
    table = patch(model, task, clean, corrupted, sites="window3-deletion-head")

Cost: see interventions/cached.py; a few milliseconds per pair for a bundled model.
Caveat: NLD is 0/0 for a pair whose two sequences get the same answer; it is NaN there, and a note
counts such pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.inspection.sequences import ManyActions, parse_sequences
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import WHERE, GridSpec
from statetrace.lenses.parts.answers import check_fits
from statetrace.lenses.parts.pairs import Pairs
from statetrace.lenses.parts.patched_answers import patched_answers
from statetrace.lenses.result import Progress, no_progress
from statetrace.tasks.word_problem import WordProblem

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("nld", "clean_probability", "corrupted_probability")


@dataclass(frozen=True, repr=False)
class PatchTable:
    """n pairs of T actions; a grid of R sites (layers, or heads of layers) and C places.

    Attributes:
        spec: the grid: where and with what activations are overwritten.
        sites: the R rows; for the residual stream, layers 0 to L.
        labels: of the group's elements.
        clean, corrupted: actions [n, T].
        clean_answer, corrupted_answer: elements [n] that the model answers without patches.
        nld: normalized logit difference [n, R, C]; NaN where the two answers are the same.
        clean_probability, corrupted_probability: of these two answers, with the patch [n, R, C].
        answer: the element that the patched model answers [n, R, C].
        notes: sentences about the pairs.
    """

    spec: GridSpec
    sites: tuple[Site, ...]
    labels: tuple[str, ...]
    clean: np.ndarray
    corrupted: np.ndarray
    clean_answer: np.ndarray
    corrupted_answer: np.ndarray
    nld: np.ndarray
    clean_probability: np.ndarray
    corrupted_probability: np.ndarray
    answer: np.ndarray
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.clean)

    def mean(self, metric: str = "nld") -> np.ndarray:
        """The heat map [R, C]: the mean over pairs, without those that are NaN."""
        one_of("metric", metric, METRICS)
        values = getattr(self, metric)
        defined = ~np.isnan(values).all(axis=0)
        mean = np.full(values.shape[1:], np.nan)
        mean[defined] = np.nanmean(values[:, defined], axis=0)
        return mean

    def to_pandas(self) -> pd.DataFrame:
        """A row per pair and cell: pair, kind, layer, head, position (the column), the metrics, and
        the label of the answer."""
        import pandas as pd

        pair, row, column = np.indices(self.nld.shape).reshape(3, -1)
        heads = np.array([site.head for site in self.sites], dtype=object)
        return pd.DataFrame(
            {
                "pair": pair,
                "kind": np.array([site.kind for site in self.sites], dtype=object)[row],
                "layer": np.array([site.layer for site in self.sites])[row],
                "head": pd.array(heads[row], dtype="Int64"),
                "position": column,
                **{metric: getattr(self, metric).ravel() for metric in METRICS},
                "answer": np.array(self.labels, dtype=object)[self.answer.ravel()],
            }
        )

    def __repr__(self) -> str:
        pairs = f"{len(self)} pair{'s' if len(self) > 1 else ''} of {self.clean.shape[1]} actions"
        rows, columns = self.nld.shape[1:]
        notes = "".join(f"; {note}" for note in self.notes)
        shape = f"{rows} sites x {columns} positions"
        return f"{type(self).__name__}({self.spec.name}: {pairs}, {shape}{notes})"

    def _repr_html_(self) -> str:
        """The heat map of NLD, as in its figure: the first row is the first layer."""
        body = "".join(
            f"<tr><th>{site}</th>{''.join(f'<td>{value:.2f}</td>' for value in values)}</tr>"
            for site, values in zip(self.sites, self.mean(), strict=True)
        )
        columns = "".join(f"<th>{n}</th>" for n in range(1, self.nld.shape[2] + 1))
        head = f"<tr><th>action</th>{columns}</tr>"
        return f"<table><caption>{self!r}: mean NLD</caption>{head}{body}</table>"


def patch(
    model: Any,
    task: WordProblem,
    clean: ManyActions,
    corrupted: ManyActions,
    sites: str | GridSpec | Sequence[Site] = "prefix",
    progress: Progress = no_progress,
) -> PatchTable:
    """Overwrite activations of the corrupted run with the clean run's (or, for a deletion, of the
    clean run with zeros), in every cell of a grid and for every pair.

    Args:
        clean, corrupted: as many sequences each, all of one length; see `ManyActions`.
        sites: "prefix", "suffix", "window" (single positions), "window3" or "context" for the
            residual stream; WHERE-WHAT-ROWS such as "prefix-substitution-head" or
            "window-deletion-mlp_out"; a GridSpec; or a list of sites, whose prefixes are patched.
    """
    spec = grid_spec(sites)
    first, second = (
        parse_sequences(task.group, sequences, name)
        for sequences, name in ((clean, "clean"), (corrupted, "corrupted"))
    )
    if first.actions.shape != second.actions.shape:
        (n, length), (m, other) = first.actions.shape, second.actions.shape
        raise StatetraceError(
            f"clean is {n} x {length} actions and corrupted {m} x {other}; give equally many "
            "sequences of the same length"
        )
    check_fits(model, task, first.length)
    pairs = Pairs(first.actions, second.actions, first.states[:, -1], second.states[:, -1])
    patched = patched_answers(model, task, pairs, [spec], progress=progress, elements=True)
    grid = patched.grids[0]
    values = np.moveaxis(grid.values.double().numpy(), 2, 0)  # [n, R, C, 3]
    probabilities = np.exp(values[..., :2])
    notes = []
    if undefined := int((~patched.comparable).sum()):
        notes.append(
            f"NLD is undefined (NaN) for {undefined} of {len(pairs)} pairs: the model gives both "
            "of their sequences the same answer"
        )
    return PatchTable(
        spec, grid.sites, task.group.labels, first.actions, second.actions,
        patched.answers[0], patched.answers[1], np.moveaxis(patched.nld(grid), 2, 0),
        probabilities[..., 0], probabilities[..., 1], values[..., 2].astype(np.int64), tuple(notes),
    )  # fmt: skip


def grid_spec(sites: str | GridSpec | Sequence[Site]) -> GridSpec:
    """What `patch` means by its `sites`."""
    if isinstance(sites, GridSpec):
        return sites
    if isinstance(sites, list | tuple) and all(isinstance(site, Site) for site in sites):
        return GridSpec(rows=tuple(sites))
    if isinstance(sites, str) and "-" in sites:
        return GridSpec.named(sites)
    if not isinstance(sites, str) or sites.rstrip("0123456789") not in WHERE:
        raise StatetraceError(
            f"sites = {sites!r} is unknown; use {', '.join(WHERE)}, WHERE-WHAT-ROWS such as "
            "prefix-substitution-head, or a list of Sites"
        )
    return GridSpec.named(f"{sites}-substitution")
