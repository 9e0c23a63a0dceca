"""The data of the probing lens: targets, sequences, positions in them, and features.

Held-out and training sequences share no prefix of the shortest probed length. There are only 6^5
prefixes of length 5, so a split by whole sequences would put almost all of them on both sides, and
a probe with many features could memorize the answers.

Cost: the residual stream of as many places at a time as fit into a third of the free memory; if not
all fit, the sequences are run again for the rest.
Caveat: the places of position "any" include single actions; those prefixes are on both sides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.activations import bytes_needed, residuals
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.hidden_padding import HiddenPadding
from statetrace.lenses.parts.probes import standardise
from statetrace.lenses.result import Progress, part_of
from statetrace.models.device import float64_device, free_bytes
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

FEWEST = 40
"""The fewest rows of a subset, and the fewest sequences in total."""


@dataclass(frozen=True)
class Target:
    """A probe target; `map` [order] takes a state to its class."""

    name: str
    classes: int
    map: Tensor


@dataclass(frozen=True)
class Data:
    """The sequences, training ones first.

    Attributes:
        actions, states: [N, T] on the device of the model, or where float64 is computed.
        train: number of training sequences, a multiple of `subsets`.
    """

    actions: Tensor
    states: Tensor
    train: int
    subsets: int

    @property
    def test(self) -> int:
        return len(self.actions) - self.train


@dataclass(frozen=True)
class Place:
    """The position of a probe: after action at[i] of sequence i, or after every action.

    Attributes:
        position: "last", "any" or "all".
        length: number of actions up to there; the maximum, where it varies.
        at: [N], counted from 0; None for "all".
        rows: training and held-out rows of "all", which has several of each sequence.
    """

    position: str
    length: int
    at: Tensor | None
    rows: tuple[int, int] = (0, 0)

    def states(self, data: Data) -> Tensor:
        """The states [rows] that a probe reads, training rows first."""
        if self.at is not None:
            return data.states.gather(1, self.at.to(data.states.device)[:, None])[:, 0]
        parts = (data.states[: data.train], data.states[data.train :])
        return torch.cat([part.flatten()[:n] for part, n in zip(parts, self.rows, strict=True)])


def choose_targets(task: WordProblem, names: tuple[str, ...] | None) -> list[Target]:
    """Targets by name; by default the state and, if there is one, parity."""
    if names is None:
        # for two elements parity equals the state; quotients() may refuse a large group
        has_parity = task.group.parity is not None and task.group.order > 2
        names = ("state", "parity") if has_parity else ("state",)
    if not names:
        raise StatetraceError("targets is empty; use 'state' or the name of a quotient")
    targets: dict[str, Target] = {}
    for name in names:
        if name == "state":
            order = task.group.order
            targets[name] = Target(name, order, torch.arange(order))
            continue
        for quotient in task.quotients(None if name == "quotients" else (name,)):
            image = torch.from_numpy(quotient.map.astype(np.int64))
            targets[quotient.name] = Target(quotient.name, quotient.image.order, image)
    return list(targets.values())


def choose_sequences(
    model: Any,
    task: WordProblem,
    train: int,
    test: int,
    subsets: int,
    shortest: int,
    seed: int,
    several: int = 1,
) -> tuple[Data, list[str]]:
    """Draw and split sequences; returns notes if there are fewer than requested. With `several`
    rows per sequence, fewer sequences are needed."""
    wanted = subsets
    if several > 1:
        train, test = (max(FEWEST, -(-rows // several)) for rows in (train, test))
        subsets = 1
    drawn = task.draw(int(1.02 * (train + test)) + 1, seed)  # more, because the split is not exact
    if len(drawn) < FEWEST:
        raise StatetraceError(
            f"{task.group.name} has only {len(drawn)} sequences of length {task.length}, and "
            f"probes need {FEWEST}; use a longer length"
        )
    order, cut = split_by_prefix(drawn, shortest, test / (train + test), seed)
    held_out, rest = order[:cut][:test], order[cut:][:train]
    parts = min(subsets, max(1, len(rest) // FEWEST))
    rest = rest[: len(rest) // parts * parts]
    notes = []
    if len(rest) < train // parts * parts or len(held_out) < test:
        notes.append(
            f"{len(rest)} training and {len(held_out)} held-out sequences instead of {train} and "
            f"{test}: there are no more of length {task.length} that differ in their first "
            f"{shortest} actions"
        )
    if parts < subsets:
        notes.append(
            f"standard deviations are over {parts} subsets instead of {subsets}: {len(rest)} "
            f"training sequences are too few for more subsets of {FEWEST}"
        )
    rows = np.concatenate([rest, held_out])
    actions, states = (
        torch.from_numpy(array[rows].astype(np.int64)).to(float64_device(device_of(model)))
        for array in (drawn.actions, drawn.states)
    )
    return Data(actions, states, len(rest), parts if several == 1 else wanted), notes


def split_by_prefix(
    drawn: Sequences, shortest: int, share: float, seed: int
) -> tuple[np.ndarray, int]:
    """A random order of the rows, and where to split it so that about `share` of them come first
    and no prefix of the shortest length is on both sides."""
    rng = np.random.default_rng([seed, len(drawn)])
    _, prefix = np.unique(drawn.actions[:, :shortest], axis=0, return_inverse=True)
    prefix = prefix.ravel()
    rank = rng.permutation(int(prefix.max()) + 1)[prefix]
    order = np.argsort(rank, kind="stable")
    starts = np.flatnonzero(np.diff(rank[order])) + 1  # where the prefix changes
    if not len(starts):
        raise StatetraceError(
            f"all sequences begin with the same {shortest} actions and cannot be split into "
            "training and held-out ones"
        )
    cut = int(starts[np.abs(starts - share * len(drawn)).argmin()])
    return np.concatenate([rng.permutation(order[:cut]), rng.permutation(order[cut:])]), cut


def choose_places(
    data: Data,
    lengths: tuple[int, ...],
    seed: int,
    positions: Sequence[str] = ("last", "any"),
    rows: tuple[int, int] = (0, 0),
) -> list[Place]:
    """Every length at its last action, shortest first, one random action of each sequence, and all
    actions, up to so many training and held-out rows."""
    n, longest = data.actions.shape
    train = min(rows[0], data.train * longest) // data.subsets * data.subsets
    test = min(rows[1], data.test * longest)
    anywhere = torch.randint(longest, (n,), generator=torch.Generator().manual_seed(seed))
    places = {
        "last": [Place("last", k, torch.full((n,), k - 1)) for k in lengths],
        "any": [Place("any", longest, anywhere)],
        "all": [Place("all", longest, None, (train, test))],
    }
    return [place for name, chosen in places.items() if name in positions for place in chosen]


def features(
    model: Any, task: WordProblem, data: Data, places: list[Place], progress: Progress
) -> Iterator[tuple[Place, Tensor, Tensor]]:
    """Each place with its standardized residual stream: training sequences [L + 1, N, D], held-out
    ones [L + 1, M, D]. Progress counts the forward passes as half of the work and the use of each
    place as the other half."""
    tokens = task.encode(data.actions)
    for place in [place for place in places if place.at is None]:
        yield place, *_every_position(model, task, tokens, data, place.rows)
    places = [place for place in places if place.at is not None]
    each = bytes_needed(model, len(tokens), 1)
    together = max(1, free_bytes(tokens.device) // 3 // each)
    for start in range(0, len(places), together):
        batch = places[start : start + together]
        actions = torch.stack([p.at for p in batch if p.at is not None], dim=1)  # [N, k]
        at = task.vocabulary.tokens(1) - 1 + task.vocabulary.stride * actions
        begin, middle, end = (
            (start + share * len(batch)) / len(places) for share in (0.0, 0.5, 1.0)
        )
        running, fitting = part_of(progress, begin, middle), part_of(progress, middle, end)
        train = residuals(model, tokens[: data.train], at[: data.train], done=running)
        test = residuals(model, tokens[data.train :], at[data.train :])
        train, test = train.to(tokens.device), test.to(tokens.device)
        for i, place in enumerate(batch):
            pair = [train[:, :, i], test[:, :, i]]
            if train.dtype.itemsize < 4:
                pair = [part.float() for part in pair]
            standardise(*pair)
            yield place, pair[0], pair[1]
            fitting((i + 1) / len(batch))
        del train, test, pair  # before the next batch


def _every_position(
    model: Any, task: WordProblem, tokens: Tensor, data: Data, rows: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The standardized residual stream after every action of the first sequences of each part:
    training and held-out rows."""
    length = data.actions.shape[1]
    at = task.vocabulary.tokens(1) - 1 + task.vocabulary.stride * torch.arange(length)
    parts = []
    for part, n in zip((tokens[: data.train], tokens[data.train :]), rows, strict=True):
        used = part[: -(-n // length)]
        read = residuals(model, used, at.expand(len(used), length))  # [L + 1, N, T, D]
        parts.append(read.flatten(1, 2)[:, :n].to(torch.promote_types(read.dtype, torch.float32)))
    standardise(*parts)
    return parts[0], parts[1]


def untrained_twin(model: Any, seed: int) -> Any:
    """A model of the same class and configuration with random weights, on the same device;
    deterministic in `seed`, and without effect on the global random state."""
    if isinstance(model, HiddenPadding):
        return model.around(untrained_twin(model.inner, seed))
    parameter = next(model.parameters())
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
    return twin.to(device=parameter.device, dtype=parameter.dtype).eval()
