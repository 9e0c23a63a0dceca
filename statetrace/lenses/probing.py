"""What can be read off each layer by a line: state, parity and other quotients (section 4.2, app. C).

Three readings, told apart by the columns `position` and `length` of the table:

- position "last", length T: a probe at the last token of whole sequences.
- position "last", length n < T: a probe at the last token of sequences of length n, for each n its
  own (appendix C). By causality that is position n of the long sequences, so one forward pass
  serves all lengths.
- position "any", length T: one probe for all lengths, on one random position of each sequence. The
  signature "a probe at layer l labels a fraction 2^l / T of the states" is about these: it counts
  states of all lengths up to T, of which a last token is only one.

Probes are fitted on `subsets` disjoint subsets of the training sequences and tried on the same
held-out sequences: `mean` and `std` are over the subsets, `n` is the number of held-out sequences.
Held-out and training sequences share no prefix as long as the shortest length that is probed, or
the answer to a short one could be remembered. (Position "any" also looks at shorter ones, of which
there are few.) Beside it stand two controls: the same probes on an untrained model of the same
shape, and trained with shuffled labels.

Cost: one forward pass of train + test sequences for the model and one for its untrained twin, then
(layers × subsets × targets) fits per length. Seconds for a small model on a CPU, about a minute for
Pythia-160M on a GPU.
Caveat: a probe shows what is there, not what is used; the patching lens shows that. With few rows
per feature a probe overfits and reads less than there is, hence the default sizes.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.interventions.capture import evaluating
from statetrace.interventions.memory import free_bytes
from statetrace.lenses import probes
from statetrace.lenses.activations import bytes_needed, residuals
from statetrace.lenses.answers import answers, check_fits, device_of
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

SHORTEST = 5
"""The paper's shortest length."""

LEARNED = 0.9
"""A model that names fewer of the states than this is reported as not having learned the task."""

FEWEST = 40
"""Rows that a subset must have, and sequences that there must be at all."""

CONTROLS = ("untrained", "shuffled")


