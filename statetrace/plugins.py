"""Plug-ins: groups, lenses, model families, algorithms and objectives from outside the package.

A plug-in is registered by a call, `register("lens", "drift", lens)`, or by an entry point of an
installed package:

    [project.entry-points."statetrace.lens"]
    drift = "my_package:lens"

Cost: entry points are listed on the first look-up of a name that is not built in, and imported when
they are used. A plug-in that clashes or cannot be loaded is left out with one PluginWarning; only a
look-up of its own name raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from statetrace.errors import StatetraceError

OWNERS = {
    "group": "statetrace.groups.resolve",
    "lens": "statetrace.lenses.registry",
    "family": "statetrace.models.families",
    "algorithm": "statetrace.mechanisms.algorithms",
    "objective": "statetrace.training.objectives",
}
"""Kind -> the module with `is_builtin(name)` and `check_plugin(name, thing)`, which returns the
thing in the form that the package uses or raises a StatetraceError. Imported on first use."""


T = TypeVar("T")


class PluginWarning(UserWarning):
    """A plug-in is left out; the message names it and gives the reason."""


@dataclass
class _Plugin:
    """One plug-in; `thing` is set when it is loaded, `problem` if loading fails."""

    kind: str
    name: str
    source: str
    entry: EntryPoint | None = None
    thing: Any = None
    problem: str | None = None

    @property
    def about(self) -> str:
        return f"the {self.kind} {self.name!r} of {self.source}"

    def load(self) -> Any:
        if self.problem is not None:
            raise StatetraceError(self.problem)
        if self.thing is None:
            try:
                assert self.entry is not None
                self.thing = _owner(self.kind).check_plugin(self.name, self.entry.load())
            except Exception as error:  # a plug-in may raise anything
                reason = str(error) if isinstance(error, StatetraceError) else _quoted(error)
                self.problem = f"{self.about} cannot be used: {reason}"
                raise StatetraceError(self.problem) from error
        return self.thing


_registered: dict[tuple[str, str], _Plugin] = {}
_warned: set[str] = set()


def register(kind: str, name: str, thing: Any, replace: bool = False) -> None:
    """Add a group, lens, family, algorithm or objective under a name of its own.

    Examples:
        >>> import statetrace as st
        >>> klein = st.Group.from_permutations(["2143", "3412"], name="V4")
        >>> st.register("group", "V4", klein)
        >>> st.group("V4xZ3").order
        12

    Args:
        replace: accept a name that an earlier call has registered.
    """
    check_kind(kind)
    if not isinstance(name, str):
        raise StatetraceError(f"the name of a {kind} must be text, not {name!r}")
    plugin = _Plugin(kind, name, "register()")
    taken = _taken(plugin, ignore_calls=replace)
    if taken is not None:
        raise StatetraceError(taken)
    try:
        plugin.thing = _owner(kind).check_plugin(name, thing)
    except StatetraceError as error:
        raise StatetraceError(f"{plugin.about} cannot be used: {error}") from None
    _registered[kind, name] = plugin


def unregister(kind: str, name: str) -> None:
    """Undo a call of `register`."""
    _registered.pop((check_kind(kind), name), None)


def names(kind: str) -> list[str]:
    """The plug-ins of a kind that do not clash; nothing is imported."""
    return [plugin.name for plugin in _plugins(kind)]


def find(kind: str, name: str) -> Any | None:
    """The plug-in of that name, None if there is none; raises if it is broken or clashes."""
    registered = _registered.get((kind, name))
    if registered is not None:
        return registered.load()
    candidates = _listed(kind).get(name, [])
    if not candidates:
        return None
    taken = _taken(candidates[0])
    if taken is not None:
        raise StatetraceError(taken)
    return candidates[0].load()


def loaded(kind: str) -> dict[str, Any]:
    """All plug-ins of a kind by name; broken ones are left out with a warning."""
    things = {}
    for plugin in _plugins(kind):
        try:
            things[plugin.name] = plugin.load()
        except StatetraceError as error:
            warn(str(error))
    return things


def is_broken(kind: str, name: str) -> bool:
    """Whether loading a plug-in of that name was tried and failed."""
    return any(plugin.problem is not None for plugin in _listed(kind).get(name, []))


class Registry(Mapping[str, T]):
    """The built-in objects of a kind and its plug-ins, by name. Iteration loads all plug-ins and
    leaves out broken ones; only a look-up of their names raises."""

    def __init__(self, kind: str, builtin: Mapping[str, T]) -> None:
        self._kind, self._builtin = kind, builtin

    def __getitem__(self, name: str) -> T:
        if name in self._builtin:
            return self._builtin[name]
        plugin = find(self._kind, name)
        if plugin is None:
            raise KeyError(name)
        thing: T = plugin
        return thing

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in names(self._kind)

    def __iter__(self) -> Iterator[str]:
        yield from self._builtin
        yield from loaded(self._kind)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def warn(problem: str) -> None:
    """Report a problem once per process."""
    if problem not in _warned:
        _warned.add(problem)
        warnings.warn(f"{problem}; it is left out", PluginWarning, stacklevel=3)


def check_kind(kind: str) -> str:
    if kind not in OWNERS:
        raise StatetraceError(f"{kind!r} is not a kind of plug-in; use {', '.join(OWNERS)}")
    return kind


def guarded(kind: str, name: str, function: Callable[..., T]) -> Callable[..., T]:
    """Wrap a plug-in's function: any error becomes one sentence that names the plug-in."""

    def call(*arguments: Any, **settings: Any) -> T:
        try:
            return function(*arguments, **settings)
        except StatetraceError:
            raise
        except Exception as error:
            raise StatetraceError(f"the {kind} {name!r} failed: {_quoted(error)}") from error

    return call


