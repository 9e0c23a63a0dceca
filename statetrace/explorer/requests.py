"""From the bytes of a request to a question that makes sense; anything else gets one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.explorer.describe import reading
from statetrace.explorer.python import as_python
from statetrace.inspection.look import look
from statetrace.inspection.query import MOST_PATCHES, Patch, check_head, question
from statetrace.inspection.session import Session

KEYS = ("model", "actions", "source", "patches", "without", "instead", "at", "head", "maps")
LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Request:
    """What the page may ask, of the right types; whether it makes sense, the model decides.

    Attributes:
        model: 0 or, of two models, 1.
        actions, source: labels.
        patches: [layer, first, last] each.
        without: heads to ablate, [layer, head] each.
        at: the action after which the answer is wanted in full; -1 for the last.
        head: [layer, head] whose attention is wanted in full, or None.
        maps: whether small pictures of all heads are wanted.
    """

    model: int = 0
    actions: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    patches: tuple[tuple[int, int, int], ...] = ()
    without: tuple[tuple[int, int], ...] = ()
    instead: str = "mean"
    at: int = -1
    head: tuple[int, int] | None = None
    maps: bool = False

    @staticmethod
    def of(body: bytes) -> Request:
        """Read JSON, refusing what is not listed above."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise StatetraceError(f"the request {_quote(body)} is no JSON") from None
        if not isinstance(found, dict):
            raise StatetraceError(f"the request {_quote(found)} is no JSON object")
        for key in found:
            if key not in KEYS:
                raise StatetraceError(
                    f"the request has an unknown field {_quote(key)}; there are {', '.join(KEYS)}"
                )
        at, head = found.get("at", -1), found.get("head")
        return Request(
            model=_int(found.get("model", 0), "model"),
            actions=_labels(found.get("actions", []), "actions"),
            source=_labels(found.get("source", []), "source"),
            patches=_numbers(found.get("patches", []), "patches", 3),
            without=_numbers(found.get("without", []), "without", 2),
            instead=_text(found.get("instead", "mean"), "instead"),
            at=_int(at, "at"),
            head=None if head is None else _numbers([head], "head", 2)[0],
            maps=bool(found.get("maps", False)),
        )


def answer(models: Sequence[Session], asked: Request) -> dict[str, Any]:
    """Everything the page shows of one model for one request."""
    begin = time.perf_counter()
    if not 0 <= asked.model < len(models):
        raise StatetraceError(f"there is no model {asked.model}: there are {len(models)}, from 0")
    model = models[asked.model]
    patches = [Patch(*patch) for patch in asked.patches]
    source = asked.source or None
    wanted = question(model, asked.actions, source, patches, asked.without, asked.instead)
    length = len(wanted.actions)
    if not -1 <= asked.at < length:
        raise StatetraceError(f"there is no action {asked.at}: the last one is {length - 1}")
    at = length - 1 if asked.at == -1 else asked.at
    head = asked.head if model.no_attention is None else None
    if head is not None:
        check_head(model, *head)
    plain = look(model, wanted.actions)
    changed = None
    if wanted.changes:
        without = [(site.layer, site.head or 0) for site in wanted.heads]
        changed = look(
            model,
            wanted.actions,
            source=wanted.source or None,
            patches=wanted.patches,
            without=without,
            instead=wanted.instead,
        )
    states = model.task.group
    true = []
    for i in range(len(wanted.source)):
        true.append(states.product(list(wanted.source[: i + 1])))
    return {
        "states": plain.states.tolist(),
        "source_states": true,
        "at": at,
        "base": reading(model, plain, at, head, asked.maps),
        "changed": None if changed is None else reading(model, changed, at, head, asked.maps),
        "python": as_python(model, wanted, at, head, asked.model + 1),
        "notes": _notes(model, wanted.actions),
        "ms": round(1000 * (time.perf_counter() - begin), 1),
    }


def _notes(model: Session, actions: tuple[int, ...]) -> list[str]:
    """What a person should know about this sequence."""
    task, notes = model.task, []
    if len(actions) > task.length:
        notes.append(
            f"{len(actions)} actions are more than the {task.length} the model was trained on"
        )
    odd = sorted(set(actions) - set(range(task.group.order) if not task.actions else task.actions))
    if odd:
        label = task.group.labels[odd[0]]
        notes.append(f"'{label}' is not among the actions the model was trained on")
    return notes


def _quote(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else json.dumps(value)
    text = text if isinstance(value, bytes) else text.strip('"')
    return f"'{text}'" if len(text) <= LONGEST_QUOTE else f"'{text[:LONGEST_QUOTE]}...'"


def _int(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10**6:
        raise StatetraceError(f"{name} cannot be {_quote(value)}; it is a whole number")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise StatetraceError(f"{name} cannot be {_quote(value)}; it is text")
    return value[:LONGEST_QUOTE]


def _labels(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise StatetraceError(f"{name} cannot be {_quote(value)}; it is a list of labels")
    return tuple(word[:LONGEST_QUOTE] for word in value)


def _numbers(value: Any, name: str, size: int) -> Any:
    if not isinstance(value, list):
        raise StatetraceError(f"{name} cannot be {_quote(value)}; it is a list")
    if len(value) > MOST_PATCHES:
        raise StatetraceError(f"{name} has {len(value)} entries; give up to {MOST_PATCHES}")
    found = []
    for item in value:
        if not isinstance(item, list) or len(item) != size:
            raise StatetraceError(
                f"{name} cannot hold {_quote(item)}; each is a list of {size} numbers"
            )
        found.append(tuple(_int(number, name) for number in item))
    return tuple(found)
