"""A topic model over a group's elements (section 5.3, appendix H; numpy only).

Every document has its own mixture of topics, drawn from a Dirichlet distribution, and every token
comes from one of the topics. The topics of tokens are never needed, so they are summed out: given
its mixture, a document's tokens are independent draws from the mixed distribution.

Cost: a binary search per token.
Caveat: the paper prints its two tables with three digits, so their rows are scaled to sum to 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.tasks.sequences import element_dtype

TOPICS, MIXTURE, CONCENTRATION = 4, 0.3, 0.1
"""The paper's number of topics, and its Dirichlet parameters alpha and beta."""


@dataclass(frozen=True)
class TopicModel:
    """Attributes:
    table: p(element | topic), [topics, order], rows summing to 1.
    mixture: Dirichlet parameter of a document's topics; smaller values give fewer topics each.
    """

    table: np.ndarray
    mixture: float = MIXTURE

    @staticmethod
    def paper(name: str, group: Group, mixture: float = MIXTURE) -> TopicModel:
        """One of the paper's tables, `paper-1` or `paper-2`, whose columns are matched to the
        elements of S3 by their labels."""
        data = json.loads(files("statetrace.tasks").joinpath("topic_tables.json").read_text())
        names = [key for key in data if key != "tokens"]
        if name not in names:
            raise StatetraceError(
                f"table '{name}' is unknown; use {' or '.join(names)}, write one out, or leave it "
                "out for a random one"
            )
        if set(data["tokens"]) != set(group.labels):
            raise StatetraceError(
                f"table '{name}' is for the elements of S3, not those of {group.name}; "
                "leave it out for a random one"
            )
        printed = np.array(data[name])
        table = np.empty_like(printed)
        table[:, [group.index(label) for label in data["tokens"]]] = printed
        return TopicModel(table / table.sum(axis=1, keepdims=True), mixture)

    @staticmethod
    def written(rows: str, group: Group, mixture: float = MIXTURE) -> TopicModel:
        """A table written out, such as "1 0 0 0 0 0; 0 1 1 0 0 1": a row per topic, with a weight
        for each element in the group's order."""
        try:
            table = np.array([[float(x) for x in row.split()] for row in rows.split(";")])
        except ValueError:
            table = np.empty(0)
        valid = table.ndim == 2 and table.shape[1] == group.order and np.isfinite(table).all()
        if not valid or (table < 0).any() or not table.sum(axis=1).all():
            raise StatetraceError(
                f"table '{rows}' is not valid; write a row per topic, separated by semicolons, "
                f"with {group.order} weights each, for {', '.join(group.labels[:3])}, ..."
            )
        return TopicModel(table / table.sum(axis=1, keepdims=True), mixture)

    @staticmethod
    def drawn(
        order: int,
        seed: int,
        topics: int = TOPICS,
        concentration: float = CONCENTRATION,
        mixture: float = MIXTURE,
    ) -> TopicModel:
        """Topics drawn from a Dirichlet distribution, deterministic in `seed`."""
        rng = np.random.default_rng([seed, topics, order])
        return TopicModel(rng.dirichlet(np.full(order, concentration), topics), mixture)

    def draw(self, rng: np.random.Generator, n: int, length: int) -> np.ndarray:
        """`n` documents as element indices, [n, length]."""
        topics, order = self.table.shape
        mixtures = rng.dirichlet(np.full(topics, self.mixture), n)  # [n, topics]
        ends = np.cumsum(mixtures @ self.table, axis=1)  # [n, order]
        rows = np.arange(n)[:, None]
        # all rows in one sorted array, row i between i and i + 1, so that one search is enough
        bounds = (ends / ends[:, -1:] + rows).ravel()
        index = np.searchsorted(bounds, rng.random((n, length)) + rows, side="right") - rows * order
        return np.minimum(index, order - 1).astype(element_dtype(order))
