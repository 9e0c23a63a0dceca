"""A view as the library call that reproduces it."""

from __future__ import annotations

import json
from typing import Any

from statetrace.inspection import Session
from statetrace.inspection.query import Query

WIDTH = 72
"""Characters of labels in a line."""


def as_python(
    session: Session, query: Query, at: int, head: tuple[int, int] | None, number: int = 1
) -> str:
    """Runs as it stands, where the model's folder is found; `number` tells two models apart."""
    own = "" if number == 1 else str(number)
    model_name, view = f"model{own}", f"view{own}"
    options = [f"{name}={_text(value)}" for name, value in session.options.items()]
    given: dict[str, Any] = {}
    if query.patches:
        given["source"] = _labels(session, query.source)
        patches = [f"Patch({p.layer}, {p.first}, {p.last})" for p in query.patches]
        given["patches"] = f"[{', '.join(patches)}]"
    if query.heads:
        given["without"] = repr([(site.layer, site.head) for site in query.heads])
        given["instead"] = _text(query.instead)
    patch = "Patch, " if query.patches else ""
    lines = [
        f"from statetrace.explorer import {patch}look, open_model",
        "",
        f"{model_name} = open_model({', '.join([_text(session.name), *options])})",
        f"{view} = look(",
        f"    {model_name},",
        f"    {_labels(session, query.actions)},",
        *(f"    {name}={value}," for name, value in given.items()),
        ")",
        f"print({view}.answer({at}))  # after {at + 1} actions, the most probable state first",
    ]
    if session.probes is not None:
        name = session.probes.targets[-1].name
        lines.append(f"print({view}.probes[{_text(name)}][:, {at}])  # by layer")
    if head is not None and session.no_attention is None:
        told = f"layer {head[0]}, head {head[1]}"
        lines.append(f"print({view}.attention[{head[0] - 1}, {head[1]}])  # {told}")
    return "\n".join(lines) + "\n"


def _labels(session: Session, elements: tuple[int, ...]) -> str:
    """A string of labels, over several lines where it is long."""
    labels = [session.task.group.labels[element] for element in elements]
    each = max(1, WIDTH // (len(max(labels, key=len)) + 1))
    lines = [",".join(labels[i : i + each]) for i in range(0, len(labels), each)]
    return "\n    ".join([*(_text(f"{line},") for line in lines[:-1]), _text(lines[-1])])


def _text(value: Any) -> str:
    """As Python has it, with double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
