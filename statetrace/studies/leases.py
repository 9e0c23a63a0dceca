"""Leases: of all workers that share a study folder, only one at a time works on a cell.

A lease is a file NAME.1 that is created atomically, if it does not exist, by a hard link; this also
works on network file systems. It is never removed. Its owner marks it as released when done. If the
owner is dead, another worker creates NAME.2, and again only one can. Files are never deleted or
taken over, so two workers cannot both hold the latest number; an owner that was wrongly considered
dead sees the later number and stops.

An owner on the same machine is dead if its process is; on another machine, if its file was not
touched for STALE seconds by the file system's own clock.

Cost: three file operations per lease, and one every BEAT seconds while it is held.
Caveat: the file system must support hard links.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from statetrace.files import read_json, write_json

BEAT = 10.0
"""Seconds between heartbeats."""

STALE = 120.0
"""Seconds without a heartbeat after which an owner on another machine counts as dead."""

PROC = Path("/proc")


@dataclass(frozen=True)
class Owner:
    """A process; its start time distinguishes it from later ones with the same id."""

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
        """Only for an owner on this machine."""
        return _started(self.pid) == self.started


@dataclass(frozen=True)
class LeaseRecord:
    """The latest lease of a cell, as read from its file."""

    number: int
    owner: Owner
    released: bool
    file: Path

    def is_open(self) -> bool:
        """Whether the cell can be leased again: its owner is done or dead."""
        if self.released:
            return True
        if self.owner.is_here():
            return not self.owner.lives()
        try:
            return _clock(self.file.parent) - self.file.stat().st_mtime > STALE
        except FileNotFoundError:
            return False


def latest(folder: Path, cell: str) -> LeaseRecord | None:
    """The lease with the highest number; None if there was never one."""
    number = 0
    while (folder / f"{cell}.{number + 1}").exists():
        number += 1
    if number == 0:
        return None
    file = folder / f"{cell}.{number}"
    return LeaseRecord(number, *_read(file), file)


def _read(file: Path) -> tuple[Owner, bool]:
    """The owner, and whether it released the lease; a damaged file counts as an owner on another
    machine that sends no more heartbeats."""
    try:
        about: dict[str, Any] = read_json(file)
        return Owner(**about["owner"]), bool(about["released"])
    except (ValueError, KeyError, TypeError):
        return Owner("an unknown machine: its lease is damaged", "", 0, ""), False


class Lease:
    """A cell that this worker holds while the `with` block lasts and `lost` is False.

    Attributes:
        before: the previous owner, if it died while holding the cell.
        lost: set when another worker considered this one dead and took over; nothing may be written
            then.
    """

    def __init__(self, file: Path, owner: Owner, number: int, before: Owner | None) -> None:
        self._file, self.owner, self._number, self.before = file, owner, number, before
        self._next = file.with_name(f"{file.name.rsplit('.', 1)[0]}.{number + 1}")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.lost = False

    def is_ours(self) -> bool:
        """Checks the folder; `lost` is the result of the last check, at no cost."""
        self.lost = self.lost or self._next.exists()
        return not self.lost

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            # a network file system may be unavailable for a while
            with contextlib.suppress(OSError):
                os.utime(self._file)
                self.is_ours()

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        write_json(self._file, _record(self.owner, released=True))


def take(folder: Path, cell: str) -> Lease | None:
    """Take the lease of a cell; None if another worker holds it."""
    record = latest(folder, cell)
    if record is not None and not record.is_open():
        return None
    number = 1 if record is None else record.number + 1
    owner, file = Owner.me(), folder / f"{cell}.{number}"
    draft = folder / f".{cell}.{uuid.uuid4().hex}"
    draft.write_text(json.dumps(_record(owner, released=False)))
    try:
        os.link(draft, file)
    except FileExistsError:
        return None
    finally:
        draft.unlink()
    before = record.owner if record is not None and not record.released else None
    return Lease(file, owner, number, before)


def _record(owner: Owner, released: bool) -> dict[str, Any]:
    return {"owner": vars(owner), "released": released}


@cache
def _machine() -> str:
    """Identifies this boot of this machine and the namespace of its process ids."""
    boot = PROC / "sys" / "kernel" / "random" / "boot_id"
    namespace = PROC / "self" / "ns" / "pid"
    parts = [socket.gethostname()]
    parts += [boot.read_text().strip()] if boot.exists() else []
    parts += [os.readlink(namespace)] if namespace.exists() else []
    return " ".join(parts)


def _started(pid: int) -> str | None:
    """When a process started, in clock ticks or as a date; None where it is gone or a zombie."""
    if not (PROC / "self").exists():
        return _started_by_ps(pid)
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # a name may contain anything, brackets too
    return None if fields[0] in "ZX" else fields[19]


def _started_by_ps(pid: int) -> str | None:
    """The same to the second, where there is no /proc, as on macOS."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    shown = subprocess.run(command, capture_output=True, text=True, env=environment).stdout.split()
    return None if not shown or shown[0][0] in "ZX" else " ".join(shown[1:])


def _clock(folder: Path) -> float:
    """The current time by the clock of the file system."""
    file = folder / f".clock.{uuid.uuid4().hex}"
    file.touch()
    try:
        return file.stat().st_mtime
    finally:
        file.unlink()
