"""All lenses by name. To add a built-in one, write a file, its test, its settings in specs.py, and
a line here. Needs no torch, so that lenses can be listed and shown without it."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from statetrace import plugins
from statetrace.config.checks import known
from statetrace.errors import StatetraceError
from statetrace.lenses.lens import Lens
from statetrace.lenses.result import LensResult
from statetrace.lenses.specs import (
    AttentionSpec,
    DepthSpec,
    DynamicsSpec,
    GeneralizationSpec,
    GeometrySpec,
    PatchingSpec,
    ProbingSpec,
    SubspaceSpec,
)


def _later(function: str) -> Callable[..., Any]:
    """A "file:function" of this folder, imported when it is first called: most need torch."""
    return lambda *arguments: plugins.import_object(f"statetrace.lenses.{function}")(*arguments)


BUILTIN = {
    "generalization": Lens(
        GeneralizationSpec,
        _later("generalization:generalization"),
        whole=True,
        stacked=_later("generalization:stacked_generalization"),
    ),
    "probing": Lens(ProbingSpec, _later("probing:probing")),
    "patching": Lens(PatchingSpec, _later("patching:patching")),
    "depth": Lens(DepthSpec, _later("depth:depth"), stacked=_later("depth:stacked_depth")),
    "attention": Lens(AttentionSpec, _later("attention:attention")),
    "geometry": Lens(GeometrySpec, _later("geometry:geometry")),
    "dynamics": Lens(DynamicsSpec, _later("dynamics:dynamics"), reads_log=True, whole=True),
    "subspace": Lens(SubspaceSpec, _later("subspace:subspace")),
}
"""In display order."""

LENSES: Mapping[str, Lens] = plugins.Registry("lens", BUILTIN)
"""The built-in lenses, then registered ones."""

WHOLE = frozenset(name for name, lens in BUILTIN.items() if lens.whole)
"""Lenses that always cover all lengths, even if the others are restricted to shorter ones."""

ON_REQUEST = frozenset({"subspace"})
"""Lenses that run only where they are named."""


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


def registered_lens(name: str) -> Lens | None:
    """The plug-in of that name; None if it is missing or (with a warning) broken."""
    try:
        return plugins.find("lens", name)
    except StatetraceError as error:
        plugins.warn(str(error))
        return None


def is_builtin(name: str) -> bool:
    return name in BUILTIN


def check_plugin(name: str, lens: Any) -> Lens:
    """A Lens whose failures are sentences that name it."""
    if not isinstance(lens, Lens):
        raise StatetraceError(f"it is {type(lens).__name__!r}, not a Lens")
    if not (isinstance(lens.spec, type) and dataclasses.is_dataclass(lens.spec)):
        raise StatetraceError(f"its spec {lens.spec!r} is not a dataclass")
    if not name.replace("-", "_").isidentifier():
        raise StatetraceError("its name should consist of letters, digits and hyphens")

    measure = plugins.guarded("lens", name, lens.look)

    def look(*arguments: Any, **settings: Any) -> LensResult:
        result = measure(*arguments, **settings)
        if not isinstance(result, LensResult) or result.lens != name:
            raise StatetraceError(
                f"the lens '{name}' returned {result!r:.60}, not a LensResult with lens = '{name}'"
            )
        return result

    shown: dict[str, Any] = {
        part: plugins.guarded("lens", name, function)
        for part in ("headline", "figure")
        if (function := getattr(lens, part)) is not None
    }
    return dataclasses.replace(lens, look=look, **shown)
