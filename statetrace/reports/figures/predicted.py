"""The predictions of each algorithm at the group and length of a run, as charts.

Cost: a few tenths of a second per group and length, computed once. Caveat: predictions have as many
layers as the algorithm needs, which is rarely the number of layers of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.mechanisms.algorithms import algorithm, algorithm_names
from statetrace.mechanisms.layers_needed import layers_needed
from statetrace.mechanisms.signatures import Signature, signature
from statetrace.reports.figures.chart import Chart, Heat, Line, Panel, grid, numbers, share_panel
from statetrace.reports.figures.depth import by_split
from statetrace.reports.run_results import RunResults

PAIRS = 100
LONGEST = 128
"""Longer sequences are predicted at this length; the pattern does not change beyond."""

SPLITS = {"all": "all", "same parity": "same", "opposite parity": "opposite"}

PROBES = {
    "state": ("state", "state", "solid", "circle"),
    "parity linear": ("parity", "parity", "solid", "square"),
    "parity hidden": ("parity, if not linear", "third", "dash", "triangle-up"),
}
"""Target -> label, color, dash, mark."""


def predicting(results: RunResults, lens: str = "patching") -> list[str]:
    """The algorithms that exist for the group, in the paper's order, then registered ones."""
    return [name for name in algorithm_names() if prediction(results, name, lens)]


def prediction(results: RunResults, name: str, lens: str = "patching") -> Signature | None:
    """What an algorithm predicts at the length at which a lens analyzed the model; None if it does
    not exist for the group."""
    return _prediction(results.group, results.length_of(lens), name)


@lru_cache(maxsize=64)
def _prediction(group: Group, length: int, name: str) -> Signature | None:
    try:
        return signature(name, group, max(2, min(length, LONGEST)), pairs=PAIRS)
    except StatetraceError:
        return None


def patching(results: RunResults, name: str, pairs: str = "all") -> Chart | None:
    """The prefix patching that an algorithm predicts; None if it predicts nothing."""
    panel = _map(prediction(results, name), pairs)
    if panel is None:
        return None
    return Chart(f"predicted-patching-{name}", f"{name}: prefix substitution", (panel,))


def _map(signature: Signature | None, pairs: str, title: str = "") -> Panel | None:
    if signature is None or ("prefix", SPLITS.get(pairs, "")) not in signature.patching:
        return None
    return replace(prefix_map(signature.patching["prefix", SPLITS[pairs]], title), tall=0.8)


def prefix_map(nld: np.ndarray | None, title: str) -> Panel:
    """Mean NLD of prefix patching [rows, T]; an empty panel if there are no such pairs."""
    heats: tuple[Heat, ...] = ()
    if nld is not None:
        x, y = range(1, nld.shape[1] + 1), range(len(nld))
        heats = (Heat(list(x), list(y), grid(nld), "NLD"),)
    return Panel("prefix length", "layer", heats, title, down=True, whole="xy")


def prefix_maps(signatures: Mapping[str, Signature | None], group: Group, pairs: str) -> Chart:
    """A heat map of prefix patching for each signature."""
    one_of("pairs", pairs, SPLITS)
    panels = [_map(signature, pairs, name) for name, signature in signatures.items()]
    shown = tuple(panel for panel in panels if panel is not None)
    if not shown:
        raise StatetraceError(f"{group.name} has no pairs of '{pairs}': it has no parity")
    return Chart("signatures", f"Predicted prefix patching on {group.name} ({pairs})", shown)


def probes(results: RunResults, name: str) -> Chart | None:
    """The share of states, over all lengths, that are predicted to be decodable at each layer."""
    signature = prediction(results, name, "probing")
    if signature is None:
        return None
    panel = replace(probe_panel(signature), tall=0.8)
    return Chart(f"predicted-probes-{name}", f"{name}: probes", (panel,))


def probe_panel(signature: Signature, title: str = "") -> Panel:
    """Probe accuracy by layer, the mean over lengths 1 to T: the share of decodable states."""
    lines = []
    for target, values in signature.probes().items():
        label, colour, dash, mark = PROBES[target]
        x, y = list(range(signature.rows)), numbers(values.mean(1))
        lines.append(Line(label, x, y, colour, dash, mark if signature.rows <= 16 else None))
    return share_panel("layer", "accuracy", lines, title, whole="x")


def depth(results: RunResults, name: str, lengths: tuple[int, ...]) -> Chart | None:
    """The layers that an algorithm predicts to be needed at each length, counted as in the depth
    lens."""
    if prediction(results, name, "depth") is None:
        return None
    program = algorithm(name, results.group)
    needed = layers_needed(program, lengths, PAIRS, results.group.parity)
    by_pairs = {split: needed[key] for split, key in SPLITS.items() if key in needed}
    panel = replace(by_split(lengths, by_pairs), tall=0.8)
    return Chart(f"predicted-depth-{name}", f"{name}: layers needed", (panel,))
