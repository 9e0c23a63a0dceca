"""Claims: of all the workers that see a study folder, one at a time works on a cell.

A claim is a file NAME.1 that is created whole and only if it is not there (a hard link, which is
atomic on network file systems too). It is never removed. When its owner is done it says so in it;
when its owner is dead, another worker creates NAME.2, and again only one can. Nothing is ever taken
away from anyone, so there is no moment at which two workers could both believe to hold the latest
number; an owner that was thought dead finds the later number and stops.

An owner on the same machine is dead when its process is; elsewhere when its file was not touched
for STALE seconds, both times read off the file system's own clock.

Cost: three file operations per claim, and one every BEAT seconds while it is held.
Caveat: the file system must have hard links.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from statetrace.runs import write_json

BEAT = 10.0
"""Seconds between signs of life."""

STALE = 120.0
"""Seconds without one after which an owner on another machine counts as dead."""


@dataclass(frozen=True)
class Owner:
    """A process, told apart from later ones with the same number."""

    host: str
    machine: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @staticmethod
    def me() -> Owner:
        pid = os.getpid()
        return Owner(socket.gethostname(), _machine(), pid, _started(pid) or "")

    def is_here(self) -> bool:
        return self.machine == _machine()

    def lives(self) -> bool:
        """Only for an owner that is here."""
        return _started(self.pid) == self.started


@dataclass(frozen=True)
class Held:
    """The latest claim on a cell, as anyone may read it."""

    number: int
    owner: Owner
    released: bool
    file: Path

    def is_open(self) -> bool:
        """Whether the cell may be claimed: its owner is done or dead."""
        if self.released:
            return True
        if self.owner.is_here():
            return not self.owner.lives()
        try:
            return _clock(self.file.parent) - self.file.stat().st_mtime > STALE
        except FileNotFoundError:
            return False


def latest(folder: Path, cell: str) -> Held | None:
    """The claim with the highest number, or None where there was never one."""
    number, found = 0, None
    while (file := folder / f"{cell}.{number + 1}").exists():
        number, found = number + 1, file
    if found is None:
        return None
    return Held(number, *_read(found), found)


def _read(file: Path) -> tuple[Owner, bool]:
    """Whose claim it is, and whether it is released; a damaged one is that of someone elsewhere, of
    whom there will be no further sign."""
    try:
        about: dict[str, Any] = json.loads(file.read_text())
        return Owner(**about["owner"]), bool(about["released"])
    except (ValueError, KeyError, TypeError):
        return Owner("a machine its damaged claim does not name", "", 0, ""), False


class Lease:
    """A cell that is ours as long as the `with` block lasts and `lost` is False.

    Attributes:
        before: the owner that died over it, if one did.
        lost: set when another worker thought us dead and took over; nothing may be written then.
    """

    def __init__(self, file: Path, owner: Owner, number: int, before: Owner | None) -> None:
        self._file, self.owner, self._number, self.before = file, owner, number, before
        self._next = file.with_name(f"{file.name.rsplit('.', 1)[0]}.{number + 1}")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

        self.lost = False

    def is_ours(self) -> bool:
        """Looks; `lost` is how it was at the last sign of life, which costs nothing to ask."""
        self.lost = self.lost or self._next.exists()
        return not self.lost

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            # a network file system may be away for a while
            with contextlib.suppress(OSError):
                os.utime(self._file)
                self.is_ours()

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        write_json(self._file, _record(self.owner, released=True))


def take(folder: Path, cell: str) -> Lease | None:
    """Take the lease of a cell, unless someone has it."""
    held = latest(folder, cell)
    if held is not None and not held.is_open():
        return None
    number = 1 if held is None else held.number + 1
    owner, file = Owner.me(), folder / f"{cell}.{number}"
    draft = folder / f".{cell}.{uuid.uuid4().hex}"
    draft.write_text(json.dumps(_record(owner, released=False)))
    try:
        os.link(draft, file)
    except FileExistsError:
        return None
    finally:
        draft.unlink()
    before = held.owner if held is not None and not held.released else None
    return Lease(file, owner, number, before)


def _record(owner: Owner, released: bool) -> dict[str, Any]:
    return {"owner": vars(owner), "released": released}


@cache
def _machine() -> str:
    """This start of this machine, and the process numbers we share with others on it."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    space = Path("/proc/self/ns/pid")
    words = [socket.gethostname()]
    words += [boot.read_text().strip()] if boot.exists() else []
    words += [os.readlink(space)] if space.exists() else []
    return " ".join(words)


def _started(pid: int) -> str | None:
    """When a process began, in the kernel's count; None where it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # a name may hold anything, brackets too
    return None if fields[0] in "ZX" else fields[19]


def _clock(folder: Path) -> float:
    """Now, as the file system that holds the claims has it."""
    file = folder / f".clock.{uuid.uuid4().hex}"
    file.touch()
    try:
        return file.stat().st_mtime
    finally:
        file.unlink()
