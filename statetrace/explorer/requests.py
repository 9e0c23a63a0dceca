"""Parse a request and compute its answer; a bad one is refused in one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from statetrace.analysis import Analyzer
from statetrace.errors import StatetraceError
from statetrace.explorer.describe import describe_view
from statetrace.explorer.python import as_python
from statetrace.files import parse_json
from statetrace.inspection import Session
from statetrace.inspection.look import view_of
from statetrace.inspection.query import (
    HEAD,
    MOST_PATCHES,
    PATCH,
    Query,
    check_head,
    make_query,
    parse_places,
)
from statetrace.lenses.loading import LoadedModel

LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Request:
    """What the page may send, with checked types; `make_query` checks it against the model.

    Attributes:
        model: 0, or 1 for the second of two models.
        step: of a checkpoint of its run; None for the one that was opened.
        actions, source: labels.
        patches: [layer, first, last] each.
        without: heads to ablate, [layer, head] each.
        at: the action whose answer is sent in full; -1 for the last.
        head: [layer, head] whose attention is sent in full, or None.
        maps: whether to send small pictures of all heads.
    """

    model: int = 0
    step: int | None = None
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
        """Read JSON; refuses unknown fields and wrong types."""
        try:
            values = parse_json(body)
        except ValueError as error:
            raise StatetraceError(f"the request {_quote(body)} is not valid: {error}") from None
        for key in values:
            if key not in KEYS:
                raise StatetraceError(
                    f"the request has an unknown field {_quote(key)}; use {', '.join(KEYS)}"
                )
        head, step = values.get("head"), values.get("step")
        return Request(
            model=_int(values.get("model", 0), "model"),
            step=None if step is None else _int(step, "step"),
            actions=_labels(values.get("actions", []), "actions"),
            source=_labels(values.get("source", []), "source"),
            patches=_places(values.get("patches", []), "patches", PATCH),
            without=_places(values.get("without", []), "without", HEAD),
            instead=_text(values.get("instead", "mean"), "instead"),
            at=_int(values.get("at", -1), "at"),
            head=None if head is None else _places([head], "head", HEAD)[0],
            maps=bool(values.get("maps", False)),
        )


KEYS = tuple(field.name for field in fields(Request))


def respond(sessions: Sequence[Session], request: Request) -> dict[str, Any]:
    """Everything that the page shows of one model for one request."""
    began = time.perf_counter()
    session = _session(sessions, request)
    changes = (request.patches, request.without, request.instead)
    query = make_query(session, request.actions, request.source or None, *changes)
    length = len(query.actions)
    if not -1 <= request.at < length:
        raise StatetraceError(f"there is no action {request.at}; the last one is {length - 1}")
    at = length - 1 if request.at == -1 else request.at
    head = request.head if session.no_attention is None else None
    if head is not None:
        check_head(session, *head)
    base = view_of(session, Query(query.actions, (), (), (), query.instead))
    changed = view_of(session, query) if query.changes else None
    product = session.task.group.product
    return {
        "accuracy": session.probes.accuracy if session.probes else {},
        "states": base.states.tolist(),
        "source_states": [product(query.source[: i + 1]) for i in range(len(query.source))],
        "at": at,
        "base": describe_view(session, base, at, head, request.maps),
        "changed": changed and describe_view(session, changed, at, head, request.maps),
        "python": as_python(session, query, at, head, request.model + 1),
        "notes": _notes(session, query.actions),
        "ms": round(1000 * (time.perf_counter() - began), 1),
    }


def judge(sessions: Sequence[Session], request: Request) -> dict[str, Any]:
    """The verdict on one model, as in verdict.json. Others wait for the model meanwhile."""
    session = _session(sessions, request)
    with session.lock:
        return Analyzer(LoadedModel(session.model, session.task)).verdict().to_dict()


def _session(sessions: Sequence[Session], request: Request) -> Session:
    if not 0 <= request.model < len(sessions):
        raise StatetraceError(f"there is no model {request.model}; use 0 to {len(sessions) - 1}")
    session, step = sessions[request.model], request.step
    if step is None:
        return session
    if session.timeline is None:
        raise StatetraceError(f"'{session.name}' has one checkpoint and no step {step}")
    return session.timeline.at(step)


def _notes(session: Session, actions: tuple[int, ...]) -> list[str]:
    """How this sequence differs from the training data."""
    task, notes = session.task, []
    if len(actions) > task.length:
        trained = f"the {task.length} the model was trained on"
        notes.append(f"{len(actions)} actions are more than {trained}")
    untrained = sorted(set(actions) - set(task.actions or range(task.group.order)))
    if untrained:
        label = task.group.labels[untrained[0]]
        notes.append(f"'{label}' is not among the actions the model was trained on")
    return notes


def _quote(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else json.dumps(value)
    text = text if isinstance(value, bytes) else text.strip('"')
    text = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return f"'{text}'" if len(text) <= LONGEST_QUOTE else f"'{text[:LONGEST_QUOTE]}...'"


def _int(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10**9:
        raise StatetraceError(f"{name} cannot be {_quote(value)}; give a whole number")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise StatetraceError(f"{name} cannot be {_quote(value)}; give text")
    return value[:LONGEST_QUOTE]


def _labels(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        raise StatetraceError(f"{name} cannot be {_quote(value)}; give a list of labels")
    return tuple(label[:LONGEST_QUOTE] for label in value)


def _places(value: Any, name: str, example: dict[str, int]) -> Any:
    if not isinstance(value, list):
        raise StatetraceError(f"{name} cannot be {_quote(value)}; give a list")
    if len(value) > MOST_PATCHES:
        raise StatetraceError(f"{name} has {len(value)} entries; the limit is {MOST_PATCHES}")
    return tuple(parse_places(name, value, example))
