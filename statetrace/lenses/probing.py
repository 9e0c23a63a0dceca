"""What can be read off each layer by a line: state, parity, other quotients (section 4.2, app. C).

Three readings, told apart by the columns `position` and `length` of the table:

- position "last", length T: a probe at the last token of whole sequences.
- position "last", length n < T: a probe at the last token of sequences of length n, for each n its
  own (appendix C). By causality that is position n of the long sequences, so one forward pass
  serves all lengths.
- position "any", length T: one probe for all lengths, on one random position of each sequence. The
  signature "a probe at layer l labels a fraction 2^l / T of the states" is about these: it counts
  states of all lengths up to T, of which a last token is only one.

A probe is fitted on all training sequences and tried on `n` held-out ones: `mean` is over those.
The same is done with each of `subsets` disjoint subsets of the training sequences: `std` is over
them, as in the paper's table 1. (Their own mean would be lower, as each has fewer rows.) `chance`
is 1 / (classes that occur). Beside them stand two controls, at the whole length: the same probes on
an untrained model of the same shape, and probes of shuffled labels.

Cost: one forward pass of train + test sequences for the model and one for its untrained twin, then
layers × (1 + subsets) × targets fits per length, all of one length together. 15 s for a 4-layer,
64-wide model of S3 at length 16 on one core of a CPU; S5, with 120 classes, wants a GPU.
Caveat: a probe shows what is there, not what is used; the patching lens shows that. With few rows
per feature a probe overfits and reads less than there is, hence the default sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.interventions.capture import evaluating
from statetrace.lenses.parts import probes
from statetrace.lenses.parts.answers import answers, check_fits, unlearned
from statetrace.lenses.parts.lengths import choose_lengths
from statetrace.lenses.parts.probing_data import (
    Data,
    Part,
    Place,
    Target,
    choose_places,
    choose_sequences,
    choose_targets,
    features,
    untrained_twin,
)
from statetrace.lenses.parts.probing_summary import by_length, summary
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

CONTROLS = ("untrained", "shuffled")
METRICS = ("accuracy", "probability")


@dataclass(frozen=True)
class ProbingSpec:
    """What to probe, and on how much."""

    targets: tuple[str, ...] | None = None
    """Any of "state" and names of quotients, "quotients" for all of them; by default the state and,
    where there is one, parity."""
    length: int | None = None
    """Actions per sequence, T above; by default the task's."""
    lengths: tuple[int, ...] | None = None
    """Lengths that get probes of their own; the whole length is always among them. By default from
    5 on, in steps that make at most `most_lengths` of them."""
    most_lengths: int = 20
    """How many lengths at most, where `lengths` does not name them."""
    subsets: int = 10
    """Disjoint subsets of the training sequences, for the standard deviation."""
    train: int | None = None
    """Training sequences, all subsets together; by default for each subset 500, 4 per feature, or
    10 per class, whichever is most."""
    test: int = 2000
    """Held-out sequences."""
    C: float = 1.0
    """Inverse strength of the penalty, as in scikit-learn; features are standardised."""
    controls: tuple[str, ...] = CONTROLS
    """Any of "untrained" and "shuffled"."""
    threshold: float = 0.98
    """From this accuracy on, a target counts as read."""
    tolerance: float = probes.TOLERANCE
    """Where a fit ends; see probes.fit."""
    max_iterations: int = 1000
    """Where a fit ends in any case; a note tells how many did."""
    seed: int = 0
    """Of the sequences, their split, the untrained model and the shuffling."""

    def __post_init__(self) -> None:
        for name in ("length", "most_lengths", "subsets", "train", "test", "max_iterations"):
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


