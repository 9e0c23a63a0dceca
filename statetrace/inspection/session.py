"""A model ready for inspection: loaded, with its task, fitted probes, head means and a lock.

Purpose: what takes seconds is done once, so that `look` takes milliseconds.
Caveat: hooks change the model during a `look`, hence the lock. With it, any number of threads may
share a session, and each gets the results that it would get alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from statetrace import models
from statetrace.errors import StatetraceError
from statetrace.inspection.probes import ProbeSet, fit_probes, sequences_within
from statetrace.interventions.capture import capturing
from statetrace.interventions.sites import Site, sites_of
from statetrace.lenses.loading import LoadedModel
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.attention_ablation import mean_outputs
from statetrace.lenses.result import Progress, no_progress, part_of
from statetrace.models import Anatomy
from statetrace.models.predict import evaluating
from statetrace.tasks.word_problem import WordProblem

if TYPE_CHECKING:
    from statetrace.inspection.timeline import Timeline

BEYOND, AT_LEAST = 2, 8
"""The longest sequence is this many times the training length, and at least this long; never longer
than the model has positions."""

MEANS, FEW_MEANS = 256, 8
"""Sequences for a head's mean output, and the fewest, for a large model on a CPU."""


@dataclass(frozen=True)
class Session:
    """One model, ready for inspection.

    Attributes:
        name: as it was loaded: a run folder or zoo:NAME.
        options: other arguments that load the same model.
        longest: most actions in a sequence.
        probes: None where no target has few enough classes.
        means: each head's mean output by position [tokens, head_width]; empty without heads.
        unembed: residual stream [T, D] -> logits [T, V]; None where the final norm is unknown.
        no_attention, no_heads: why there are no attention maps, or no heads to ablate; None where
            there are.
        timeline: the same model at the other checkpoints of its run; None if there are none.
    """

    name: str
    model: Any
    task: WordProblem
    anatomy: Anatomy
    longest: int
    probes: ProbeSet | None
    means: dict[Site, Tensor] = field(repr=False)
    unembed: Callable[[Tensor], Tensor] | None = field(repr=False)
    no_attention: str | None
    no_heads: str | None
    options: dict[str, Any] = field(default_factory=dict)
    timeline: Timeline | None = field(default=None, repr=False, compare=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)


def make_session(
    loaded: LoadedModel,
    name: str,
    options: dict[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Session:
    """A session with a model that is loaded already."""
    model, task = loaded.model, loaded.task
    anatomy = models.anatomy(model)
    longest = max(AT_LEAST, BEYOND * task.length)
    if anatomy.max_length is not None:
        longest = min(longest, task.vocabulary.fitting(anatomy.max_length))
    kind = model.config.model_type
    no_attention = no_heads = None
    if anatomy.heads is None:
        no_attention = no_heads = f"{kind!r} models have no attention"
    elif anatomy.attention_projection is None:
        no_heads = f"the head outputs of {kind!r} models were not found"
    with evaluating(model):
        probes = fit_probes(model, task, seed, part_of(progress, 0.0, 0.8))
        means = (
            {} if no_heads else head_means(model, task, sites_of("head", anatomy), longest, seed)
        )
        if no_attention is None:
            no_attention = _why_no_maps(anatomy, task)
        unembed = _find_unembedding(anatomy, task)
    progress(1.0)
    return Session(
        name, model, task, anatomy, longest, probes, means, unembed, no_attention, no_heads,
        options or {},
    )  # fmt: skip


def head_means(
    model: Any, task: WordProblem, heads: Iterable[Site], length: int, seed: int = 0
) -> dict[Site, Tensor]:
    """Each head's mean output by position [tokens, head_width], over sequences of the task. Models
    are causal, so that shorter sequences use the first rows."""
    number = sequences_within(model, task.vocabulary.tokens(length), FEW_MEANS, MEANS)
    return mean_outputs(model, task, task.draw(number, seed + 1, length), heads)


def _two_actions(anatomy: Anatomy, task: WordProblem) -> Tensor:
    """Tokens [1, T] of any two actions."""
    actions = torch.arange(2)[None] % task.group.order
    return task.encode(actions.to(device_of(anatomy.model)))


def _why_no_maps(anatomy: Anatomy, task: WordProblem) -> str | None:
    try:
        anatomy.attention_weights(_two_actions(anatomy, task))
    except StatetraceError as error:
        return str(error)
    return None


def _find_unembedding(anatomy: Anatomy, task: WordProblem) -> Callable[[Tensor], Tensor] | None:
    """The final norm and the unembedding, if together they reproduce the model's logits."""
    if anatomy.fast:
        return lambda resid: anatomy.unembed(resid[None])[0]
    if anatomy.final_norm is None:
        return None
    norm, unembedding = anatomy.final_norm, anatomy.unembedding

    def unembed(resid: Tensor) -> Tensor:
        logits: Tensor = unembedding(norm(resid))
        return logits

    top = Site("resid", anatomy.layers)
    with capturing(anatomy.model, (top,)) as activations:
        logits = anatomy.model(_two_actions(anatomy, task), use_cache=False).logits[0]
    exact = torch.allclose(unembed(activations[top][0]), logits, rtol=1e-3, atol=1e-4)
    return unembed if exact else None
