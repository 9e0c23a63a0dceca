"""Pairs of a clean and a corrupted sequence that differ in one action, and splits of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.interventions.grid import Keep, PatchGrids, patch_grid
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.answers import device_of
from statetrace.tasks.sequences import scan
from statetrace.tasks.word_problem import WordProblem

CORRUPTION = 1
"""Separates the random numbers of the corruption from those of the sequences."""


@dataclass(frozen=True)
class Pairs:
    """Element indices; the clean sequences are unique.

    Attributes:
        clean, corrupted: actions [P, T], equal but for one column.
        clean_state, corrupted_state: the state after the last action [P]. They always differ,
            because in a group a changed factor changes the product.
    """

    clean: np.ndarray
    corrupted: np.ndarray
    clean_state: np.ndarray
    corrupted_state: np.ndarray

    def __len__(self) -> int:
        return len(self.clean)

    def tokens(
        self, task: WordProblem, device: torch.device | str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Clean and corrupted tokens [P, tokens], equal except for the corrupted action."""
        return task.encode(self.clean, device), task.encode(self.corrupted, device)

    def patched(
        self,
        model: Any,
        task: WordProblem,
        grids: GridSpec | Sequence[GridSpec],
        keep: Keep,
        by: str = "action",
        progress: Callable[[float], None] = lambda share: None,
    ) -> PatchGrids:
        """Heat maps over these pairs, with a column per action or, if `by` is "token", per
        token."""
        vocabulary = task.vocabulary
        return patch_grid(
            model,
            *self.tokens(task, device_of(model)),
            grids,
            offset=vocabulary.offset,
            stride=vocabulary.stride if by == "action" else 1,
            keep=keep,
            progress=progress,
        )

    def splits(self, quotients: tuple[Quotient, ...]) -> dict[str, np.ndarray]:
        """Name -> members [P]: all pairs, and those whose final states have the same or a different
        image in each quotient."""
        splits = {"all": np.ones(len(self), dtype=bool)}
        for quotient in quotients:
            same = quotient.map[self.clean_state] == quotient.map[self.corrupted_state]
            other = "opposite" if quotient.name == "parity" else "different"
            splits[f"same {quotient.name}"] = same
            splits[f"{other} {quotient.name}"] = ~same
        return splits

    def links(
        self, chain: tuple[Quotient, ...], order: int
    ) -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
        """Each link of a chain of quotients, the state last -> the split of its pairs, which of
        them these are [P], and the classes of the link [order]. The pairs of a link agree in all
        links before it and differ in this one."""
        links = {}
        agree, name = np.ones(len(self), dtype=bool), ""
        for quotient in (*chain, None):
            classes = np.arange(order) if quotient is None else quotient.map.astype(np.int64)
            same = classes[self.clean_state] == classes[self.corrupted_state]
            if quotient is None:
                links["state"] = (name or "all", agree & ~same, classes)
                break
            other = "opposite" if quotient.name == "parity" else "different"
            split = f"{name}, {other} {quotient.name}" if name else f"{other} {quotient.name}"
            links[quotient.name] = (split, agree & ~same, classes)
            agree, name = agree & same, f"same {quotient.name}"
        return links


def draw_pairs(
    task: WordProblem,
    n: int,
    length: int,
    corrupt_at: int,
    seed: int,
    balance: Quotient | None = None,
) -> Pairs:
    """`n` pairs, or as many as the task has sequences; deterministic in `seed`. The action at
    `corrupt_at` is replaced by another action of the task, uniformly at random. With `balance`,
    every second pair agrees in that quotient and the others do not."""
    if not 0 <= corrupt_at < length:
        raise StatetraceError(
            f"corrupt_at {corrupt_at} is outside the sequence; use 0 to {length - 1}"
        )
    alphabet = np.asarray(range(task.group.order) if task.actions is None else task.actions)
    if len(alphabet) < 2:
        raise StatetraceError(
            f"{task.group.name} with {len(alphabet)} action has no other action to corrupt with; "
            "use a task with 2 or more"
        )
    drawn = task.draw(n, seed, length)
    rng = np.random.default_rng([seed, length, CORRUPTION])
    number = np.zeros(task.group.order, dtype=np.int64)  # element -> its index in the alphabet
    number[alphabet] = np.arange(len(alphabet))
    corrupted = drawn.actions.copy()
    if balance is None:
        shift = rng.integers(1, len(alphabet), size=len(drawn))
        index = (number[drawn.actions[:, corrupt_at]] + shift) % len(alphabet)
        corrupted[:, corrupt_at] = alphabet[index]
    else:
        _corrupt_by(balance, corrupted, corrupt_at, alphabet, rng)
    return Pairs(
        drawn.actions,
        corrupted,
        clean_state=drawn.states[:, -1].copy(),
        corrupted_state=scan(task.group, corrupted)[:, -1].copy(),
    )


def _corrupt_by(
    quotient: Quotient,
    actions: np.ndarray,
    corrupt_at: int,
    alphabet: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Replace a column of actions in place: in even rows by an action with the same image, in odd
    rows by one with a different image."""
    for row, action in enumerate(actions[:, corrupt_at]):
        same = quotient.map[alphabet] == quotient.map[action]
        choices = alphabet[(same if row % 2 == 0 else ~same) & (alphabet != action)]
        if not len(choices):
            kind = "the same" if row % 2 == 0 else "a different"
            raise StatetraceError(
                f"balanced pairs are impossible: no other action has {kind} {quotient.name} than "
                f"element {action}; use balanced = false"
            )
        actions[row, corrupt_at] = rng.choice(choices)
