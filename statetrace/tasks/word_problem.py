"""The word problem of a finite group: read actions a_0 a_1 ..., predict the state after each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from statetrace.config.memory import SEQUENCES
from statetrace.errors import StatetraceError
from statetrace.groups import Group, GroupSpec, Quotient
from statetrace.groups import group as resolve_group
from statetrace.tasks.batch import Batch, Split
from statetrace.tasks.published import is_published, read_published
from statetrace.tasks.sequences import Sequences, scan, unique_actions, unique_sequences
from statetrace.tasks.vocabulary import Vocabulary


@dataclass(frozen=True)
class WordProblem:
    """A group, a length, and how both are written as tokens.

    Attributes:
        group: its elements are the actions and the states.
        length: actions per training sequence.
        vocabulary: how actions and states are written as tokens, and the start marker.
        actions: the elements that may occur as actions; None for all of them.
        held_out: sequences the model was not trained on, where they are known; lenses draw from
            these.
    """

    group: Group
    length: int
    vocabulary: Vocabulary
    actions: tuple[int, ...] | None = None
    held_out: Sequences | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.length < 1:
            raise StatetraceError(f"length {self.length} is too short; it must be at least 1")
        if len(self.vocabulary.elements) != self.group.order:
            raise StatetraceError(
                f"{len(self.vocabulary.elements)} token ids were given for the "
                f"{self.group.order} elements of {self.group.name}; give one for each"
            )

    def at_length(self, length: int) -> WordProblem:
        """The same task at another length."""
        return replace(self, length=length)

    @property
    def space(self) -> int:
        """Number of different sequences of this length."""
        return (self.group.order if self.actions is None else len(self.actions)) ** self.length

    def sample(self, n: int, seed: int) -> Sequences:
        """`n` unique sequences, deterministic in `seed`."""
        return unique_sequences(self.group, n, self.length, seed, self.actions)

    def draw(self, n: int, seed: int, length: int | None = None) -> Sequences:
        """`n` unique sequences to evaluate a model on, or all where there are fewer; deterministic
        in `seed`. They are held-out ones, cut to `length`, where those are known and long enough.
        """
        length = self.length if length is None else length
        if self.held_out is None or length > self.held_out.length:
            longer = self.at_length(length)
            return longer.sample(min(n, longer.space), seed)
        pool = self.held_out.cut(length)
        chosen = np.random.default_rng([seed, length]).permutation(len(pool))[:n]
        return Sequences(pool.actions[chosen], pool.states[chosen])

    def splits(
        self, n: int | None, analysis_fraction: float, seed: int, folder: Path | None = None
    ) -> tuple[Sequences, Sequences]:
        """Training and analysis sequences; no sequence is in both.

        `n` is None for a million, or all where there are fewer. With `folder` the sequences are
        read (written by `statetrace data` or the published generator) and cut to this length;
        duplicates after the cut are dropped.
        """
        if folder is not None:
            everything = self._read(folder)
            if n is not None and n > len(everything):
                raise StatetraceError(
                    f"{folder} holds only {len(everything):,} unique sequences of length "
                    f"{self.length}, fewer than {n:,}"
                )
            everything = everything[: n or len(everything)]
        else:
            everything = self.sample(n or min(SEQUENCES, self.space), seed)
        cut = _cut(len(everything), analysis_fraction)
        return everything[:cut], everything[cut:]

    def analysis_split(
        self, n: int | None, analysis_fraction: float, seed: int, folder: Path | None = None
    ) -> Sequences:
        """The second of `splits`, bit for bit. All actions are drawn, since uniqueness depends on
        every row, but only these rows are kept and get states: half the time, a tenth of the
        memory."""
        if folder is not None:
            return self.splits(n, analysis_fraction, seed, folder)[1]
        n = n or min(SEQUENCES, self.space)
        cut = _cut(n, analysis_fraction)
        actions = unique_actions(self.group, n, self.length, seed, self.actions)[cut:].copy()
        return Sequences(actions, scan(self.group, actions))

    def _read(self, folder: Path) -> Sequences:
        if any((folder / name).is_file() for name in ("sequences.json", "actions.npy")):
            sequences = Sequences.load(folder, self.group)
        elif is_published(folder):
            sequences = read_published(folder, self.group)
        else:
            raise StatetraceError(
                f"'{folder}' holds no sequences; it should be written by `statetrace data`, or "
                'hold JSON files with "story" and "state_seq" as the published generator writes'
            )
        return sequences.cut(self.length)

    def split(self, sequences: Sequences, device: torch.device | str = "cpu") -> Split:
        """Put sequences on a device, ready to be cut into batches."""
        return Split.of(sequences, self.vocabulary, device)

    def encode(
        self, actions: torch.Tensor | np.ndarray, device: torch.device | str | None = None
    ) -> torch.Tensor:
        """Element indices [B, T] -> tokens [B, T * stride + offset], by default where they are."""
        if isinstance(actions, np.ndarray):
            actions = torch.from_numpy(actions.astype(np.int64))
        return self.vocabulary.encode(actions if device is None else actions.to(device))

    def states(self, actions: torch.Tensor) -> torch.Tensor:
        """The state after each of the actions [B, T], by table look-up on the actions' device."""
        table = self._table.to(actions.device)
        state = torch.full_like(actions[:, 0], self.group.identity)
        states = []
        for action in actions.unbind(1):
            state = table[state, action]
            states.append(state)
        return torch.stack(states, dim=1)

    def batch(self, actions: torch.Tensor) -> Batch:
        """Tokens, targets and mask for given actions [B, T]."""
        return Batch.of(actions, self.states(actions), self.vocabulary)

    def read_out(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits of a model [B, tokens, vocab] -> logits over elements after each action
        [B, T, order]. Tokens that stand for no element are ignored."""
        ids = torch.as_tensor(self.vocabulary.elements, device=logits.device)
        return logits[:, self.vocabulary.reads].index_select(-1, ids)

    def quotients(self, names: tuple[str, ...] | None = None) -> tuple[Quotient, ...]:
        """The named quotients, or every proper one, parity first. For groups with too many to list,
        such as Z2xZ2xZ2xZ2xZ2, only parity, if there is one."""
        if names is not None:
            return tuple(self.group.quotient(name) for name in names)
        try:
            return self.group.quotients()
        except StatetraceError:
            return () if self.group.parity is None else (self.group.quotient("parity"),)

    @cached_property
    def _table(self) -> torch.Tensor:
        return torch.from_numpy(self.group.table.astype("int64"))


def _cut(n: int, analysis_fraction: float) -> int:
    """How many of `n` sequences are for training."""
    cut = n - max(1, round(n * analysis_fraction))
    if cut < 1:
        raise StatetraceError(
            f"{n} unique sequences cannot be split into training and analysis with "
            f"analysis_fraction {analysis_fraction}; use more, or a smaller fraction"
        )
    return cut


def generating(states: Group, actions: str) -> tuple[int, ...]:
    """The chosen actions, refused unless every state can be reached with them."""
    chosen = states.generators(actions)
    reached = len(states.subgroup(chosen))
    if reached < states.order:
        raise StatetraceError(
            f"the actions '{actions}' reach only {reached} of the {states.order} states of "
            f"{states.name}; choose elements that generate the group"
        )
    return chosen


def word_problem(
    group: GroupSpec,
    length: int,
    actions: str = "all",
    start_marker: bool = True,
    notation: str = "moves",
    own_first_token: bool = False,
) -> WordProblem:
    """The word problem of a group: `word_problem("S3", 32)`, or with a Group of your own.

    `actions` is "all", "transpositions", or labels separated by commas; they must generate the
    group, or some states could never be reached.
    """
    states = resolve_group(group, notation)
    chosen = None if actions == "all" else generating(states, actions)
    vocabulary = Vocabulary.plain(states.order, start_marker, own_first_token)
    return WordProblem(states, length, vocabulary, chosen)
