"""Models and views as plain JSON for the page: small numbers, and of large arrays what is shown."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch

from statetrace.explorer.objects import movements, why_not
from statetrace.inspection.look import View, look
from statetrace.inspection.probes import targets_of
from statetrace.inspection.session import Session
from statetrace.lenses.parts.attention_spec import AttentionSpec
from statetrace.lenses.parts.parity_heads import head_scores
from statetrace.tasks.plain_text import PlainText
from statetrace.tasks.sentences import Sentences

SHOWN = 16
"""Actions in the sequence that the page begins with."""

FEW = 8
"""Sequences over which the first head to be shown is chosen."""

MOST_TOLD = 120
"""Elements whose sentences are shown."""

MOST_MAP_BYTES = 1_500_000
"""All heads' maps are sent as small pictures up to this size, else only the chosen head's."""


def about(model: Session) -> dict[str, Any]:
    """Everything the page needs to know of a model before anything is asked."""
    task, reader, group = model.task, model.anatomy, model.task.group
    moves = movements(group)
    heads = "" if reader.heads is None else f", {reader.heads} heads"
    kind = model.model.config.model_type
    return {
        "name": model.name,
        "about": f"{kind}, {reader.layers} layers of width {reader.width}{heads}; {group.name}, "
        f"trained on {task.length} actions",
        "group": group.name,
        "labels": group.labels,
        "identity": group.identity,
        "parity": None if group.parity is None else group.parity.tolist(),
        "actions": list(range(group.order)) if task.actions is None else list(task.actions),
        "layers": reader.layers,
        "heads": None if model.no_attention and model.no_heads else reader.heads,
        "no_attention": model.no_attention,
        "no_heads": model.no_heads,
        "no_unembedding": None if model.unembeds else "its final norm was not found",
        "marker": task.vocabulary.offset,
        "length": task.length,
        "longest": model.longest,
        "moves": moves,
        "no_moves": None if moves else why_not(group),
        "swaps": moves is not None and group.name[0] in "SA",
        "told": _told(model),
        "targets": _targets(model),
        "start": start(model),
        "head": first_head(model),
    }


def _told(model: Session) -> list[str] | None:
    """The sentence of each element, for a model that reads sentences."""
    vocabulary = model.task.vocabulary
    if not isinstance(vocabulary, Sentences) or model.task.group.order > MOST_TOLD:
        return None
    rows = vocabulary.encode(torch.arange(model.task.group.order)[:, None], torch.zeros(1))
    plain = vocabulary.unpadded if isinstance(vocabulary, PlainText) else lambda row: row
    return [vocabulary.text(plain(row)) for row in rows]


def _targets(model: Session) -> list[dict[str, Any]]:
    """What can be read: the state, and quotients, with how good their probes are by layer."""
    found = []
    accuracy = model.readers.accuracy if model.readers else {}
    for target in targets_of(model.task):
        image = (
            model.task.group
            if target.name == "state"
            else model.task.group.quotient(target.name).image
        )
        found.append(
            {
                "name": target.name,
                "labels": image.labels,
                "map": target.map.tolist(),
                "accuracy": accuracy.get(target.name),
                "chance": 1 / target.classes,
            }
        )
    return found


def start(model: Session) -> dict[str, list[str]]:
    """A sequence to begin with, on which the model is right if possible, and a source that differs
    from it in its first action: in parity too, where there is one."""
    task, group = model.task, model.task.group
    drawn = task.draw(32, 3, min(task.length, SHOWN, model.longest)).actions.tolist()
    actions = next((one for one in drawn if _right(model, one)), drawn[0])
    allowed = list(range(group.order)) if task.actions is None else list(task.actions)
    others = [a for a in allowed if a != actions[0]] or allowed
    if (parity := group.parity) is not None:
        others.sort(key=lambda a: int(parity[a] == parity[actions[0]]))
    source = [others[0], *actions[1:]]
    labels = group.labels
    return {"actions": [labels[a] for a in actions], "source": [labels[a] for a in source]}


def first_head(model: Session) -> tuple[int, int] | None:
    """The head (layer, head) whose map is shown first. With parity, the one that looks most at odd
    actions on a few sequences: its parity-head score, which is about how often, times the share of
    its attention that they get beyond their number."""
    group = model.task.group
    if model.no_attention is not None:
        return None
    length = min(SHOWN, model.longest)
    spec = AttentionSpec()
    if group.parity is None or length <= spec.first:
        return model.anatomy.layers, 0
    total = torch.zeros(model.anatomy.layers, model.anatomy.heads or 1, dtype=torch.float64)
    for actions in model.task.draw(FEW, 3, length).actions.tolist():
        maps = look(model, actions).attention
        assert maps is not None
        weights = torch.from_numpy(maps[..., -length:])  # [L, H, T, T]
        odd = torch.from_numpy(group.parity[actions] == 1)
        known = odd.cumsum(0) / torch.arange(1, length + 1)  # share of odd actions so far
        beyond = (weights[..., odd].sum(-1) - known * weights.sum(-1))[..., spec.first - 1 :]
        score = head_scores(weights, odd.expand(len(weights), -1), spec.first)
        total += score * beyond.mean(-1).clamp_min(0)
    best = int(total.argmax())
    return best // total.shape[1] + 1, best % total.shape[1]


def _right(model: Session, actions: list[int]) -> bool:
    view = look(model, actions)
    return bool((view.answers.argmax(-1) == view.states).all())


def reading(
    model: Session, view: View, at: int, head: tuple[int, int] | None, maps: bool
) -> dict[str, Any]:
    """One run: what is read in every cell, the answer after action `at`, and attention."""
    targets = targets_of(model.task)
    probes, unembedded = {}, {}
    for target in targets:
        image = target.map.numpy()
        true = image[view.states]
        if target.name in view.probes:
            probes[target.name] = _cells(view.probes[target.name], true)
        if view.unembedding is not None:
            unembedded[target.name] = _cells(_gather(view.unembedding, image), true)
    found: dict[str, Any] = {
        "answers": {
            target.name: _cells(
                _gather(view.answers, target.map.numpy()), target.map.numpy()[view.states]
            )
            for target in targets
        },
        "probe": probes,
        "unembedding": unembedded or None,
        "distribution": _round(view.answers[at]),
        "attention": None,
        "maps": None,
    }
    if view.attention is not None:
        if head is not None:
            found["attention"] = _round(view.attention[head[0] - 1, head[1]])
        if maps and view.attention.size <= MOST_MAP_BYTES:
            small = np.rint(view.attention * 255).astype(np.uint8)
            found["maps"] = base64.b64encode(small.tobytes()).decode()
    return found


def _gather(probabilities: np.ndarray, image: np.ndarray) -> np.ndarray:
    """[..., order] -> the same for the classes that the elements belong to, [..., classes]."""
    classes = int(image.max()) + 1
    if classes == len(image):
        return probabilities
    member = image[:, None] == np.arange(classes)
    return probabilities @ member.astype(probabilities.dtype)


def _cells(probabilities: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    """[..., T, classes] and [T] -> the likeliest class, its probability and that of the truth."""
    said = probabilities.argmax(-1)
    sure = np.take_along_axis(probabilities, said[..., None], -1)[..., 0]
    right = np.broadcast_to(true, said.shape)[..., None]
    truth = np.take_along_axis(probabilities, right, -1)[..., 0]
    return {"said": said.tolist(), "sure": _round(sure), "truth": _round(truth)}


def _round(numbers: np.ndarray) -> Any:
    return np.round(numbers.astype(np.float64), 6).tolist()
