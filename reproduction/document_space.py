"""The space of documents of docs/findings/documents.md: 100 distributions, six independent factors.

    python -m reproduction.document_space

writes the levels of the study. They are five blocks of 20, each a Latin hypercube, so that a study
that ends early has seen the whole range of every factor. Cost: seconds. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.groups import group
from statetrace.studies.grid import read_study
from statetrace.tasks.topics import TopicModel

S3 = group("S3")
ODD = np.asarray(S3.parity, dtype=bool)
STUDY = Path(__file__).parents[1] / "statetrace/recipes/studies/documents-space.toml"
BLOCKS, POINTS, SEED = 5, 20, 0
TOPICS = (2, 3, 4, 6)
RANGES = {
    "share of odd tokens": (0.15, 0.85),
    "entropy of a token (bits)": (1.4, 2.1),
    "information about the topic (bits)": (0.0, 0.7),
    "topics": (TOPICS[0], TOPICS[-1]),
    "length of a document": (4, 16),
    "steps": (250, 2500),
}
"""The factors. Information is that between a token and the topic it was drawn from."""
LOGARITHMIC = "steps"
TOLERANCE, SHARPEST = 0.01, 12.0


def entropy(p: np.ndarray) -> np.ndarray:
    """In bits, over the last axis."""
    return -np.where(p > 0, p * np.log2(np.where(p > 0, p, 1)), 0).sum(-1)


def information(table: np.ndarray) -> float:
    """Between a token and its topic, in bits. table [topics, tokens]."""
    return float(entropy(table.mean(0)) - entropy(table).mean())


def parity_information(stage: Mapping[str, Any]) -> float:
    """Between the parity of a token and its topic, in bits."""
    odd = TopicModel.written(stage["table"], S3).table[:, ODD].sum(1)
    return information(np.stack([odd, 1 - odd], axis=1))


def factors(stage: Mapping[str, Any]) -> dict[str, float]:
    """Of the documents of a stage, in the order of RANGES."""
    table = TopicModel.written(stage["table"], S3).table
    tokens = table.mean(0)
    of_table = (tokens[ODD].sum(), entropy(tokens), information(table), len(table))
    values = (*of_table, stage["length"], stage["steps"])
    return {name: float(value) for name, value in zip(RANGES, values, strict=True)}


def scaled(name: str, value: float) -> float:
    """A factor's value as a share of its range."""
    low, high = RANGES[name]
    if name == LOGARITHMIC:
        return float(np.log(value / low) / np.log(high / low))
    return (value - low) / (high - low)


def value_at(name: str, share: float) -> float:
    """The inverse of `scaled`."""
    low, high = RANGES[name]
    return low * (high / low) ** share if name == LOGARITHMIC else low + share * (high - low)


def stages() -> dict[str, dict[str, Any]]:
    """Distribution -> the stage that trains on its documents."""
    cells = read_study(STUDY).cells
    return {str(cell.levels["before"]): cell.recipe["stage"][0] for cell in cells}


def bisect(function: Callable[[float], float], target: float, high: float) -> float:
    """Where a function that rises from 0 to `high` reaches the target."""
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return low


def random_tokens(rng: np.random.Generator, odd: float, bits: float) -> np.ndarray:
    """A distribution of tokens with this share of odd ones and this entropy."""
    weights = rng.normal(size=len(ODD))

    def tokens(sharpness: float) -> np.ndarray:
        p = np.exp(sharpness * (weights - weights.max()))
        return np.where(ODD, odd * p / p[ODD].sum(), (1 - odd) * p / p[~ODD].sum())

    return tokens(bisect(lambda sharpness: -float(entropy(tokens(sharpness))), -bits, 60))


def tilted(tokens: np.ndarray, tilts: np.ndarray, sharpness: float) -> np.ndarray:
    """Topics with the mean `tokens`, each tilted in its own direction: columns are scaled to the
    mean and rows to 1, in alternation. [topics, tokens]"""
    table = tokens * np.exp(sharpness * tilts)
    for _ in range(150):
        table = table * tokens / table.mean(0)
        table = table / table.sum(1, keepdims=True)
    return table


def random_table(
    rng: np.random.Generator, odd: float, bits: float, about_topic: float, topics: int
) -> np.ndarray | None:
    """Topics with these properties; None if what was drawn cannot have them."""
    tokens, tilts = random_tokens(rng, odd, bits), rng.normal(size=(topics, len(ODD)))

    def of_topic(sharpness: float) -> float:
        return information(tilted(tokens, tilts, sharpness))

    table = tilted(tokens, tilts, bisect(of_topic, about_topic, SHARPEST))
    reached = [float(entropy(table.mean(0))), information(table)]
    return table if np.allclose(reached, [bits, about_topic], rtol=0, atol=TOLERANCE) else None


def block(rng: np.random.Generator) -> np.ndarray:
    """Of many Latin hypercubes the one whose columns correlate least: [POINTS, factors], from 0 to
    1."""
    levels = (np.arange(POINTS) + 0.5) / POINTS
    draws = [np.stack([rng.permutation(levels) for _ in RANGES], axis=1) for _ in range(2000)]
    apart = np.eye(len(RANGES))
    return min(draws, key=lambda points: np.abs(np.corrcoef(points.T) - apart).max())


def lines() -> Iterator[str]:
    """The levels of the study file."""
    rng = np.random.default_rng(SEED)
    for number in range(BLOCKS):
        for index, point in enumerate(block(rng)):
            odd, bits, about_topic, _, length, steps = map(value_at, RANGES, point)
            topics = TOPICS[int(len(TOPICS) * point[3])]
            while (table := random_table(rng, odd, bits, about_topic, topics)) is None:
                pass
            written = "; ".join(" ".join(f"{p:.3g}" for p in row.round(4)) for row in table)
            yield (
                f'{number}-{index:02} = {{ stages = [{{ objective = "topic", table = "{written}", '
                f"length = {round(length)}, steps = {10 * round(steps / 10)} }}, "
                '{ objective = "state" }] }'
            )


if __name__ == "__main__":
    head, table, _ = STUDY.read_text().partition("[grid.before]\n")
    STUDY.write_text(head + table + "".join(f"{line}\n" for line in lines()))