def import_object(spec: str) -> Any:
    """The object that "module:name" refers to."""
    module, _, name = spec.partition(":")
    thing = import_module(module)
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def _plugins(kind: str) -> Iterator[_Plugin]:
    yield from (plugin for (of, _), plugin in list(_registered.items()) if of == kind)
    for name, candidates in _listed(kind).items():
        if (kind, name) not in _registered:
            taken = _taken(candidates[0])
            if taken is None:
                yield candidates[0]
            else:
                warn(taken)


def _taken(plugin: _Plugin, ignore_calls: bool = False) -> str | None:
    """Why the name of a plug-in is not free, in one sentence that names both sides."""
    kind, name = plugin.kind, plugin.name
    other = ""
    if _owner(kind).is_builtin(name):
        other = "statetrace itself"
    elif (kind, name) in _registered and _registered[kind, name] is not plugin and not ignore_calls:
        other = _registered[kind, name].source
    else:
        others = [one for one in _listed(kind).get(name, []) if one is not plugin]
        if others and not (plugin.entry is None and ignore_calls):
            other = others[0].source
    if not other:
        return None
    hint = "; replace=True replaces it" if other == plugin.source else ""
    return f"{plugin.about} clashes with the {kind} {name!r} of {other}; choose another name{hint}"


@cache
def _listed(kind: str) -> dict[str, list[_Plugin]]:
    """Name -> the entry points that claim it; more than one is a clash."""
    listed: dict[str, list[_Plugin]] = {}
    for entry in entry_points(group=f"statetrace.{check_kind(kind)}"):
        owner = f"the distribution '{entry.dist.name}'" if entry.dist else "an unknown distribution"
        source = f"{owner} (entry point '{entry.name} = {entry.value}')"
        others = listed.setdefault(entry.name, [])
        if source not in [other.source for other in others]:  # one folder listed twice in sys.path
            others.append(_Plugin(kind, entry.name, source, entry))
    return listed


def _owner(kind: str) -> Any:
    return import_module(OWNERS[kind])


def _quoted(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
