"""What to compile, refused at construction if it cannot be; apart from models/compiled so that the
command line can show its options without loading torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statetrace.errors import StatetraceError

ALGORITHMS = ("sequential", "parallel", "associative", "parity-associative", "parity-only")
PARITIES = ("linear", "hidden")
COUNTERS = ("selective", "average")
BASES = ("plain", "random")

LONGEST = 512


def _field(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class CompileSpec:
    """A compiled model: each field is an option of `statetrace compile`."""

    group: str = _field("S3", "The group: S5, A4xZ5, ..., a .json file or module:name.")
    algorithm: str = _field(
        "associative",
        "sequential, parallel, associative or parity-associative; parity-only is a control that "
        "knows the parity of the state and nothing else.",
    )
    length: int = _field(16, "Actions it gets right.")
    notation: str = _field("moves", "How one-line labels are read: moves or receives.")
    start_marker: bool = _field(True, "Its sequences begin with a marker token.")
    reach: int | None = _field(
        None, "Actions it can read, right or wrong; by default twice the length."
    )
    parity: str = _field(
        "linear",
        "Whether parity is linearly readable from a state: linear, or hidden (sequential and "
        "associative only; the others compute it on its own and always show it).",
    )
    counter: str | None = _field(
        None,
        "How parity and the like are counted: by heads that look only at what counts (selective; "
        "the default; needs the start marker) or at all actions alike (average).",
    )
    heads: int = _field(
        2, "Heads per block; those it does not need look at random places and say nothing."
    )
    before: int = _field(0, "Spare layers before the algorithm's.")
    between: int = _field(0, "Spare layers between each two of the algorithm's.")
    after: int = _field(0, "Spare layers after the algorithm's.")
    basis: str = _field("random", "A random orthogonal change of basis, or a plain one.")
    noise: float = _field(
        0.0, "Gaussian noise on every weight, in units of the root mean square of its kind."
    )
    sharpness: float = _field(10.0, "Logit of the right answer over that of the next best.")
    seed: int = _field(0, "Of the basis, the spare heads and the noise.")

    def __post_init__(self) -> None:
        for name, words in (
            ("algorithm", ALGORITHMS),
            ("parity", PARITIES),
            ("counter", COUNTERS),
            ("basis", BASES),
        ):
            value = getattr(self, name)
            if value not in words and not (name == "counter" and value is None):
                raise StatetraceError(f"{name} {value!r} should be {_or(words)}")
        for name, least in (("heads", 1), ("before", 0), ("between", 0), ("after", 0), ("seed", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise StatetraceError(f"{name} {value!r} should be a whole number from {least} up")
        if type(self.length) is not int or not 1 <= self.length <= LONGEST:
            raise StatetraceError(f"length {self.length!r} should be from 1 to {LONGEST}")
        if self.reach is not None and not self.length <= self.reach <= 2 * LONGEST:
            raise StatetraceError(
                f"reach {self.reach!r} should be from the length, {self.length}, to {2 * LONGEST}"
            )
        if not 0 <= self.noise < 1:
            raise StatetraceError(f"noise {self.noise!r} should be from 0 up to 1")
        if not 0 < self.sharpness <= 1000:
            raise StatetraceError(f"sharpness {self.sharpness!r} should be above 0 and up to 1000")
        if self.parity == "hidden" and self.algorithm not in ("sequential", "associative"):
            raise StatetraceError(
                f"parity 'hidden' is for sequential and associative: {self.algorithm} computes "
                "parity on its own and always shows it"
            )

    @property
    def counts_by(self) -> str:
        """The counter, chosen if need be."""
        return self.counter or ("selective" if self.start_marker else "average")

    @property
    def positions(self) -> int:
        """Actions it can read, right or wrong."""
        return self.reach if self.reach is not None else 2 * self.length


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
