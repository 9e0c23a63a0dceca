"""Resolve a group specification; recipes, the command line and Python all use `group`.

| spec            | what it stands for                                                           |
|-----------------|------------------------------------------------------------------------------|
| "S5", "A4xZ5"   | a named group; see families.py                                               |
| "Q8", "Q8xZ2"   | a registered group (plugins.py), alone or as a factor                        |
| "my_group.json" | a group file; see files.py                                                   |
| "module:name"   | a Group in a module, or a function without arguments that returns one        |
| a Group         | itself                                                                       |

A run on a group without a built-in name keeps its table in RUN/group.json, so that the folder can
be opened where the file, the module or the plug-in is missing.
"""

import os
import sys
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.groups.cayley import Group
from statetrace.groups.construct import MAX_ORDER
from statetrace.groups.families import direct_product, is_named, named_group
from statetrace.groups.notation import check_notation

GROUP_FILE = "group.json"
LONGEST = 200
"""Characters of a name that joins registered groups."""

GroupSpec = str | os.PathLike[str] | Group


def group(spec: GroupSpec, notation: str = "moves") -> Group:
    """The group specified by a name, a file, "module:name" or a Group.

    `notation` (see notation.py) says how the one-line labels of the named S_n and A_n are read,
    alone or in a product; a group of your own keeps its notation.

    Examples:
        >>> group("S3").order
        6
    """
    check_notation(notation)
    if isinstance(spec, Group):
        return spec
    if not isinstance(spec, str | os.PathLike):
        raise StatetraceError(
            f"group {spec!r} is not a group: use a name such as 'S3', a .json file, 'module:name' "
            "or a Group"
        )
    name = os.fspath(spec)
    if name.endswith(".json"):
        return Group.load(name)
    if ":" in name:
        return _imported(name)
    factors = _factors(name, notation)
    if factors is None:
        registered = plugins.names("group")
        also = f", {', '.join(registered)}" if registered else ""
        raise StatetraceError(
            f"unknown group {name!r}; use Sn, An, Zn or Dn with n at least 1{also}, or several of "
            "them joined by 'x', for example 'S5', 'A5', 'Z12', 'D6' or 'A4xZ5'; or a .json file, "
            "or 'module:name'"
        )
    return reduce(_product, factors)


def group_name(spec: GroupSpec) -> str:
    """The group's entry in a recipe or run.json: the spec, or the name of a Group."""
    if not isinstance(spec, Group):
        return os.fspath(spec)
    if is_named(spec.name) and named_group(spec.name, spec.notation) != spec:
        raise StatetraceError(
            f"the group {spec.name!r} is not the {spec.name} that statetrace knows; give it "
            "another name"
        )
    return spec.name


def stored_group(folder: Path, spec: GroupSpec, notation: str = "moves") -> Group:
    """The group of a run folder: RUN/group.json, unless the spec is a built-in name."""
    file = folder / GROUP_FILE
    if isinstance(spec, str) and ":" in spec and not file.is_file():
        raise StatetraceError(
            f"'{file}' is missing, and opening a folder does not import its group {spec!r}; "
            "restore the file"
        )
    builtin = isinstance(spec, str) and is_named(spec)
    return group(spec, notation) if builtin or not file.is_file() else Group.load(file)


def store_group(folder: Path, states: Group) -> None:
    """Write RUN/group.json unless the group has a built-in name; refuse another group's folder."""
    check_stored(folder, states)
    if not is_named(states.name) or named_group(states.name, states.notation) != states:
        states.save(folder / GROUP_FILE)


def check_stored(folder: Path, states: Group) -> None:
    """Refuse a folder that holds another group."""
    file = folder / GROUP_FILE
    if file.is_file() and Group.load(file) != states:
        raise StatetraceError(
            f"'{file}' holds a different group than {states.name!r}; use the same group, or "
            "another folder"
        )


def is_builtin(name: str) -> bool:
    return is_named(name)


def check_plugin(name: str, thing: Any) -> Group:
    """A Group, or a function that returns one; called once."""
    if (
        not name
        or not name.isprintable()
        or any(mark in name for mark in " ,:/")
        or (name.endswith(".json"))
    ):
        raise StatetraceError("its name should have no spaces, commas, colons and slashes")
    states = thing() if callable(thing) else thing
    if not isinstance(states, Group):
        raise StatetraceError(
            f"it is {type(states).__name__!r}, not a Group or a function that returns one"
        )
    return states


def _imported(spec: str) -> Group:
    """From a module that can be imported, or that is in the current folder."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        return check_plugin(spec.replace(":", "."), plugins.import_object(spec))
    except StatetraceError as error:
        raise StatetraceError(f"the group {spec!r} cannot be used: {error}") from None
    except Exception as error:  # importing runs code that may raise anything
        raise StatetraceError(
            f"the group {spec!r} cannot be imported ({type(error).__name__}: {error}); use "
            "'module:name', where name is a Group or a function that returns one"
        ) from error
    finally:
        sys.path.remove(here)


def _factors(name: str, notation: str) -> list[Group] | None:
    """The factors of a product of named and registered groups, whose names may contain an x."""

    def known(part: str) -> Group | None:
        return named_group(part, notation) if is_named(part) else plugins.find("group", part)

    if (whole := known(name)) is not None:
        return [whole]
    if len(name) > LONGEST:
        return None
    parts = _split(name, frozenset(plugins.names("group"))) or ()
    return [factor for part in parts if (factor := known(part)) is not None] or None


@lru_cache(maxsize=1024)
def _split(name: str, registered: frozenset[str]) -> tuple[str, ...] | None:
    """A name as names of groups joined by x, the first of them as short as possible; None if it is
    not one."""
    if is_named(name) or name in registered:
        return (name,)
    for at, letter in enumerate(name):
        first, rest = name[:at], name[at + 1 :]
        if letter in "xX" and first and rest and (is_named(first) or first in registered):
            parts = _split(rest, registered)
            if parts is not None:
                return (first, *parts)
    return None


def _product(left: Group, right: Group) -> Group:
    if left.order * right.order > MAX_ORDER:
        raise StatetraceError(
            f"the product of {left.name} and {right.name} is too large; up to {MAX_ORDER} elements "
            "are accepted"
        )
    return direct_product(left, right)
