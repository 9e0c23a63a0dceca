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
    """A script that runs where the model's folder is found; `number` is 2 for the second model."""
    suffix = "" if number == 1 else str(number)
    model, view = f"model{suffix}", f"view{suffix}"
    options = [f"{name}={_text(value)}" for name, value in session.options.items()]
    changes: dict[str, Any] = {}
    if query.patches:
        changes["source"] = _labels(session, query.source)
        changes["patches"] = [(p.layer, p.first, p.last) for p in query.patches]
    if query.heads:
        changes["without"] = [(site.layer, site.head) for site in query.heads]
        changes["instead"] = _text(query.instead)
    lines = [
        "import statetrace as st",
        "",
        f"{model} = st.load({', '.join([_text(session.name), *options])})",
        f"{view} = {model}.look(",
        f"    {_labels(session, query.actions)},",
        *(f"    {name}={value}," for name, value in changes.items()),
        ")",
        f"print({view}.answer({at}))  # after {at + 1} actions, the most probable state first",
    ]
    if session.probes is not None:
        target = session.probes.targets[-1].name
        lines.append(f"print({view}.probes[{_text(target)}][:, {at}])  # from layer 0 on")
    if head is not None and session.no_attention is None:
        layer, h = head
        lines.append(f"print({view}.attention[{layer - 1}, {h}])  # layer {layer}, head {h}")
    return "\n".join(lines) + "\n"


def _labels(session: Session, elements: tuple[int, ...]) -> str:
    """A string of labels, over several lines where it is long."""
    labels = [session.task.group.labels[element] for element in elements]
    each = max(1, WIDTH // (len(max(labels, key=len)) + 1))
    lines = [",".join(labels[i : i + each]) for i in range(0, len(labels), each)]
    return "\n    ".join([*(_text(f"{line},") for line in lines[:-1]), _text(lines[-1])])


def _text(value: Any) -> str:
    """A Python literal, strings with double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
