"""Ablation of attention heads: a causal test of parity heads, which the paper does not have.

Purpose: a head may attend to odd actions without any effect on the answer. Here the output z of the
top heads is replaced by zeros or by its mean over examples (position by position, so that only the
differences between sequences are lost), and the accuracy is compared with that of the intact model
on the same sequences. The control is as many other heads of the same layers.

Cost: one forward pass over the sequences for each set of heads and method, one for the means.
Caveat: zeros are far from the training distribution; where zero and mean ablation disagree, trust
the mean. The means are taken over the evaluated sequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.groups import Quotient
from statetrace.interventions.capture import Edit, capturing, overwrite
from statetrace.interventions.sites import Site
from statetrace.lenses.partial import part
from statetrace.lenses.parts.answers import answers, token_batches
from statetrace.lenses.result import Progress, no_progress
from statetrace.models.predict import evaluating
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

METHODS = ("zero", "mean")
"""Replacements of the output of a head."""

Heads = tuple[Site, ...]


@dataclass(frozen=True)
class Ablation:
    """The accuracy without some heads.

    Attributes:
        kind: "top" or "control".
        size: number of ablated heads.
        method: one of METHODS.
        sets: the ablated sets of heads, one for "top", several for "control".
        correct: "state" and the name of the quotient -> [n, T], share of the sets for which the
            answer after each action is correct.
    """

    kind: str
    size: int
    method: str
    sets: tuple[Heads, ...]
    correct: Mapping[str, np.ndarray]


def ablated(
    model: Any, heads: Iterable[Site], means: Mapping[Site, Tensor] | None = None
) -> AbstractContextManager[None]:
    """The model without these heads: their z [B, T, head_width] is zero, or their mean
    [T, head_width] if means are given."""

    def edit(site: Site) -> Edit:
        if means is None:
            return torch.zeros_like
        mean = means[site]
        return lambda z: mean.to(z.dtype).expand_as(z)

    return overwrite(model, {site: edit(site) for site in heads})


def mean_outputs(
    model: Any, task: WordProblem, sequences: Sequences, heads: Iterable[Site], batch: int = 512
) -> dict[Site, Tensor]:
    """The mean z [T, head_width] of each head over sequences; T includes the start marker."""
    heads = tuple(heads)
    totals: dict[Site, Tensor] = {}
    with evaluating(model), capturing(model, heads) as outputs:
        for tokens in token_batches(model, task, sequences, batch):
            model(tokens, use_cache=False)
            for site in heads:
                part = outputs[site].float().sum(0)
                totals[site] = totals[site] + part if site in totals else part
    return {site: total / len(sequences) for site, total in totals.items()}


def correct(
    model: Any, task: WordProblem, sequences: Sequences, quotient: Quotient, batch: int = 512
) -> dict[str, np.ndarray]:
    """ "state" and the name of the quotient -> whether each answer is correct, [n, T]."""
    predicted = answers(model, task, sequences, batch)
    true, image = sequences.states, quotient.map
    return {"state": predicted == true, quotient.name: image[predicted] == image[true]}


def control_sets(
    ranked: Sequence[Site], size: int, spared: int, number: int, rng: np.random.Generator
) -> tuple[Heads, ...]:
    """Random sets of heads to compare the top `size` heads with, as many in each layer as those.

    The top `spared` heads are not used. If a layer has too few other heads, the rest is taken from
    other layers; () if there are too few in total. Sets may repeat.
    """
    others = sorted(ranked[max(spared, size) :])
    if len(others) < size:
        return ()
    needed = Counter(site.layer for site in ranked[:size])
    sets = []
    for _ in range(number):
        order: list[Site] = [others[i] for i in rng.permutation(len(others))]
        chosen: list[Site] = []
        for layer, n in sorted(needed.items()):
            chosen += [site for site in order if site.layer == layer][:n]
        rest = [site for site in order if site not in chosen]
        sets.append(tuple(sorted(chosen + rest[: size - len(chosen)])))
    return tuple(sets)


def ablations(
    model: Any,
    task: WordProblem,
    sequences: Sequences,
    quotient: Quotient,
    ranked: Sequence[Site],
    sizes: Sequence[int],
    controls: int,
    rng: np.random.Generator,
    batch: int = 512,
    progress: Progress = no_progress,
) -> list[Ablation]:
    """Ablate the top heads of `ranked` (all heads, best first), and as many random others."""
    spared = max(sizes, default=0)
    sets: list[tuple[str, int, tuple[Heads, ...]]] = []
    for size in sizes:
        sets.append(("top", size, (tuple(ranked[:size]),)))
        if control := control_sets(ranked, size, spared, controls, rng):
            sets.append(("control", size, control))
    ablated_heads = {site for _, _, choices in sets for heads in choices for site in heads}
    means = mean_outputs(model, task, sequences, sorted(ablated_heads), batch)
    results = []
    for i, (kind, size, choices) in enumerate(sets):
        for method in METHODS:

            def measure(
                choices: tuple[Heads, ...] = choices, method: str = method
            ) -> dict[str, np.ndarray]:
                runs = []
                for heads in choices:
                    with ablated(model, heads, means if method == "mean" else None):
                        runs.append(correct(model, task, sequences, quotient, batch))
                return {what: np.mean([run[what] for run in runs], axis=0) for what in runs[0]}

            kept = part(f"{kind}-{size}-{method}", measure)
            share = {what: kept[what] for what in ("state", quotient.name)}
            results.append(Ablation(kind, size, method, choices, share))
        progress((i + 1) / len(sets))
    return results
