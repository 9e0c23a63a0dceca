"""How long lenses will take: work counted in tokens of forward passes, times measured speed.

Caveat: the number of iterations of a probe's fit and the load of the machine are guesses, so an
estimate may be off by half. Registered lenses are not estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from statetrace.lenses.loading import LoadedModel
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.lengths import choose_lengths, usual_lengths
from statetrace.models import anatomy
from statetrace.models.predict import evaluating, predict
from statetrace.models.threads import fastest_threads, using_threads
from statetrace.tasks.word_problem import WordProblem

TRIAL_TOKENS = 600
"""Tokens of the forward pass that is timed."""

ITERATIONS = 25
"""Of a typical fit of a probe."""

PATCHED = 0.3
"""Share of a forward pass that a patched one recomputes, on average over its layer and position."""

PERMUTED = 2e-9
"""Seconds for one point, feature and permutation of the geometry lens."""


@dataclass(frozen=True)
class Speed:
    """Measured on this machine.

    Attributes:
        threads: the number of CPU threads that is fastest.
        token: seconds for one token of a forward pass.
        entry: seconds for one entry of the features in one iteration of a fit.
    """

    threads: int
    token: float
    entry: float


def measure_speed(loaded: LoadedModel) -> Speed:
    """Time forward passes of the task's sequences with several numbers of threads; less than a
    second for models of a few million parameters."""
    model, task = loaded.model, loaded.task
    device, each = device_of(model), task.vocabulary.tokens(task.length)
    drawn = task.draw(max(1, TRIAL_TOKENS // each), 0)
    tokens = task.encode(drawn.actions, device)

    def forward() -> None:
        with evaluating(model):
            float(predict(model, tokens)[0, -1, 0])  # waits for a GPU

    threads, seconds = fastest_threads(forward, device)
    features = torch.ones(1, 1000, anatomy(model).width, device=device)
    columns = torch.ones(1, features.shape[2], task.group.order + 2, device=device)

    def iterate() -> None:
        float(torch.bmm(torch.bmm(features, columns).mT, features)[0, 0, 0])

    with using_threads(threads):
        _, fit = fastest_threads(iterate, torch.device("meta"))  # with these threads only
    return Speed(threads, seconds / tokens.numel(), fit / features.numel())


def estimate(
    model: Any, task: WordProblem, specs: Mapping[str, Any], speed: Speed
) -> dict[str, float]:
    """Seconds by lens; 0 for lenses that read no model, and for registered ones."""
    counts = {lens: _COUNTS.get(lens, _nothing)(model, task, spec) for lens, spec in specs.items()}
    return {
        lens: tokens * speed.token + entries * speed.entry + seconds
        for lens, (tokens, entries, seconds) in counts.items()
    }


Count = tuple[float, float, float]
"""Tokens of forward passes, entries of features in fits, and further seconds."""


def _nothing(model: Any, task: WordProblem, spec: Any) -> Count:
    return 0, 0, 0


def _generalization(model: Any, task: WordProblem, spec: Any) -> Count:
    longest = spec.longest or 2 * task.length
    lengths = task.vocabulary.tokens(task.length) + task.vocabulary.tokens(longest)
    return spec.sequences * lengths, 0, 0


def _probing(model: Any, task: WordProblem, spec: Any) -> Count:
    length, reader = spec.length or task.length, anatomy(model)
    lengths = choose_lengths(length, spec.lengths, spec.most_lengths)
    train = spec.train or spec.subsets * max(500, 4 * reader.width, 10 * task.group.order)
    untrained = "untrained" in spec.controls
    tokens = (1 + untrained) * (train + spec.test) * task.vocabulary.tokens(length)
    fits = len(lengths) + 1 + 2 * len(spec.controls)
    entries = (1 + (spec.subsets > 1)) * fits * (reader.layers + 1) * train * reader.width
    return tokens + spec.test * task.vocabulary.tokens(length), ITERATIONS * entries, 0


def _patching(model: Any, task: WordProblem, spec: Any) -> Count:
    reader, tokens = anatomy(model), task.vocabulary.tokens(spec.length or task.length)
    cells = 0
    for grid in spec.grids:
        windows = grid.windows(tokens, task.vocabulary.offset, task.vocabulary.stride)
        cells += len(grid.sites(reader)) * len(windows)
    return spec.pairs * tokens * (2 + PATCHED * cells), 0, 0


def _depth(model: Any, task: WordProblem, spec: Any) -> Count:
    lengths = spec.lengths or usual_lengths(task.length)
    tokens = sum(task.vocabulary.tokens(length) for length in lengths)
    return spec.pairs * tokens * (2 + PATCHED * (anatomy(model).layers + 1)), 0, 0


def _attention(model: Any, task: WordProblem, spec: Any) -> Count:
    tokens = task.vocabulary.tokens(spec.last or task.length)
    passes = 2 + 2 * len(spec.ablation_sizes) * (1 + spec.controls) if spec.ablation_sizes else 0
    return tokens * (spec.examples + spec.ablation_examples * passes), 0, 0


def _geometry(model: Any, task: WordProblem, spec: Any) -> Count:
    reader, tokens = anatomy(model), task.vocabulary.tokens(spec.length or task.length)
    points = (reader.layers + 1) * spec.sequences * reader.width
    return spec.sequences * tokens, 0, PERMUTED * points * spec.permutations


def _subspace(model: Any, task: WordProblem, spec: Any) -> Count:
    """A gradient step costs about as much as three forward passes."""
    reader, tokens = anatomy(model), task.vocabulary.tokens(spec.length or task.length)
    exchanged = 1 if spec.positions == "last" and reader.fast else tokens
    steps = 3 * spec.batch * spec.steps if "das" in spec.methods else 0
    swaps = (spec.pairs + spec.train) * (2 * len(spec.methods) + 1 + spec.draws)
    passes = (reader.layers + 1) * exchanged * (steps + swaps) / 2
    whole = tokens * (2 * spec.sequences + 4 * (spec.pairs + spec.train))
    return (1 + ("untrained" in spec.controls)) * (whole + passes), 0, 0


_COUNTS: dict[str, Callable[[Any, WordProblem, Any], Count]] = {
    "generalization": _generalization,
    "probing": _probing,
    "patching": _patching,
    "depth": _depth,
    "attention": _attention,
    "geometry": _geometry,
    "subspace": _subspace,
}
