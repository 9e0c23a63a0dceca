"""Linear probes of each layer for the state, parity and other quotients (section 4.2, app. C).

There are four kinds, identified by the columns `position` and `length` of the table:

- position "last", length T: a probe at the last token of whole sequences.
- position "last", length n < T: a separate probe for each n at the last token of sequences of
  length n (appendix C). By causality that is position n of the long sequences, so one forward pass
  serves all lengths.
- position "any", length T: one probe for all lengths, on one random position of each sequence. The
  signature "a probe at layer l labels a fraction 2^l / T of the states" refers to these, because it
  counts states of all lengths up to T.
- position "all", length T, on request: one probe for all lengths, on every position of each
  sequence, as the paper's released code does. Here `train` and `test` count positions: the released
  protocol is `positions=all train=10000 test=99000`, subsets of 1,000 positions.

A probe is fitted on all training sequences and evaluated on `n` held-out ones: `mean` is over
those. It is also fitted on each of `subsets` disjoint subsets of the training sequences: `std` is
over them, as in the paper's table 1. (Their mean would be lower, as each has fewer rows.) `chance`
is 1 / (classes that occur). There are two controls at the full length: the same probes on an
untrained model of the same shape, and probes of shuffled labels.

Cost: one forward pass of train + test sequences for the model and one for the untrained model, then
layers × (1 + subsets) × targets fits per length, all of one length together. 15 s for a 4-layer,
64-wide model of S3 at length 16 on one core of a CPU; S5, with 120 classes, requires a GPU.
Caveat: a probe shows what is encoded, not what is used (see the patching lens). With few rows per
feature a probe overfits and underestimates what is encoded, hence the default sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.lenses.partial import part
from statetrace.lenses.parts import probes
from statetrace.lenses.parts.answers import answers, check_fits, low_accuracy
from statetrace.lenses.parts.lengths import choose_lengths
from statetrace.lenses.parts.probing_data import (
    Data,
    Place,
    Target,
    choose_places,
    choose_sequences,
    choose_targets,
    features,
    untrained_twin,
)
from statetrace.lenses.parts.probing_summary import by_length, summary
from statetrace.lenses.result import LensResult, Progress, no_progress, part_of
from statetrace.lenses.specs import ProbingSpec
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

METRICS = ("accuracy", "probability")


def probing(
    model: Any,
    task: WordProblem,
    spec: ProbingSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Probe every layer; the docstring of the module describes the rows of the table."""
    spec = spec or ProbingSpec()
    task = task if spec.length is None else task.at_length(spec.length)
    check_fits(model, task, task.length)
    targets = choose_targets(task, spec.targets)
    lengths = choose_lengths(task.length, spec.lengths, spec.most_lengths)
    most = max(target.classes for target in targets)
    train = spec.train or spec.subsets * max(500, 4 * anatomy(model).width, 10 * most)
    several = task.length if {*spec.positions} == {"all"} else 1
    data, notes = choose_sequences(
        model, task, train, spec.test, spec.subsets, lengths[0], spec.seed, several
    )
    places = choose_places(data, lengths, spec.seed, spec.positions, (train, spec.test))
    sources = {"none": model}
    if "untrained" in spec.controls:
        sources["untrained"] = untrained_twin(model, spec.seed)

    rows: list[dict[str, Any]] = []
    unfinished = 0
    for number, (control, source) in enumerate(sources.items()):
        share = part_of(progress, number / len(sources), (number + 1) / len(sources))
        full = [place for place in places if place.length == lengths[-1]]
        probed = places if control == "none" else full
        for place, train_rows, test_rows in features(source, task, data, probed, share):
            fit = partial(_probe, train_rows, test_rows, place, targets, data, spec, control)
            scores, failed = part(f"{control}-{place.position}-{place.length}", fit)
            rows += scores
            unfinished += failed

    accuracy = _model_accuracy(model, task, data, targets)
    notes += _notes(task, spec, targets, rows, accuracy, unfinished)
    sizes = {"train": data.train, "test": data.test, "subsets": data.subsets}
    return LensResult(
        lens="probing",
        spec=dataclasses.asdict(spec) | {"lengths": list(lengths), "train": train},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        arrays=by_length(rows, lengths),
        summary=summary(rows, lengths, spec.threshold) | sizes | {"model_accuracy": accuracy},
        notes=tuple(notes),
    )