def probing(
    model: Any,
    task: WordProblem,
    spec: ProbingSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Probe every layer; the module's first lines say what the rows of the table mean."""
    spec = spec or ProbingSpec()
    task = task if spec.length is None else task.at_length(spec.length)
    check_fits(model, task, task.length)
    targets = choose_targets(task, spec.targets)
    lengths = choose_lengths(task.length, spec.lengths, spec.most_lengths)
    most = max(target.classes for target in targets)
    train = spec.train or spec.subsets * max(500, 4 * anatomy(model).width, 10 * most)
    data, notes = choose_sequences(
        model, task, train, spec.test, spec.subsets, lengths[0], spec.seed
    )
    places = choose_places(data, lengths, spec.seed)
    sources = {"none": model}
    if "untrained" in spec.controls:
        sources["untrained"] = untrained_twin(model, spec.seed)

    rows: list[dict[str, Any]] = []
    unfinished = 0
    for number, (control, source) in enumerate(sources.items()):
        part = Part(progress, number / len(sources), (number + 1) / len(sources))
        wanted = places if control == "none" else [p for p in places if p.length == lengths[-1]]
        for place, known, held_out in features(source, task, data, wanted, part):
            made, failed = _probe(known, held_out, place, targets, data, spec, control)
            rows += made
            unfinished += failed

    said = _model_accuracy(model, task, data, targets)
    notes += _notes(task, spec, targets, rows, said, unfinished)
    sizes = {"train": data.train, "test": data.test, "subsets": data.subsets}
    return LensResult(
        lens="probing",
        spec=dataclasses.asdict(spec) | {"lengths": list(lengths), "train": train},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        arrays=by_length(rows, lengths),
        summary=summary(rows, lengths, spec.threshold) | sizes | {"model_accuracy": said},
        notes=tuple(notes),
    )


def _probe(
    known: Tensor,
    held_out: Tensor,
    place: Place,
    targets: list[Target],
    data: Data,
    spec: ProbingSpec,
    control: str,
) -> tuple[list[dict[str, Any]], int]:
    """Fit all layers, targets and subsets of one place together -> the rows of the table, and how
    many of the fits did not converge."""
    device = data.states.device
    states = data.states.gather(1, place.at.to(device)[:, None])[:, 0]  # [N]
    kinds = [(control, target, target.map.to(device)[states]) for target in targets]
    whole_length = place.length == data.actions.shape[1]
    if control == "none" and whole_length and "shuffled" in spec.controls:
        mixed = _shuffle(data, spec.seed).to(device)
        kinds += [("shuffled", target, label[mixed]) for _, target, label in kinds]
    given = [label[: data.train] for _, _, label in kinds]
    whole, parts = (
        probes.fit(
            known,
            given,
            [target.classes for _, target, _ in kinds],
            subsets=subsets,
            C=spec.C,
            tolerance=spec.tolerance,
            max_iterations=spec.max_iterations,
        )
        for subsets in (1, data.subsets)
    )
    rows = []
    for number, (name, target, label) in enumerate(kinds):
        right = label[data.train :]
        means = whole.score(held_out, right, number)  # accuracy and probability, [L, 1] each
        spread = parts.score(held_out, right, number)  # [L, S] each
        about = {"target": target.name, "position": place.position, "length": place.length}
        chance = 1 / len(label[: data.train].unique())
        for metric, mean, each in zip(METRICS, means, spread, strict=True):
            deviations = each.std(-1).tolist() if data.subsets > 1 else [None] * len(each)
            for layer, (value, std) in enumerate(zip(mean[:, 0].tolist(), deviations, strict=True)):
                row = {"layer": layer, "control": name, "metric": metric, "mean": value, "std": std}
                rows.append(about | row | {"n": data.test, "chance": chance})
    unfinished = sum(int((~fitted.converged).sum()) for fitted in (whole, parts))
    return rows, unfinished


def _shuffle(data: Data, seed: int) -> Tensor:
    """A permutation [N] of the training sequences among themselves and of the held-out ones.

    The latter too: where classes stand far apart, a probe of shuffled labels still tells them from
    one another and calls them by some names, which by luck may be right.
    """
    generator = torch.Generator().manual_seed(seed)
    train = torch.randperm(data.train, generator=generator)
    return torch.cat([train, data.train + torch.randperm(data.test, generator=generator)])


def _model_accuracy(
    model: Any, task: WordProblem, data: Data, targets: list[Target]
) -> dict[str, dict[str, float]]:
    """What the model itself says about the held-out sequences: target -> share of right answers at
    their last token, and over all lengths."""
    actions, states = (x[data.train :].cpu().numpy() for x in (data.actions, data.states))
    with evaluating(model):
        said = torch.from_numpy(answers(model, task, Sequences(actions, states)).astype(np.int64))
    true = torch.from_numpy(states)
    found = {}
    for target in [Target("state", task.group.order, torch.arange(task.group.order)), *targets]:
        right = (target.map[said] == target.map[true]).double()  # [M, T]
        found[target.name] = {"last": right[:, -1].mean().item(), "all": right.mean().item()}
    return found


def _notes(
    task: WordProblem,
    spec: ProbingSpec,
    targets: list[Target],
    rows: list[dict[str, Any]],
    said: dict[str, dict[str, float]],
    unfinished: int,
) -> Iterator[str]:
    if spec.targets is None and all(target.name != "parity" for target in targets):
        yield f"{task.group.name} has no parity: there are no parity probes"
    trouble = unlearned(said["state"]["all"], task.group.order, "on held-out sequences")
    if trouble:
        yield f"{trouble}; its probes show that rather than a mechanism"
    for name in dict.fromkeys(row["target"] for row in rows if row["chance"] == 1):
        yield (
            f"after some lengths all sequences over these actions have the same {name}: a probe of "
            "it is right there whatever it reads (chance is 1)"
        )
    if unfinished:
        yield (
            f"{unfinished} probes had not converged after {spec.max_iterations} iterations "
            f"(tolerance {spec.tolerance:g}); raise max_iterations, or lower C"
        )
