"""A view as the library call that reproduces it."""

from __future__ import annotations

import json
from typing import Any

from statetrace.inspection.query import Query
from statetrace.inspection.session import Session

WIDTH = 72
"""Characters of labels in a line."""


def as_python(
    model: Session, asked: Query, at: int, head: tuple[int, int] | None, number: int = 1
) -> str:
    """Runs as it stands, where the model's folder is found; `number` tells two models apart."""
    own = "" if number == 1 else str(number)
    model_name, view = f"model{own}", f"view{own}"
    opened = ", ".join([_text(model.name), *(f"{k}={_text(v)}" for k, v in model.asked.items())])
    given: dict[str, Any] = {}
    if asked.patches:
        given["source"] = _labels(model, asked.source)
        patches = [f"Patch({p.layer}, {p.first}, {p.last})" for p in asked.patches]
        given["patches"] = f"[{', '.join(patches)}]"
    if asked.heads:
        given["without"] = repr([(site.layer, site.head) for site in asked.heads])
        given["instead"] = _text(asked.instead)
    patch = "Patch, " if asked.patches else ""
    lines = [
        f"from statetrace.explorer import {patch}look, open_model",
        "",
        f"{model_name} = open_model({opened})",
        f"{view} = look(",
        f"    {model_name},",
        f"    {_labels(model, asked.actions)},",
        *(f"    {name}={value}," for name, value in given.items()),
        ")",
        f"print({view}.answer({at}))  # after {at + 1} actions, the most probable state first",
    ]
    if model.readers is not None:
        name = model.readers.targets[-1].name
        lines.append(f"print({view}.probes[{_text(name)}][:, {at}])  # by layer")
    if head is not None and model.no_attention is None:
        told = f"layer {head[0]}, head {head[1]}"
        lines.append(f"print({view}.attention[{head[0] - 1}, {head[1]}])  # {told}")
    return "\n".join(lines) + "\n"


def _labels(model: Session, elements: tuple[int, ...]) -> str:
    """A string of labels, over several lines where it is long."""
    labels = [model.task.group.labels[element] for element in elements]
    each = max(1, WIDTH // (len(max(labels, key=len)) + 1))
    lines = [",".join(labels[i : i + each]) for i in range(0, len(labels), each)]
    return "\n    ".join([*(_text(f"{line},") for line in lines[:-1]), _text(lines[-1])])


def _text(value: Any) -> str:
    """As Python has it, with double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
