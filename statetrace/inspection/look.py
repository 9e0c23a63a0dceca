"""One sequence through one model, read everywhere in one forward pass.

Purpose: everything that the explorer's page shows, as arrays. Patches and ablations go through
statetrace.interventions; every reading is of the changed run.
Cost: one forward pass, and one of the source if there are patches: about ten milliseconds for a
bundled model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import numpy as np
import torch
from torch import Tensor

from statetrace.inspection.probes import class_labels
from statetrace.inspection.query import Patch, Query, make_query
from statetrace.inspection.sequences import Actions
from statetrace.inspection.session import Session
from statetrace.inspection.view import View
from statetrace.interventions.capture import Edit, capture, capturing, overwrite
from statetrace.interventions.sites import Site, sites_of
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.attention_ablation import ablated
from statetrace.models.predict import evaluating


def look(
    session: Session,
    actions: Actions,
    *,
    source: Actions | None = None,
    patches: Iterable[Patch | tuple[int, int, int]] = (),
    without: Iterable[tuple[int, int]] = (),
    instead: str = "mean",
) -> View:
    """Run a model over a sequence and read it everywhere; arguments as in `TrackedModel.look`."""
    return view_of(session, make_query(session, actions, source, patches, without, instead))


def view_of(session: Session, query: Query) -> View:
    """Answer a query that was checked."""
    with session.lock, evaluating(session.model):
        return _run(session, query)


def _run(session: Session, query: Query) -> View:
    task = session.task
    actions, tokens = _encode(session, query.actions)
    sites = sites_of("resid", session.anatomy)
    reads = task.vocabulary.reads
    with ExitStack() as changes:
        changes.enter_context(overwrite(session.model, _patches(session, query)))
        if query.heads:
            means = None
            if query.instead == "mean":
                means = {head: session.means[head][: tokens.shape[1]] for head in query.heads}
            changes.enter_context(ablated(session.model, query.heads, means))
        with capturing(session.model, sites) as activations:
            logits = session.model(tokens, use_cache=False).logits
            resid = torch.stack([activations[site][0] for site in sites])  # [L + 1, tokens, D]
        attention = _attention(session, tokens, resid)
    probes = session.probes.read(resid[:, reads].float()) if session.probes else {}
    return View(
        actions=actions[0].cpu().numpy(),
        states=task.states(actions)[0].cpu().numpy(),
        labels=task.group.labels,
        answers=_numpy(task.read_out(logits.float()).softmax(-1)[0]),
        probes={target: _numpy(probabilities) for target, probabilities in probes.items()},
        unembedding=_unembedding(session, resid[:, reads]),
        attention=None if attention is None else _numpy(_by_action(session, attention)),
        layers=session.anatomy.layers,
        targets={target: class_labels(task, target) for target in probes},
        changes=query.changes,
    )


def _encode(session: Session, actions: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Actions and tokens, [1, T] and [1, tokens]."""
    batch = torch.tensor([actions], device=device_of(session.model))
    return batch, session.task.encode(batch)


def _patches(session: Session, query: Query) -> dict[Site, Edit]:
    """An edit for every patched layer, with the source's activations."""
    if not query.patches:
        return {}
    sites = {patch.layer: Site("resid", patch.layer) for patch in query.patches}
    _, tokens = _encode(session, query.source)
    donor = capture(session.model, tokens, sites.values())
    vocabulary = session.task.vocabulary

    def edit(layer: int) -> Edit:
        windows = [
            # a prefix includes the start marker, as in interventions/spec.py
            slice(vocabulary.tokens(p.first) if p.first else 0, vocabulary.tokens(p.last + 1))
            for p in query.patches
            if p.layer == layer
        ]

        def substitute(activation: Tensor) -> Tensor:
            patched = activation.clone()
            for window in windows:
                patched[:, window] = donor[sites[layer]][:, window]
            return patched

        return substitute

    return {site: edit(layer) for layer, site in sites.items()}


def _attention(session: Session, tokens: Tensor, resid: Tensor) -> Tensor | None:
    """The weights [L, H, tokens, tokens] of this run, changes included."""
    if session.no_attention is not None:
        return None
    anatomy = session.anatomy
    if not anatomy.fast:  # a second pass, under the same hooks
        return anatomy.attention_weights(tokens)[:, 0]
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    maps = []
    for layer in range(anatomy.layers):
        q, k, _ = anatomy.qkv(layer, resid[layer : layer + 1], positions)
        maps.append(anatomy.pattern(layer, q, k)[0])
    return torch.stack(maps)


def _by_action(session: Session, weights: Tensor) -> Tensor:
    """[L, H, tokens, tokens] -> [L, H, T, S]: queries are each action's last token, keys are summed
    over an action's tokens; a start marker has the first column."""
    vocabulary = session.task.vocabulary
    weights = weights[:, :, vocabulary.reads]
    marker, rest = weights[..., : vocabulary.offset], weights[..., vocabulary.offset :]
    return torch.cat([marker, rest.unflatten(-1, (-1, vocabulary.stride)).sum(-1)], dim=-1)


def _unembedding(session: Session, resid: Tensor) -> np.ndarray | None:
    """[L + 1, T, D] -> [L + 1, T, order]."""
    if session.unembed is None:
        return None
    ids = torch.as_tensor(session.task.vocabulary.elements, device=resid.device)
    layers = [session.unembed(layer).float().index_select(-1, ids) for layer in resid]
    return _numpy(torch.stack(layers).softmax(-1))


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
