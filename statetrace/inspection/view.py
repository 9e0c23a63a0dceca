"""The readings of one forward pass, as arrays and as tidy tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class View:
    """The readings of one forward pass. L layers, T actions; layer 0 is the embedding.

    Attributes:
        actions, states: [T], elements; the states are the true ones.
        labels: of the group's elements.
        answers: [T, order], the model's probabilities of the states after each action.
        probes: target -> [L + 1, T, classes], what a probe reads after each action.
        unembedding: [L + 1, T, order], the model's answer if a layer were the last one; None where
            the final norm is unknown.
        attention: [L, H, T, S] from action to action; S is T, or T + 1 where a start marker comes
            first. None for a model without attention.
        layers: L.
        targets: target of a probe -> labels of its classes.
        changes: which patches and ablations the run had; empty for none.
    """

    actions: np.ndarray
    states: np.ndarray
    labels: tuple[str, ...]
    answers: np.ndarray
    probes: dict[str, np.ndarray]
    unembedding: np.ndarray | None
    attention: np.ndarray | None
    layers: int
    targets: dict[str, tuple[str, ...]]
    changes: str = ""

    def answer(self, action: int = -1) -> dict[str, float]:
        """The states' probabilities after an action (the last by default), most probable first."""
        order = np.argsort(-self.answers[action], kind="stable")
        return {self.labels[i]: float(self.answers[action, i]) for i in order}

    def to_pandas(self) -> pd.DataFrame:
        """Every reading as a tidy table: layer, position, action, state (the true one), reader,
        target, label (of a class of the target), probability.

        `reader` is "probe", "unembedding", or "answer" for the model's own answer, which has the
        last layer's number.
        """
        import pandas as pd

        return pd.concat([self._tidy(*reading) for reading in self._readings()], ignore_index=True)

    def attention_to_pandas(self) -> pd.DataFrame:
        """Attention weights as a tidy table: layer (from 1), head, position, action, key_position
        (-1 for the start marker), key_action, weight."""
        import pandas as pd

        if self.attention is None:
            raise StatetraceError(f"{self!r} has no attention")
        length, keys = self.attention.shape[2:]
        layer, head, query, key = np.indices(self.attention.shape).reshape(4, -1)
        names = np.array([self.labels[a] for a in self.actions], dtype=object)
        key_names = np.concatenate([np.full(keys - length, "<start>", dtype=object), names])
        return pd.DataFrame(
            {
                "layer": layer + 1,
                "head": head,
                "position": query,
                "action": names[query],
                "key_position": key - (keys - length),
                "key_action": key_names[key],
                "weight": self.attention.ravel(),
            }
        )

    def _readings(self) -> Iterator[tuple[str, str, tuple[str, ...], np.ndarray, int]]:
        """(reader, target, class labels, probabilities [layers, T, classes], first layer)."""
        for target, probabilities in self.probes.items():
            yield "probe", target, self.targets[target], probabilities, 0
        if self.unembedding is not None:
            yield "unembedding", "state", self.labels, self.unembedding, 0
        yield "answer", "state", self.labels, self.answers[None], self.layers

    def _tidy(
        self, reader: str, target: str, classes: tuple[str, ...], values: np.ndarray, first: int
    ) -> pd.DataFrame:
        import pandas as pd

        layer, position, number = np.indices(values.shape).reshape(3, -1)
        labels = np.array(self.labels, dtype=object)
        return pd.DataFrame(
            {
                "layer": layer + first,
                "position": position,
                "action": labels[self.actions][position],
                "state": labels[self.states][position],
                "reader": reader,
                "target": target,
                "label": np.array(classes, dtype=object)[number],
                "probability": values.ravel(),
            }
        )

    def __repr__(self) -> str:
        label, probability = next(iter(self.answer().items()))
        changes = f", {self.changes}" if self.changes else ""
        return (
            f"View('{','.join(self.labels[a] for a in self.actions)}': answers '{label}' with "
            f"p = {probability:.3f}, true state '{self.labels[self.states[-1]]}'{changes})"
        )

    def _repr_html_(self) -> str:
        best = self.answers.argmax(-1)
        rows = {
            "action": [self.labels[a] for a in self.actions],
            "true state": [self.labels[s] for s in self.states],
            "answer": [self.labels[a] for a in best],
            "probability": [f"{p[a]:.3f}" for p, a in zip(self.answers, best, strict=True)],
        }
        body = "".join(
            f"<tr><th>{name}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for name, cells in rows.items()
        )
        caption = f"<caption>{escape(self.changes)}</caption>" if self.changes else ""
        return f"<table>{caption}{body}</table>"
