"""Models and views as plain JSON for the page."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch

from statetrace.explorer.objects import movements, why_not
from statetrace.inspection import Session, View, look
from statetrace.inspection.probes import class_labels, targets_of
from statetrace.lenses.parts.parity_heads import head_scores
from statetrace.lenses.specs import AttentionSpec
from statetrace.tasks.plain_text import PlainText
from statetrace.tasks.sentences import Sentences

SHOWN = 16
"""Actions in the sequence that the page starts with."""

FEW = 8
"""Sequences for choosing the head that the page starts with."""

MOST_SENTENCES = 120
"""Elements whose sentences are shown."""

MOST_MAP_BYTES = 1_500_000
"""All heads' maps are sent as small pictures up to this size, else only the chosen head's."""


def describe_model(session: Session) -> dict[str, Any]:
    """Everything that the page needs to know about a model before its first request."""
    task, anatomy, group = session.task, session.anatomy, session.task.group
    moves = movements(group)
    heads = "" if anatomy.heads is None else f", {anatomy.heads} heads"
    kind = session.model.config.model_type
    return {
        "name": session.name,
        "about": f"{kind}, {anatomy.layers} layers of width {anatomy.width}{heads}; {group.name}, "
        f"trained on {task.length} actions",
        "group": group.name,
        "labels": group.labels,
        "identity": group.identity,
        "parity": None if group.parity is None else group.parity.tolist(),
        "actions": list(range(group.order)) if task.actions is None else list(task.actions),
        "layers": anatomy.layers,
        "heads": None if session.no_attention and session.no_heads else anatomy.heads,
        "no_attention": session.no_attention,
        "no_heads": session.no_heads,
        "no_unembedding": None if session.unembed else "its final norm was not found",
        "marker": task.vocabulary.offset,
        "length": task.length,
        "longest": session.longest,
        "moves": moves,
        "no_moves": None if moves else why_not(group),
        "swaps": moves is not None and group.name[0] in "SA",
        "sentences": _sentences(session),
        "targets": _targets(session),
        "checkpoints": _checkpoints(session),
        "step": None if session.timeline is None else session.timeline.opened,
        "start": first_sequences(session),
        "head": first_head(session),
    }


def _sentences(session: Session) -> list[str] | None:
    """The sentence of each element, for a model that reads sentences."""
    vocabulary, order = session.task.vocabulary, session.task.group.order
    if not isinstance(vocabulary, Sentences) or order > MOST_SENTENCES:
        return None
    rows = vocabulary.encode(torch.arange(order)[:, None], torch.zeros(1))
    if isinstance(vocabulary, PlainText):
        return [vocabulary.text(vocabulary.unpadded(row)) for row in rows]
    return [vocabulary.text(row) for row in rows]


def _targets(session: Session) -> list[dict[str, Any]]:
    """What can be read: the state and quotients, with their probes' accuracy by layer."""
    accuracy = session.probes.accuracy if session.probes else {}
    return [
        {
            "name": target.name,
            "labels": class_labels(session.task, target.name),
            "map": target.map.tolist(),
            "accuracy": accuracy.get(target.name),
            "chance": 1 / target.classes,
        }
        for target in targets_of(session.task)
    ]


def _checkpoints(session: Session) -> list[dict[str, Any]]:
    """The checkpoints of the run, with the accuracy that its log has; empty if there is one."""
    if session.timeline is None:
        return []
    accuracy = session.timeline.accuracy
    return [{"step": step, "accuracy": accuracy.get(step)} for step in session.timeline.steps]


def first_sequences(session: Session) -> dict[str, list[str]]:
    """A sequence to start with, one that the model answers correctly if possible, and a source that
    differs from it in the first action: in parity too, where there is one."""
    task, group = session.task, session.task.group
    drawn = task.draw(32, 3, min(task.length, SHOWN, session.longest)).actions.tolist()
    actions = next((row for row in drawn if _is_correct(session, row)), drawn[0])
    allowed = list(range(group.order)) if task.actions is None else list(task.actions)
    others = [a for a in allowed if a != actions[0]] or allowed
    if (parity := group.parity) is not None:
        others.sort(key=lambda a: int(parity[a] == parity[actions[0]]))
    source = [others[0], *actions[1:]]
    labels = group.labels
    return {"actions": [labels[a] for a in actions], "source": [labels[a] for a in source]}


def first_head(session: Session) -> tuple[int, int] | None:
    """The head (layer, head) whose map is shown first. With parity, the one that attends most to
    odd actions on a few sequences: its parity-head score, which measures how often, times the share
    of its attention on them beyond their frequency."""
    group = session.task.group
    if session.no_attention is not None:
        return None
    length = min(SHOWN, session.longest)
    spec = AttentionSpec()
    if group.parity is None or length <= spec.first:
        return session.anatomy.layers, 0
    total = torch.zeros(session.anatomy.layers, session.anatomy.heads or 1, dtype=torch.float64)
    for actions in session.task.draw(FEW, 3, length).actions.tolist():
        maps = look(session, actions).attention
        assert maps is not None
        weights = torch.from_numpy(maps[..., -length:])  # [L, H, T, T]
        odd = torch.from_numpy(group.parity[actions] == 1)
        frequency = odd.cumsum(0) / torch.arange(1, length + 1)  # of odd actions so far
        beyond = (weights[..., odd].sum(-1) - frequency * weights.sum(-1))[..., spec.first - 1 :]
        score = head_scores(weights, odd.expand(len(weights), -1), spec.first)
        total += score * beyond.mean(-1).clamp_min(0)
    best = int(total.argmax())
    return best // total.shape[1] + 1, best % total.shape[1]


def _is_correct(session: Session, actions: list[int]) -> bool:
    view = look(session, actions)
    return bool((view.answers.argmax(-1) == view.states).all())


def describe_view(
    session: Session, view: View, at: int, head: tuple[int, int] | None, maps: bool
) -> dict[str, Any]:
    """One run: the reading of every cell, the answer after action `at`, and attention."""
    probes, unembedding, answers = {}, {}, {}
    for target in targets_of(session.task):
        image = target.map.numpy()
        answers[target.name] = _cells(_by_class(view.answers, image))
        if target.name in view.probes:
            probes[target.name] = _cells(view.probes[target.name])
        if view.unembedding is not None:
            unembedding[target.name] = _cells(_by_class(view.unembedding, image))
    attention = pictures = None
    if view.attention is not None:
        if head is not None:
            attention = _round(view.attention[head[0] - 1, head[1]])
        if maps and view.attention.size <= MOST_MAP_BYTES:
            pixels = np.rint(view.attention * 255).astype(np.uint8)
            pictures = base64.b64encode(pixels.tobytes()).decode()
    return {
        "answers": answers,
        "probe": probes,
        "unembedding": unembedding or None,
        "distribution": _round(view.answers[at]),
        "attention": attention,
        "maps": pictures,
    }


def _by_class(probabilities: np.ndarray, image: np.ndarray) -> np.ndarray:
    """[..., order] -> summed over the elements of each class, [..., classes]."""
    classes = int(image.max()) + 1
    if classes == len(image):
        return probabilities
    member = image[:, None] == np.arange(classes)
    return probabilities @ member.astype(probabilities.dtype)


def _cells(probabilities: np.ndarray) -> dict[str, Any]:
    """[..., classes] -> the likeliest class and its probability."""
    return {
        "predicted": probabilities.argmax(-1).tolist(),
        "probability": _round(probabilities.max(-1)),
    }


def _round(numbers: np.ndarray) -> Any:
    return np.round(numbers.astype(np.float64), 6).tolist()
