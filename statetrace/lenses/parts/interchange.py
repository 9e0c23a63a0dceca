"""Pairs for interchange interventions, and what an exchange changes in their answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.groups.sections import Section
from statetrace.interventions.exchange import Exchange
from statetrace.lenses.parts.intervals import wilson


@dataclass(frozen=True)
class Interchanges:
    """P pairs of independent sequences, rows of a table of tokens.

    Attributes:
        tokens: [n, T], on the device of the model.
        base, source: rows [P].
        states: of base and source [2, P], from the task.
        clean: the model's answer to the base [P].
        quotient: every second pair differs in it.
    """

    tokens: torch.Tensor
    base: np.ndarray
    source: np.ndarray
    states: np.ndarray
    clean: np.ndarray
    quotient: Quotient

    @cached_property
    def different(self) -> np.ndarray:
        images = self.quotient.map[self.states]
        return np.asarray(images[0] != images[1])

    def exchanges(self, model: Any, start: int, batch: int) -> Iterator[tuple[slice, Exchange]]:
        """The pairs, `batch` at a time."""
        for first in range(0, len(self.base), batch):
            rows = slice(first, first + batch)
            base, source = (self.tokens[part[rows]] for part in (self.base, self.source))
            yield rows, Exchange(model, base, source, start)

    def targets(self, sections: tuple[Section, ...]) -> np.ndarray:
        """The counterfactual states [S, P]: the source's image, the base's rest. Without sections,
        the images of the sources [1, P]."""
        base, image = self.states[0], self.quotient.map[self.states[1]].astype(np.int64)
        if not sections:
            return image[None]
        return np.stack([section.change[base, image] for section in sections])


def pair_up(
    tokens: torch.Tensor,
    states: np.ndarray,
    clean: np.ndarray,
    quotient: Quotient,
    rng: np.random.Generator,
    pool: np.ndarray,
    n: int,
) -> Interchanges:
    """`n` pairs from the rows in `pool`, or as many as it has rows. The sources of even pairs have
    the image of their base, those of odd pairs another one."""
    images = quotient.map[states[pool]]
    if len(np.unique(images)) < 2:
        raise StatetraceError(
            f"the {len(pool)} correctly answered sequences do not differ in {quotient.name}; use "
            "more sequences, or a length that the model solves"
        )
    chosen = rng.permutation(len(pool))[:n]
    same = np.arange(len(chosen)) % 2 == 0
    fitting = [
        np.flatnonzero((images == images[row]) == s) for row, s in zip(chosen, same, strict=True)
    ]
    base, source = pool[chosen], pool[[int(rng.choice(rows)) for rows in fitting]]
    return Interchanges(tokens, base, source, states[[base, source]], clean[base], quotient)


def best_section(
    pairs: Interchanges, answers: np.ndarray, sections: tuple[Section, ...]
) -> Section | None:
    """The section with which most answers [draws, P] are the counterfactual ones."""
    if not sections:
        return None
    hits = pairs.targets(sections)[:, None] == answers  # [S, draws, P]
    return sections[int(hits[..., pairs.different].sum((1, 2)).argmax())]


def outcome_rows(
    pairs: Interchanges, answers: np.ndarray, section: Section | None
) -> list[dict[str, Any]]:
    """Share and interval of each outcome of the answers [draws, P], for pairs with different and
    with the same image: what the exchange changes ("quotient alone", "both", "rest alone" or
    "neither"; without a section no rest is defined, and "quotient" takes the place of the first
    two), "interchange", which is the counterfactual state (without a section: the source's image),
    and "source value", any state with the source's image."""
    image, clean = pairs.quotient.map, pairs.clean
    changed, moved = answers != clean, image[answers] != image[clean]
    source = image[answers] == image[pairs.states[1]]
    outcomes = {"neither": ~changed}
    if section is None:
        outcomes |= {"quotient": moved, "rest alone": changed & ~moved}
        wanted = source
    else:
        kept = section.rest[answers] == section.rest[clean]
        outcomes |= {"quotient alone": moved & kept, "rest alone": changed & ~moved}
        outcomes |= {"both": moved & ~kept}
        wanted = answers == pairs.targets((section,))[0]
    # A model that answers everything alike is sometimes right by accident, but not by the exchange.
    outcomes |= {"interchange": wanted & (changed | ~pairs.different), "source value": source}
    rows = []
    for kind, among in (("different", pairs.different), ("same", ~pairs.different)):
        for name, hits in outcomes.items():
            n = hits[:, among].size
            low, high = wilson(hits[:, among].sum(), n)
            numbers = {
                "share": float(hits[:, among].mean()),
                "low": float(low),
                "high": float(high),
            }
            rows.append({"pairs": kind, "outcome": name, **numbers, "n": n})
    return rows
