"""A topic model over a group's elements (section 5.3, appendix H): numpy only.

Every document has its own mixture of topics, drawn from a Dirichlet distribution, and every token
of it comes from one of the topics. What a token's topic was is never asked for, so it is summed
out: given its mixture, a document's tokens are independent draws from the mixed distribution, which
is the same distribution of documents.

Cost: a binary search per token.
Caveat: the paper prints its two tables with three digits, so their rows are scaled to sum to 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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
    mixture: Dirichlet parameter of a document's topics; the smaller, the fewer topics in one.
    """

    table: np.ndarray
    mixture: float = MIXTURE

    @staticmethod
    def paper(name: str, of: Group, mixture: float = MIXTURE) -> TopicModel:
        """One of the paper's tables, `paper-1` or `paper-2`: its columns are the elements of S3 by
        their labels, whatever order the group has them in."""
        data = _tables()
        names = [key for key in data if key != "tokens"]
        if name not in names:
            raise StatetraceError(
                f"table '{name}' is unknown; use {' or '.join(names)}, or leave it out to have "
                "one drawn"
            )
        if set(data["tokens"]) != set(of.labels):
            raise StatetraceError(
                f"table '{name}' is for the elements of S3, not those of {of.name}; "
                "leave it out to have one drawn"
            )
        printed = np.array(data[name])
        table = np.empty_like(printed)
        table[:, [of.index(label) for label in data["tokens"]]] = printed
        return TopicModel(table / table.sum(axis=1, keepdims=True), mixture)

    @staticmethod
    def drawn(
        order: int,
        seed: int,
        topics: int = TOPICS,
        concentration: float = CONCENTRATION,
        mixture: float = MIXTURE,
    ) -> TopicModel:
        """Every topic's tokens from a Dirichlet distribution, deterministic in `seed`."""
        rng = np.random.default_rng([seed, topics, order])
        return TopicModel(rng.dirichlet(np.full(order, concentration), topics), mixture)

    def draw(self, rng: np.random.Generator, n: int, length: int) -> np.ndarray:
        """`n` documents as element indices, [n, length]."""
        topics, order = self.table.shape
        mixtures = rng.dirichlet(np.full(topics, self.mixture), n)  # [n, topics]
        ends = np.cumsum(mixtures @ self.table, axis=1)  # [n, order]
        rows = np.arange(n)[:, None]
        # all rows in one sorted line, row i between i and i + 1, so that one search serves them all
        line = (ends / ends[:, -1:] + rows).ravel()
        found = np.searchsorted(line, rng.random((n, length)) + rows, side="right") - rows * order
        return np.minimum(found, order - 1).astype(element_dtype(order))


@cache
def _tables() -> dict[str, Any]:
    text = files("statetrace.tasks").joinpath("topic_tables.json").read_text()
    return dict(json.loads(text))