@dataclass(frozen=True)
class ProbingSpec:
    """What to probe, and on how much."""

    targets: tuple[str, ...] | None = None
    """Of "state" and the names of quotients, "quotients" for all of those; by default the state,
    and parity where there is one."""
    lengths: tuple[int, ...] | None = None
    """Lengths that get a probe of their own; the whole length is always among them. By default from
    5 on, in steps that make at most `most_lengths` of them."""
    most_lengths: int = 20
    subsets: int = 10
    """Disjoint subsets of the training sequences, for the standard deviation."""
    train: int | None = None
    """Training sequences, all subsets together; by default 1000 for each, or 4 per feature, or 25
    per class if that is more."""
    test: int = 4000
    """Held-out sequences."""
    C: float = 1.0
    """Inverse strength of the penalty, as in scikit-learn; features are standardised."""
    controls: tuple[str, ...] = CONTROLS
    threshold: float = 0.98
    """From this accuracy on, a target counts as read."""
    tolerance: float = probes.TOLERANCE
    max_iterations: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("subsets", "test", "train", "most_lengths", "max_iterations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise StatetraceError(f"{name} {value} is too small; use 1 or more")
        for name in ("C", "tolerance"):
            if not getattr(self, name) > 0:
                raise StatetraceError(f"{name} {getattr(self, name)} must be above 0")
        if not 0 < self.threshold <= 1:
            raise StatetraceError(f"threshold {self.threshold} must lie between 0 and 1")
        for control in self.controls:
            if control not in CONTROLS:
                raise StatetraceError(
                    f"unknown control '{control}'; there are {' and '.join(CONTROLS)}"
                )


@dataclass(frozen=True)
class _Target:
    """Something to read: `map` takes a state to its class."""

    name: str
    classes: int
    map: Tensor  # [order]


@dataclass(frozen=True)
class _Place:
    """Where a probe looks: `token` [N] is its position in each of the sequences."""

    position: str
    length: int
    token: Tensor


@dataclass(frozen=True)
class _Data:
    """The sequences, training ones first, and how they are divided."""

    actions: Tensor  # [N, T]
    states: Tensor  # [N, T]
    train: int
    subsets: int

    @property
    def test(self) -> int:
        return len(self.actions) - self.train


def probing(
    model: Any,
    task: WordProblem,
    spec: ProbingSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Probe every layer; see the module's first lines for what the rows of the table mean."""
    spec = spec or ProbingSpec()
    check_fits(model, task, task.length)
    targets = _targets(task, spec)
    lengths = _lengths(task.length, spec)
    notes: list[str] = []
    if spec.targets is None and len(targets) == 1:
        notes.append(f"{task.group.name} has no parity: there are no parity probes")
    data = _data(model, task, spec, targets, lengths[0], notes)
    places = _places(task, data, lengths, spec.seed)

    sources = {"none": model}
    if "untrained" in spec.controls:
        sources["untrained"] = untrained_twin(model, spec.seed)
    rows: list[dict[str, Any]] = []
    failed = fitted = 0
    for number, (control, source) in enumerate(sources.items()):
        shuffled = control == "none" and "shuffled" in spec.controls
        for share, place, train, test in _features(source, task, data, places):
            progress((number + share) / len(sources))
            made, converged = _probe(train, test, place, targets, data, spec, control, shuffled)
            rows += made
            failed, fitted = failed + int((~converged).sum()), fitted + converged.numel()
    progress(1.0)
    if failed:
        notes.append(
            f"{failed} of {fitted} probes had not converged after {spec.max_iterations} iterations "
            f"(tolerance {spec.tolerance:g}); raise max_iterations, or lower C"
        )
    _note_constant(rows, task, notes)
    said = _model_accuracy(model, task, data, targets)
    if said["state"]["all"] < LEARNED:
        notes.append(
            f"the model names only {said['state']['all']:.0%} of the states of held-out sequences: "
            "it has not learned the task, and its probes show that, not a mechanism"
        )
    arrays = _by_length(rows, lengths)
    return LensResult(
        lens="probing",
        spec=dataclasses.asdict(spec) | {"lengths": list(lengths)},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        arrays=arrays,
        summary=_summary(rows, arrays, targets, lengths, data, spec.threshold)
        | {"model_accuracy": said},
        notes=tuple(notes),
    )


def untrained_twin(model: Any, seed: int) -> Any:
    """A model of the same class and configuration with fresh weights, on the same device; the same
    seed gives the same weights, and no global random state is touched."""
    parameter = next(model.parameters())
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
    return twin.to(device=parameter.device, dtype=parameter.dtype).eval()


# What to probe -------------------------------------------------------------------------------


def _targets(task: WordProblem, spec: ProbingSpec) -> list[_Target]:
    names = spec.targets
    if names is None:
        has_parity = any(q.name == "parity" for q in task.quotients())
        names = ("state", "parity") if has_parity else ("state",)
    if not names:
        raise StatetraceError("no targets were given; use 'state' or the name of a quotient")
    found: dict[str, _Target] = {}
    for name in names:
        if name == "state":
            order = task.group.order
            found[name] = _Target(name, order, torch.arange(order))
            continue
        for quotient in task.quotients(None if name == "quotients" else (name,)):
            image = torch.from_numpy(quotient.map.astype(np.int64))
            found[quotient.name] = _Target(quotient.name, quotient.image.order, image)
    return list(found.values())


def _lengths(longest: int, spec: ProbingSpec) -> tuple[int, ...]:
    """Ascending, the whole length last."""
    if spec.lengths is not None:
        for length in spec.lengths:
            if not 1 <= length <= longest:
                raise StatetraceError(
                    f"length {length} cannot be probed in sequences of length {longest}; "
                    f"use lengths from 1 to {longest}"
                )
        return tuple(sorted({*spec.lengths, longest}))
    step = max(1, -(-(longest - SHORTEST + 1) // spec.most_lengths))
    return tuple(range(longest, min(SHORTEST, longest) - 1, -step))[::-1]


# On which sequences --------------------------------------------------------------------------


def _data(
    model: Any,
    task: WordProblem,
    spec: ProbingSpec,
    targets: list[_Target],
    shortest: int,
    notes: list[str],
) -> _Data:
    """Draw sequences and split them so that no prefix of the shortest length is on both sides."""
    most = max(target.classes for target in targets)
    train = spec.train or spec.subsets * max(1000, 4 * anatomy(model).width, 25 * most)
    drawn = task.draw(train + spec.test, spec.seed)
    if len(drawn) < FEWEST:
        raise StatetraceError(
            f"there are only {len(drawn)} sequences of length {task.length} over "
            f"{task.group.name} to probe with, and {FEWEST} are needed; use longer sequences"
        )
    cut, order = _split(drawn, shortest, spec.test / (train + spec.test), spec.seed)
    test, rest = order[:cut][: spec.test], order[cut:][:train]
    subsets = min(spec.subsets, max(1, len(rest) // FEWEST))
    rest = rest[: len(rest) // subsets * subsets]
    if len(rest) < train // spec.subsets * spec.subsets or len(test) < spec.test:
        notes.append(
            f"{len(rest)} training and {len(test)} held-out sequences instead of {train} and "
            f"{spec.test}: there are no more to draw"
        )
    if subsets < spec.subsets:
        notes.append(f"{subsets} subsets instead of {spec.subsets}, of {len(rest) // subsets} each")
    rows = np.concatenate([rest, test])
    actions, states = (
        torch.from_numpy(array[rows].astype(np.int64)).to(device_of(model))
        for array in (drawn.actions, drawn.states)
    )
    return _Data(actions, states, len(rest), subsets)


def _split(drawn: Sequences, shortest: int, share: float, seed: int) -> tuple[int, np.ndarray]:
    """An order of the rows and where to cut it: before it about `share` of them, to be held out."""
    rng = np.random.default_rng([seed, len(drawn)])
    _, prefix = np.unique(drawn.actions[:, :shortest], axis=0, return_inverse=True)
    prefix = prefix.ravel()
    rank = rng.permutation(int(prefix.max()) + 1)[prefix]
    order = np.argsort(rank, kind="stable")
    # where another prefix begins; with one prefix only, there is nothing to keep apart
    starts = np.flatnonzero(np.diff(rank[order])) + 1
    starts = starts if len(starts) else np.arange(1, len(drawn))
    cut = int(starts[np.abs(starts - share * len(drawn)).argmin()])
    return cut, np.concatenate([rng.permutation(order[:cut]), rng.permutation(order[cut:])])


def _places(
    task: WordProblem, data: _Data, lengths: tuple[int, ...], seed: int
) -> list[_Place]:
    """Shortest first, so that those that fit into memory together need the fewest tokens."""
    n, first = len(data.actions), task.vocabulary.offset
    found = [_Place("last", k, torch.full((n,), first + k - 1)) for k in lengths]
    generator = torch.Generator().manual_seed(seed)
    anywhere = torch.randint(task.length, (n,), generator=generator)
    return [*found, _Place("any", task.length, first + anywhere)]


def _features(
    model: Any, task: WordProblem, data: _Data, places: list[_Place]
) -> Iterator[tuple[float, _Place, Tensor, Tensor]]:
    """Each place with the standardised residual stream there, of training [L + 1, N, D] and
    held-out sequences, and the share of the work done before it."""
    tokens = task.encode(data.actions)
    each = bytes_needed(model, len(tokens), 1)
    together = int(max(1, free_bytes(tokens.device) // 3 // each))
    for start in range(0, len(places), together):
        some = places[start : start + together]
        at = torch.stack([place.token for place in some], dim=1)  # [N, k]
        train = residuals(model, tokens[: data.train], at[: data.train])
        test = residuals(model, tokens[data.train :], at[data.train :])
        for i, place in enumerate(some):
            pair = train[:, :, i], test[:, :, i]
            # what is not float32 or float64 is copied; the rest is standardised where it lies
            fine = [x.float() if x.dtype.itemsize < 4 else x for x in pair]
            probes.standardise(*fine)
            yield (start + i) / len(places), place, fine[0], fine[1]
        del train, test, pair, fine


# The probes ----------------------------------------------------------------------------------


def _probe(
    train: Tensor,
    test: Tensor,
    place: _Place,
    targets: list[_Target],
    data: _Data,
    spec: ProbingSpec,
    control: str,
    shuffled: bool,
) -> tuple[list[dict[str, Any]], Tensor]:
    """Fit all layers, targets and subsets of one place together; the rows of the table they make,
    and which fits converged."""
    states = data.states.gather(1, (place.token.to(data.states.device) - (
        data.offset))[:, None])[:, 0]
    raise NotImplementedError
