"""What each algorithm would show at a run's own group and length, ready to be drawn beside it.

Cost: some tenths of a second per group and length, computed once. Caveat: predictions are for as
many layers as the algorithm needs, which is rarely the number the model has.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.groups import Group, GroupSpec
from statetrace.groups import group as named
from statetrace.mechanisms.algorithms import ALGORITHMS, algorithm
from statetrace.mechanisms.signatures import Signature, signature
from statetrace.report.figures.chart import Chart, Heat, Line, Panel, grid, numbers
from statetrace.report.run_results import RunResults
from statetrace.tasks.sequences import unique_sequences

PAIRS = 100
LONGEST = 128
"""Longer sequences are predicted at this length: beyond, nothing new is to be seen."""

SPLITS = {"all": "all", "same parity": "same", "opposite parity": "opposite"}

__all__ = ["ALGORITHMS", "Predicted", "depth", "patching", "probes", "signatures"]


class Predicted:
    """The predictions for one group and length."""

    def __init__(self, of: Group, length: int) -> None:
        self.group, self.length = of, max(2, min(length, LONGEST))
        self._made: dict[str, Signature | str] = {}

    @staticmethod
    def of(look: RunResults, lens: str = "patching") -> Predicted:
        """At the length that a lens looked at."""
        return _predicted(look.group, look.seen(lens))

    def names(self) -> list[str]:
        """The algorithms that exist for the group, in the paper's order."""
        return [name for name in ALGORITHMS if not isinstance(self.signature(name), str)]

    def signature(self, name: str) -> Signature | str:
        """What it predicts, or a sentence on why there is nothing to predict."""
        if name not in self._made:
            try:
                self._made[name] = signature(name, self.group, self.length, pairs=PAIRS)
            except StatetraceError as reason:
                self._made[name] = str(reason)
        return self._made[name]

    def layers_needed(self, name: str, lengths: tuple[int, ...]) -> dict[str, list[float | None]]:
        """split -> for each length the layers that its answer needs, counted as the depth lens
        does: in how many rows the last token may start again from the corrupted run and the
        clean answer still comes out."""
        program = algorithm(name, self.group)
        layers = program.depth(max(lengths))
        found: dict[str, list[float | None]] = {}
        for length in lengths:
            n = min(PAIRS, self.group.order**length)
            clean = unique_sequences(self.group, n, length, 0).actions.astype(np.int64)
            rng = np.random.default_rng([0, length, 1])
            corrupted = clean.copy()
            corrupted[:, 0] += rng.integers(1, self.group.order, size=len(clean))
            corrupted[:, 0] %= self.group.order
            good, bad = (program.run(actions, layers).h for actions in (clean, corrupted))
            share = np.zeros(len(clean))
            for row in range(layers + 1):
                h = good[row].copy()
                h[:, -1] = bad[row][:, -1]
                for layer in range(row + 1, layers + 1):
                    h = program.step(layer, h)
                share += (h[:, -1] == good[-1][:, -1]).all(-1)
            for split, chosen in _splits(self.group, clean, corrupted).items():
                mean = float(share[chosen].mean()) if chosen.any() else None
                found.setdefault(split, []).append(mean)
        return found


@lru_cache(maxsize=8)
def _predicted(group: Group, length: int) -> Predicted:
    return Predicted(group, length)


def _splits(of: Group, clean: np.ndarray, corrupted: np.ndarray) -> dict[str, np.ndarray]:
    found = {"all": np.ones(len(clean), dtype=bool)}
    if of.parity is not None:  # the rest of the sequences is the same
        same = of.parity[clean[:, 0]] == of.parity[corrupted[:, 0]]
        found |= {"same parity": same, "opposite parity": ~same}
    return found


def patching(look: RunResults, name: str, pairs: str = "all") -> Chart | None:
    """The prefix patching that an algorithm predicts; None where it predicts nothing."""
    panel = _map(Predicted.of(look), name, pairs)
    if panel is None:
        return None
    return Chart(f"predicted-patching-{name}", f"{name}: prefix substitution", (panel,))


def _map(of: Predicted, name: str, pairs: str, title: str = "") -> Panel | None:
    found = of.signature(name)
    if isinstance(found, str) or ("prefix", SPLITS.get(pairs, "")) not in found.patching:
        return None
    z = found.patching["prefix", SPLITS[pairs]]
    heat = Heat(list(range(1, z.shape[1] + 1)), list(range(len(z))), grid(z), "NLD")
    return Panel("prefix length", "layer", (heat,), title, down=True, whole="xy", tall=0.8)


def signatures(
    group: GroupSpec = "S3", length: int = 16, pairs: str = "all", notation: str = "moves"
) -> Chart:
    """The prefix patching that each algorithm predicts (Figure 1 B), before there is any run."""
    if pairs not in SPLITS:
        raise StatetraceError(f"there are no pairs '{pairs}'; there are {', '.join(SPLITS)}")
    states = named(group, notation)
    of = _predicted(states, length)
    panels = [_map(of, name, pairs, title=name) for name in of.names()]
    shown = tuple(panel for panel in panels if panel is not None)
    if not shown:
        raise StatetraceError(f"{states.name} has no pairs of '{pairs}': it has no parity")
    return Chart("signatures", f"What each algorithm would show on {states.name} ({pairs})", shown)


def probes(look: RunResults, name: str) -> Chart | None:
    """The share of states, of all lengths, that it predicts to be readable at each layer."""
    found = Predicted.of(look, "probing").signature(name)
    if isinstance(found, str):
        return None
    styles = {
        "state": ("state", "state", "solid", "circle"),
        "parity linear": ("parity", "parity", "solid", "square"),
        "parity hidden": ("parity, if not linear", "third", "dash", "triangle-up"),
    }
    lines = []
    for target, values in found.probes().items():
        called, colour, dash, mark = styles[target]
        x = list(range(found.rows))
        lines.append(Line(called, x, numbers(values.mean(1)), colour, dash, mark=mark))
    panel = Panel("layer", "accuracy", tuple(lines), y_range=(0, 1.04), whole="x", tall=0.8)
    return Chart(f"predicted-probes-{name}", f"{name}: probes", (panel,))


def depth(look: RunResults, name: str, lengths: tuple[int, ...]) -> Chart | None:
    """The layers that it predicts to be needed at each length."""
    from statetrace.report.figures.depth import by_split

    predicted = Predicted.of(look, "depth")
    if isinstance(predicted.signature(name), str):
        return None
    needed = predicted.layers_needed(name, lengths)
    panel = by_split(lengths, needed, tall=0.8)
    return Chart(f"predicted-depth-{name}", f"{name}: layers needed", (panel,))
