"""All lenses by name. To add a built-in one, write a file, its test, and a line here."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from statetrace import plugins
from statetrace.config.checks import known
from statetrace.errors import StatetraceError
from statetrace.lenses.attention import AttentionSpec, attention
from statetrace.lenses.depth import DepthSpec, depth, stacked_depth
from statetrace.lenses.dynamics import DynamicsSpec, dynamics
from statetrace.lenses.generalization import (
    GeneralizationSpec,
    generalization,
    stacked_generalization,
)
from statetrace.lenses.geometry import GeometrySpec, geometry
from statetrace.lenses.lens import Lens
from statetrace.lenses.patching import PatchingSpec, patching
from statetrace.lenses.probing import ProbingSpec, probing
from statetrace.lenses.result import ON_REQUEST
from statetrace.lenses.subspace import SubspaceSpec, subspace

BUILTIN = {
    "generalization": Lens(
        GeneralizationSpec, generalization, whole=True, stacked=stacked_generalization
    ),
    "probing": Lens(ProbingSpec, probing),
    "patching": Lens(PatchingSpec, patching),
    "depth": Lens(DepthSpec, depth, stacked=stacked_depth),
    "attention": Lens(AttentionSpec, attention),
    "geometry": Lens(GeometrySpec, geometry),
    "dynamics": Lens(DynamicsSpec, dynamics, reads_log=True, whole=True),
    "subspace": Lens(SubspaceSpec, subspace),
}

LENSES: Mapping[str, Lens] = plugins.Registry("lens", BUILTIN)
"""The built-in lenses, then registered ones."""


def chosen(names: str | None) -> list[str]:
    """Lens names from "patching,probing"; for None all except those on request."""
    if names is None:
        return [name for name in LENSES if name not in ON_REQUEST]
    listed = [name.strip() for name in names.split(",") if name.strip()]
    for name in listed:
        if name not in LENSES:
            known(name, LENSES, "lens")
        _ = LENSES[name]  # refuses a broken plug-in
    if not listed:
        raise StatetraceError(f"'{names}' names no lens; use one or more of {', '.join(LENSES)}")
    return [name for name in LENSES if name in listed]


def make_spec(lens: str, settings: Mapping[str, Any]) -> Any:
    """A lens's spec from its settings, as Python values or spelled as on the command line
    (`{"pairs": "50"}`); unknown names and bad values are quoted."""
    kind = LENSES[lens].spec
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values = {}
    for name, value in settings.items():
        known(name, fields, "setting", f"the lens '{lens}'")
        values[name] = _parse(f"{lens}.{name}", _spelled(value), hints[name])
    return kind(**values)


def _spelled(value: Any) -> str:
    """A setting as the command line spells it."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(_spelled(part) for part in value)
    return str(getattr(value, "name", value))


def _parse(name: str, word: str, hint: Any) -> Any:
    """A value of the hinted type from its spelling on the command line."""
    accepted = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if word.lower() == "none" and types.NoneType in accepted:
        return None
    for kind in accepted:
        try:
            return _as(word, kind)
        except StatetraceError:
            raise  # its message already names the problem
        except ValueError:
            continue
    raise StatetraceError(f"{name} cannot be '{word}'; it is {_describe(hint)}")


def _as(word: str, kind: Any) -> Any:
    if kind is bool:
        if word.lower() not in _SWITCH:
            raise ValueError(word)
        return _SWITCH[word.lower()]
    if kind in (int, float, str):
        return kind(word)
    if hasattr(kind, "named"):
        return kind.named(word)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return tuple(_as(part.strip(), inner) for part in word.split(",") if part.strip())
    raise ValueError(word)


_SWITCH = {"true": True, "yes": True, "false": False, "no": False}


def _describe(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if isinstance(hint, types.UnionType):
        return " or ".join(_describe(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"{_describe(typing.get_args(hint)[0])}, or several separated by commas"
    return words.get(hint, "none")
