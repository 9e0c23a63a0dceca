"""What a model can still do without some of its heads: the causal check the paper lacks.

Purpose: a head may look at odd actions without anything depending on it. Here the output z of the
top heads is replaced, by zeros or by its mean over examples (position by position, so that only
what differs between sequences is lost), and the answers are compared with those of the intact
model on the same sequences. As a control, as many other heads of the same layers.

Cost: one forward pass over the sequences for each set of heads and method, one for the means.
Caveat: zeros are far from anything the layers above have seen; where zero and mean disagree,
believe the mean. The means come from the sequences that are answered.
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
from statetrace.interventions import Edit, Site, capturing, evaluating, overwrite
from statetrace.lenses.parts.answers import answers, device_of
from statetrace.lenses.result import Progress, no_progress
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

METHODS = ("zero", "mean")
"""What takes the place of a head's output."""

Heads = tuple[Site, ...]


@dataclass(frozen=True)
class Ablation:
    """Answers without some heads.

    Attributes:
        kind: "top" or "control".
        size: how many heads are taken out.
        method: one of METHODS.
        sets: the sets of heads that were tried, one for "top", several for "control".
        right: "state" and the quotient's name -> [n, T], share of the sets with which the answer
            after each action is right.
    """

    kind: str
    size: int
    method: str
    sets: tuple[Heads, ...]
    right: Mapping[str, np.ndarray]


def ablated(
    model: Any, heads: Iterable[Site], means: Mapping[Site, Tensor] | None = None
) -> AbstractContextManager[None]:
    """The model without these heads: their z [B, T, head_width] is zero, or their mean [T,
    head_width] where means are given."""

    def edit(site: Site) -> Edit:
        if means is None:
            return torch.zeros_like
        mean = means[site]
        return lambda z: mean.to(z.dtype).expand_as(z)

    return overwrite(model, {site: edit(site) for site in heads})


def mean_outputs(
    model: Any, task: WordProblem, sequences: Sequences, heads: Iterable[Site], batch: int = 512
) -> dict[Site, Tensor]:
    """The mean z [T, head_width] of each head over sequences, T counting the start marker."""
    heads = tuple(heads)
    totals: dict[Site, Tensor] = {}
    with evaluating(model), capturing(model, heads) as found:
        for start in range(0, len(sequences), batch):
            actions = sequences.actions[start : start + batch].astype(np.int64)
            model(task.encode(torch.from_numpy(actions).to(device_of(model))), use_cache=False)
            for site in heads:
                part = found[site].float().sum(0)
                totals[site] = totals[site] + part if site in totals else part
    return {site: total / len(sequences) for site, total in totals.items()}


def correct(
    model: Any, task: WordProblem, sequences: Sequences, quotient: Quotient, batch: int = 512
) -> dict[str, np.ndarray]:
    """ "state" and the quotient's name -> whether each answer is right, [n, T]."""
    with evaluating(model):
        said = answers(model, task, sequences, batch).astype(np.int64)
    true = sequences.states.astype(np.int64)
    image = quotient.map.astype(np.int64)
    return {"state": said == true, quotient.name: image[said] == image[true]}


def control_sets(
    ranked: Sequence[Site], size: int, spared: int, number: int, rng: np.random.Generator
) -> tuple[Heads, ...]:
    """Random heads to compare the top `size` with, as many in each layer as those have.

    None of the top `spared` heads is among them. Where a layer has too few others, the missing
    ones come from other layers; () where there are too few altogether. Sets may repeat.
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
    """Take out the top heads of `ranked` (all heads, best first), and as many random others."""
    spared = max(sizes, default=0)
    sets: list[tuple[str, int, tuple[Heads, ...]]] = []
    for size in sizes:
        sets.append(("top", size, (tuple(ranked[:size]),)))
        if control := control_sets(ranked, size, spared, controls, rng):
            sets.append(("control", size, control))
    touched = {site for _, _, tried in sets for heads in tried for site in heads}
    means = mean_outputs(model, task, sequences, sorted(touched), batch)
    found = []
    for i, (kind, size, tried) in enumerate(sets):
        for method in METHODS:
            runs = []
            for heads in tried:
                with ablated(model, heads, means if method == "mean" else None):
                    runs.append(correct(model, task, sequences, quotient, batch))
            right = {what: np.mean([run[what] for run in runs], axis=0) for what in runs[0]}
            found.append(Ablation(kind, size, method, tried, right))
        progress((i + 1) / len(sets))
    return found
