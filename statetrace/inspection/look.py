"""One sequence, and everything that can be read of it in one forward pass.

Purpose: the whole of what the explorer's page shows, as arrays. Patches and ablations go through
statetrace.interventions; every reading is of the changed run.
Cost: one forward pass, and one of the source where something is patched: some ten milliseconds for
a model of the zoo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from statetrace.inspection.query import Patch, Query, question
from statetrace.inspection.session import Session
from statetrace.interventions import (
    Edit,
    Site,
    capture,
    capturing,
    evaluating,
    overwrite,
    sites_of,
)
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.attention_ablation import ablated


@dataclass(frozen=True)
class View:
    """What one run of a model shows. L layers, T actions; layer 0 is the embedding.

    Attributes:
        actions, states: [T], elements; the states are the true ones.
        labels: of the group's elements.
        answers: [T, order], the model's probabilities of the states after each action.
        probes: target -> [L + 1, T, classes], what a probe reads after each action.
        unembedding: [L + 1, T, order], what the model would say if a layer were its last one; None
            where that cannot be asked.
        attention: [L, H, T, S] from action to action; S is T, or T + 1 where a start marker comes
            first. None for a model without attention.
    """

    actions: np.ndarray
    states: np.ndarray
    labels: tuple[str, ...]
    answers: np.ndarray
    probes: dict[str, np.ndarray]
    unembedding: np.ndarray | None
    attention: np.ndarray | None

    def answer(self, action: int = -1) -> dict[str, float]:
        """The states' probabilities after an action (the last by default), most probable first."""
        order = np.argsort(-self.answers[action], kind="stable")
        return {self.labels[i]: float(self.answers[action, i]) for i in order}


def look(
    model: Session,
    actions: str | Sequence[int | str],
    *,
    source: str | Sequence[int | str] | None = None,
    patches: Iterable[Patch] = (),
    without: Iterable[tuple[int, int]] = (),
    instead: str = "mean",
) -> View:
    """Run a model over a sequence and read it everywhere.

    Args:
        actions: labels separated by commas, or labels or element numbers one by one.
        source: the sequence that patches come from; as long as they need it.
        without: heads to ablate, (layer, head), layers from 1 and heads from 0.
        instead: "mean", a head's mean output at each position, or "zero".
    """
    asked = question(model, actions, source, patches, without, instead)
    with model.lock, evaluating(model.model):
        return _run(model, asked)


def _run(model: Session, asked: Query) -> View:
    task, reader = model.task, model.anatomy
    given, tokens = _encode(model, asked.actions)
    sites = sites_of("resid", reader)
    reads = task.vocabulary.reads
    with ExitStack() as changes:
        changes.enter_context(overwrite(model.model, _patches(model, asked)))
        if asked.heads:
            means = None
            if asked.instead == "mean":
                means = {head: model.means[head][: tokens.shape[1]] for head in asked.heads}
            changes.enter_context(ablated(model.model, asked.heads, means))
        with capturing(model.model, sites) as found:
            logits = model.model(tokens, use_cache=False).logits
            resid = torch.stack([found[site][0] for site in sites])  # [L + 1, tokens, D]
        attention = _attention(model, tokens, resid)
    read = resid[:, reads].float()
    return View(
        actions=given[0].cpu().numpy(),
        states=task.states(given)[0].cpu().numpy(),
        labels=task.group.labels,
        answers=_numpy(task.read_out(logits.float()).softmax(-1)[0]),
        probes={}
        if model.readers is None
        else {name: _numpy(p) for name, p in model.readers.read(read).items()},
        unembedding=_unembedded(model, resid[:, reads]),
        attention=None if attention is None else _numpy(_by_action(model, attention)),
    )


def _encode(model: Session, actions: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Actions and tokens, [1, T] and [1, tokens]."""
    given = torch.tensor([actions], device=device_of(model.model))
    return given, model.task.encode(given)


def _patches(model: Session, asked: Query) -> dict[Site, Edit]:
    """An edit for every layer that is patched, with what the source has there."""
    if not asked.patches:
        return {}
    layers = sorted({patch.layer for patch in asked.patches})
    sites = {layer: Site("resid", layer) for layer in layers}
    _, tokens = _encode(model, asked.source)
    donor = capture(model.model, tokens, sites.values())
    vocabulary = model.task.vocabulary

    def edit(layer: int) -> Edit:
        rows = [
            # a prefix has the start marker in it, as in interventions/spec.py
            slice(vocabulary.tokens(p.first) if p.first else 0, vocabulary.tokens(p.last + 1))
            for p in asked.patches
            if p.layer == layer
        ]

        def put(activation: Tensor) -> Tensor:
            patched = activation.clone()
            for row in rows:
                patched[:, row] = donor[sites[layer]][:, row]
            return patched

        return put

    return {sites[layer]: edit(layer) for layer in layers}


def _attention(model: Session, tokens: Tensor, resid: Tensor) -> Tensor | None:
    """The weights [L, H, tokens, tokens] of this very run, changes included."""
    if model.no_attention is not None:
        return None
    reader = model.anatomy
    if not reader.fast:  # once more, under the same hooks
        return reader.attention_weights(tokens)[:, 0]
    here = torch.arange(tokens.shape[1], device=tokens.device)
    maps = []
    for layer in range(reader.layers):
        q, k, _ = reader.qkv(layer, resid[layer : layer + 1], here)
        maps.append(reader.pattern(layer, q, k)[0])
    return torch.stack(maps)


def _by_action(model: Session, weights: Tensor) -> Tensor:
    """[L, H, tokens, tokens] -> [L, H, T, S]: each action's last token looks, and all of its tokens
    are looked at; a start marker has the first column."""
    vocabulary = model.task.vocabulary
    weights = weights[:, :, vocabulary.reads]
    marker, rest = weights[..., : vocabulary.offset], weights[..., vocabulary.offset :]
    return torch.cat([marker, rest.unflatten(-1, (-1, vocabulary.stride)).sum(-1)], dim=-1)


def _unembedded(model: Session, resid: Tensor) -> np.ndarray | None:
    """[L + 1, T, D] -> [L + 1, T, order]."""
    if model.unembeds is None:
        return None
    ids = torch.as_tensor(model.task.vocabulary.elements, device=resid.device)
    layers = [model.unembeds(layer).float().index_select(-1, ids) for layer in resid]
    return _numpy(torch.stack(layers).softmax(-1))


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
