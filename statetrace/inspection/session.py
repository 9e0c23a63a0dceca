"""A model laid open: loaded, with its task, its probes, and a lock.

Purpose: what takes seconds is done once here, so that `look` takes milliseconds.
Caveat: hooks change a model for as long as a look lasts, hence the lock; with it any number of
threads may look at one model, and each sees what it would see alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.inspection.probes import ProbeSet, fit_probes, sequences_within
from statetrace.interventions import Site, evaluating, sites_of
from statetrace.lenses.loading import ExternalCheckpoint, LoadedModel, from_checkpoint, from_run
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.attention_ablation import mean_outputs
from statetrace.lenses.parts.probing_data import Part
from statetrace.lenses.result import Progress, no_progress
from statetrace.models import Anatomy, anatomy
from statetrace.runs import Run
from statetrace.tasks.word_problem import WordProblem

ZOO = "zoo:"
BEYOND, AT_LEAST = 2, 8
"""Sequences may be so many times as long as in training, and so long in any case, as far as the
model has positions."""

MEANS, FEW_MEANS = 256, 8
"""Sequences over which a head's mean output is taken, and those of a large model on a CPU."""


@dataclass(frozen=True)
class Session:
    """One model that can be looked at.

    Attributes:
        name: as it was asked for, a run folder or zoo:NAME.
        asked: what else `open_model` was given, for somebody to open it again.
        longest: most actions in a sequence.
        readers: probes; None where no target is small enough.
        means: each head's mean output by position [tokens, head_width]; empty without heads.
        unembeds: layer's residual stream [T, D] -> logits [T, V]; None where that is not known.
        no_attention, no_heads: sentences that say why there are no maps, or no heads to ablate.
    """

    name: str
    model: Any
    task: WordProblem
    anatomy: Anatomy
    longest: int
    readers: ProbeSet | None
    means: dict[Site, Tensor] = field(repr=False)
    unembeds: Callable[[Tensor], Tensor] | None = field(repr=False)
    no_attention: str | None
    no_heads: str | None
    asked: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)


def open_model(
    name: str | Path,
    *,
    device: str = "auto",
    step: int | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
    tell: Callable[[str], None] = lambda _: None,
) -> Session:
    """Load a run folder's model (the newest checkpoint, or that at `step`), a compiled model's, or
    zoo:NAME, and fit its probes. The same call gives the same probes."""
    given = {"device": (device, "auto"), "step": (step, None), "seed": (seed, 0)}
    asked = {name: value for name, (value, default) in given.items() if value != default}
    return opened(_subject(str(name), device, step, tell), str(name), asked, seed, progress)


def opened(
    subject: LoadedModel,
    name: str,
    asked: dict[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Session:
    """A model that is loaded already, laid open."""
    model, task = subject.model, subject.task
    reader = anatomy(model)
    longest = max(AT_LEAST, BEYOND * task.length)
    if reader.max_length is not None:
        longest = min(longest, task.vocabulary.fitting(reader.max_length))
    kind = model.config.model_type
    no_attention = no_heads = None
    if reader.heads is None:
        no_attention = no_heads = f"{kind!r} models have no attention"
    elif reader.attention_projection is None:
        no_heads = f"where {kind!r} models join their heads is not known"
    means: dict[Site, Tensor] = {}
    with evaluating(model):
        readers = fit_probes(model, task, seed, Part(progress, 0.0, 0.8))
        if no_heads is None:
            wanted = sequences_within(model, task.vocabulary.tokens(longest), FEW_MEANS, MEANS)
            drawn = task.draw(wanted, seed + 1, longest)
            means = mean_outputs(model, task, drawn, sites_of("head", reader))
        if no_attention is None:
            no_attention = _why_no_maps(reader, task)
        unembeds = _unembedding(reader, task)
    progress(1.0)
    return Session(
        name, model, task, reader, longest, readers, means, unembeds, no_attention, no_heads,
        asked or {},
    )  # fmt: skip


def _subject(name: str, device: str, step: int | None, tell: Callable[[str], None]) -> LoadedModel:
    if not name.startswith(ZOO):
        run = Run.existing(Path(name))
        if step is not None and "foreign" in run.info:
            raise StatetraceError(f"'{name}' was not trained here and has no step {step}")
        return from_run(run, step, device, tell)
    from statetrace.zoo import catalogue, checkpoint

    known = name.removeprefix(ZOO)
    folder = checkpoint(known)
    if step is not None:
        raise StatetraceError(f"'{name}' has no step {step}: a model of the zoo is one checkpoint")
    about = catalogue()[known]
    reading = ExternalCheckpoint(
        about["group"], about["length"], start_marker=about["start_marker"]
    )
    return from_checkpoint(folder, reading, device)


def _tokens(reader: Anatomy, task: WordProblem) -> Tensor:
    actions = torch.arange(2)[None] % task.group.order
    return task.encode(actions.to(device_of(reader.model)))


def _why_no_maps(reader: Anatomy, task: WordProblem) -> str | None:
    try:
        reader.attention_weights(_tokens(reader, task))
    except StatetraceError as error:
        return str(error)
    return None


def _unembedding(reader: Anatomy, task: WordProblem) -> Callable[[Tensor], Tensor] | None:
    """The final norm and the unembedding, if together they give the model's own answer."""
    if reader.fast:
        return lambda resid: reader.unembed(resid[None])[0]
    if reader.final_norm is None:
        return None
    norm, last = reader.final_norm, reader.unembedding

    def unembed(resid: Tensor) -> Tensor:
        logits: Tensor = last(norm(resid))
        return logits

    from statetrace.interventions import capturing

    top = Site("resid", reader.layers)
    tokens = _tokens(reader, task)
    with capturing(reader.model, (top,)) as found:
        said = reader.model(tokens, use_cache=False).logits[0]
    exact = torch.allclose(unembed(found[top][0]), said, rtol=1e-3, atol=1e-4)
    return unembed if exact else None
