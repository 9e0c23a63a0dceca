"""Checks of settings; each error quotes the bad value and says what would work."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from numbers import Integral
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError

SEEDS = 2**20
"""Seeds are combined with step numbers into one 64-bit seed, so they must leave room for those."""


def need(holds: bool, sentence: str) -> None:
    if not holds:
        raise StatetraceError(sentence)


def one_of(name: str, value: str, accepted: Collection[str]) -> None:
    need(value in accepted, f"{name} '{value}' is unknown; {hint(value, accepted)}")


def hint(name: str, accepted: Iterable[str]) -> str:
    """What to use instead of an unknown name: the closest accepted one, or any of them."""
    names = list(accepted)
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"use one of {', '.join(names)}"


def no_folder(name: str) -> str:
    """How an error about a missing folder begins, with the name of a similar one nearby."""
    parents = dict.fromkeys((Path(name).parent, Path("runs")))
    folders = [str(path) for parent in parents for path in parent.glob("[!.]*/")]
    close = difflib.get_close_matches(name.rstrip("/"), folders, n=1)
    similar = f" (did you mean '{close[0]}'?)" if close else ""
    return f"there is no folder '{name}'{similar}"


def check_not_file(name: str) -> None:
    """Refuse a file, such as model.safetensors, where its folder is needed."""
    path = Path(name).expanduser()
    need(not path.is_file(), f"'{name}' is a file; give its folder, '{path.parent}'")


def check_device(name: str) -> None:
    """Of a device only the name; `models.device.pick_device` asks whether it is there."""
    need(
        re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name) is not None,
        f"device '{name}' is unknown; use auto, cpu, cuda, a specific GPU such as cuda:1, or mps",
    )


def at_least(name: str, value: float | None, least: float) -> None:
    need(value is None or value >= least, f"{name} {value} is too small; use {least} or more")


def is_whole(value: Any) -> bool:
    """Whether this is an integer of Python or numpy; a bool is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`, as an int."""
    need(is_whole(value), f"{name} must be a whole number, not {value!r}")
    at_least(name, value, least)
    return int(value)


def as_path(name: str, value: Any) -> Path:
    need(isinstance(value, str | Path), f"{name} must be text or a Path, not {value!r}")
    return Path(value)


def check_seed(name: str, value: int | None) -> None:
    need(
        value is None or (is_whole(value) and 0 <= value < SEEDS),
        f"{name} {value} is not a valid seed; use a whole number from 0 to {SEEDS - 1:,}",
    )


def known(name: str, accepted: Iterable[str], what: str, where: str | None = None) -> None:
    """Refuse a name that is not among the accepted ones, and suggest the closest."""
    names = list(accepted)
    if name in names:
        return
    place = "" if where is None else f" in {where}"
    raise StatetraceError(f"unknown {what} '{name}'{place}; {hint(name, names)}")