def _probe(
    train_rows: Tensor,
    test_rows: Tensor,
    place: Place,
    targets: list[Target],
    data: Data,
    spec: ProbingSpec,
    control: str,
) -> tuple[list[dict[str, Any]], int]:
    """Fit all layers, targets and subsets of one place together; returns the rows of the table and
    the number of fits that did not converge."""
    device = data.states.device
    train, test = train_rows.shape[1], test_rows.shape[1]
    states = place.states(data)  # [train + test]
    kinds = [(control, target, target.map.to(device)[states]) for target in targets]
    full_length = place.length == data.actions.shape[1]
    if control == "none" and full_length and "shuffled" in spec.controls:
        order = _shuffle(train, test, spec.seed).to(device)
        kinds += [("shuffled", target, label[order]) for _, target, label in kinds]
    labels = [label[:train] for _, _, label in kinds]
    fitted = {
        subsets: probes.fit(
            train_rows,
            labels,
            [target.classes for _, target, _ in kinds],
            subsets=subsets,
            C=spec.C,
            tolerance=spec.tolerance,
            max_iterations=spec.max_iterations,
        )
        for subsets in sorted({1, data.subsets})
    }
    whole, parts = fitted[1], fitted[data.subsets]
    rows = []
    for number, (name, target, label) in enumerate(kinds):
        true = label[train:]
        means = whole.score(test_rows, true, number)  # accuracy and probability, [L, 1] each
        spread = parts.score(test_rows, true, number)  # [L, S] each
        about = {"target": target.name, "position": place.position, "length": place.length}
        chance = 1 / len(label[:train].unique())
        for metric, mean, each in zip(METRICS, means, spread, strict=True):
            deviations = each.std(-1).tolist() if data.subsets > 1 else [None] * len(each)
            for layer, (value, std) in enumerate(zip(mean[:, 0].tolist(), deviations, strict=True)):
                row = {"layer": layer, "control": name, "metric": metric, "mean": value, "std": std}
                rows.append(about | row | {"n": test, "chance": chance})
    unfinished = sum(int((~each.converged).sum()) for each in fitted.values())
    return rows, unfinished


def _shuffle(train: int, test: int, seed: int) -> Tensor:
    """A permutation that shuffles the training rows and the held-out ones separately.

    The held-out labels are shuffled too: where classes are well separated, a probe of shuffled
    labels still distinguishes them and may by chance assign the correct labels.
    """
    generator = torch.Generator().manual_seed(seed)
    first = torch.randperm(train, generator=generator)
    return torch.cat([first, train + torch.randperm(test, generator=generator)])


def _model_accuracy(
    model: Any, task: WordProblem, data: Data, targets: list[Target]
) -> dict[str, dict[str, float]]:
    """The accuracy of the model on the held-out sequences: target -> at the last token, and over
    all lengths."""
    actions, states = (x[data.train :].cpu().numpy() for x in (data.actions, data.states))
    elements = answers(model, task, Sequences(actions, states)).astype(np.int64)
    predicted, true = torch.from_numpy(elements), torch.from_numpy(states)
    accuracy = {}
    for target in [Target("state", task.group.order, torch.arange(task.group.order)), *targets]:
        correct = (target.map[predicted] == target.map[true]).double()  # [M, T]
        accuracy[target.name] = {"last": correct[:, -1].mean().item(), "all": correct.mean().item()}
    return accuracy


def _notes(
    task: WordProblem,
    spec: ProbingSpec,
    targets: list[Target],
    rows: list[dict[str, Any]],
    accuracy: dict[str, dict[str, float]],
    unfinished: int,
) -> Iterator[str]:
    if spec.targets is None and all(target.name != "parity" for target in targets):
        yield f"{task.group.name} has no parity, so there are no parity probes"
    share, consequence = accuracy["state"]["all"], "; the probes do not show a mechanism"
    yield from low_accuracy(share, task.group.order, "on held-out sequences", consequence)
    for name in dict.fromkeys(row["target"] for row in rows if row["chance"] == 1):
        yield (
            f"at some lengths all sequences of these actions have the same {name}, so any probe of "
            "it is correct there (chance is 1)"
        )
    if unfinished:
        yield (
            f"{unfinished} probes had not converged after {spec.max_iterations} iterations "
            f"(tolerance {spec.tolerance:g}); raise max_iterations, or lower C"
        )
