"""Where the lens results of one checkpoint are kept: RUN/lenses, or memory."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statetrace.lenses.partial import Parts
from statetrace.lenses.registry import WHOLE
from statetrace.lenses.result import LensResult

UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Store:
    """Lens results in a folder (RUN/lenses) or, without one, in memory. Results at a length shorter
    than the task's are in length-N, parts of interrupted lenses in unfinished/LENS-..."""

    folder: Path | None = None
    _memory: dict[tuple[str, int | None], LensResult] = field(default_factory=dict, repr=False)
    _parts: dict[tuple[str, int | None], Parts] = field(default_factory=dict, repr=False)

    def place(self, length: int | None = None) -> Path | None:
        """The folder of results at a length; None for the task's own."""
        if self.folder is None or length is None:
            return self.folder
        return self.folder / f"length-{length}"

    def get(self, lens: str, length: int | None = None) -> LensResult | None:
        place = self.place(length)
        if place is None:
            return self._memory.get((lens, length))
        return LensResult.load(place, lens) if (place / f"{lens}.json").is_file() else None

    def longest(
        self, lens: str, whole: int, at_length: int | str | None = None
    ) -> tuple[int, LensResult | None]:
        """The result at full length (`whole`), else at the longest shorter one; at one length if
        that is a number, which lenses that cover all lengths ignore. With that length."""
        folders = () if self.folder is None else self.folder.glob("length-*")
        shorter = (path.name.removeprefix("length-") for path in folders)
        lengths = [whole, *sorted((int(n) for n in shorter if n.isdecimal()), reverse=True)]
        if lens in WHOLE:
            lengths = [whole]
        elif isinstance(at_length, int):
            lengths = [at_length]
        for length in lengths:
            result = self.get(lens, None if length == whole else length)
            if result is not None:
                return length, result
        return whole, None

    def whole_results(self) -> list[LensResult]:
        """Results in memory at the task's own length."""
        return [result for (_, length), result in self._memory.items() if length is None]

    def put(self, result: LensResult, length: int | None = None) -> None:
        place = self.place(length)
        if place is None:
            self._memory[result.lens, length] = result
            return
        result.save(place)

    def unfinished(self, lens: str, length: int | None, about: Mapping[str, Any]) -> Parts:
        """The parts of a lens on the checkpoint and with the settings that `about` describes."""
        digest = hashlib.sha256(repr(sorted(about.items())).encode()).hexdigest()
        name, place = f"{lens}-{digest[:16]}", self.place(length)
        if place is None:
            return self._parts.setdefault((name, length), Parts())
        return Parts(place / UNFINISHED / name)

    def forget_unfinished(self, lens: str, length: int | None) -> None:
        """Drop the parts of a lens that has a result now."""
        for key in [key for key in self._parts if key[0].startswith(f"{lens}-")]:
            del self._parts[key]
        place = self.place(length)
        if place is not None and (place / UNFINISHED).is_dir():
            for folder in (place / UNFINISHED).glob(f"{lens}-*"):
                shutil.rmtree(folder)
            with contextlib.suppress(OSError):  # other lenses are unfinished
                (place / UNFINISHED).rmdir()
