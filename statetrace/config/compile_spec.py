"""The settings of a compiled model, checked at construction; separate from models/compiled so that
the command line can show its options without loading torch."""

from __future__ import annotations

from dataclasses import dataclass

from statetrace.config.checks import need, one_of
from statetrace.config.settings import setting

ALGORITHMS = (
    *("sequential", "parallel", "associative", "parity-associative", "composed-quotient"),
    *("strided", "chunked", "lookup", "parity-only"),
)
HIDE_PARITY = ("sequential", "associative", "strided", "chunked")
PARITIES = ("linear", "hidden")
COUNTERS = ("selective", "average")
BASES = ("plain", "random")

LONGEST = 512


@dataclass(frozen=True)
class CompileSpec:
    """A compiled model: each field is an option of `statetrace compile`."""

    group: str = setting("S3", "The group: S5, A4xZ5, ..., a .json file or module:name.")
    algorithm: str = setting(
        "associative",
        "sequential, parallel, associative or parity-associative; composed-quotient (a scan of a "
        "quotient, then one of the rest); strided or chunked (folds between sequential and "
        "associative); lookup (a table in one layer, for short sequences); parity-only is a "
        "control that computes nothing but the parity of the state.",
    )
    length: int = setting(16, "Longest sequence it solves, in actions.")
    notation: str = setting("moves", "How to read one-line labels: moves or receives.")
    start_marker: bool = setting(True, "Begin sequences with a marker token.")
    reach: int | None = setting(
        None, "Longest sequence it has positions for, in actions; by default twice the length."
    )
    parity: str = setting(
        "linear",
        "Whether parity can be read linearly from a state: linear, or hidden (sequential, "
        "associative, strided and chunked only; in the others it is always readable).",
    )
    counter: str | None = setting(
        None,
        "How parity and other sums are counted: by heads that attend only to the actions that "
        "count (selective; the default; needs the start marker) or to all actions (average).",
    )
    heads: int = setting(2, "Heads per block; unused heads attend at random and write zero.")
    before: int = setting(0, "Unused layers before those of the algorithm.")
    between: int = setting(0, "Unused layers between consecutive layers of the algorithm.")
    after: int = setting(0, "Unused layers after those of the algorithm.")
    basis: str = setting(
        "random", "Basis of the residual stream: random (a random rotation) or plain."
    )
    noise: float = setting(
        0.0, "Gaussian noise on every weight, relative to the root mean square of similar weights."
    )
    sharpness: float = setting(10.0, "Logit of the correct state minus that of the next best.")
    seed: int = setting(0, "Seed of the basis, the unused heads and the noise.")
    stride: int = setting(
        4, "Actions per layer of a strided fold (a power of two) or per chunk of a chunked one."
    )
    quotient: str | None = setting(
        None,
        "The quotient that composed-quotient composes first; by default parity, or the first one "
        "of a group without parity.",
    )
    second: str | None = setting(
        None, "Another algorithm that the model runs at the same time, in registers of its own."
    )
    share: float = setting(
        0.5, "Share of the second algorithm in the logits; 0 if it is computed but not read."
    )

    def __post_init__(self) -> None:
        one_of("algorithm", self.algorithm, ALGORITHMS)
        one_of("parity", self.parity, PARITIES)
        one_of("basis", self.basis, BASES)
        if self.counter is not None:
            one_of("counter", self.counter, COUNTERS)
        if self.second is not None:
            one_of("second", self.second, ALGORITHMS)
        least_values = {"heads": 1, "before": 0, "between": 0, "after": 0, "seed": 0, "stride": 1}
        for name, least in least_values.items():
            value = getattr(self, name)
            need(
                type(value) is int and value >= least,
                f"{name} {value!r} must be a whole number, {least} or more",
            )
        need(
            type(self.length) is int and 1 <= self.length <= LONGEST,
            f"length {self.length!r} must be a whole number from 1 to {LONGEST}",
        )
        need(
            self.reach is None
            or (type(self.reach) is int and self.length <= self.reach <= 2 * LONGEST),
            f"reach {self.reach!r} must be from the length, {self.length}, to {2 * LONGEST}",
        )
        for name in ("noise", "sharpness", "share"):
            value = getattr(self, name)
            need(type(value) in (int, float), f"{name} must be a number, not {value!r}")
        need(0 <= self.noise < 1, f"noise {self.noise!r} must be at least 0 and less than 1")
        need(
            0 < self.sharpness <= 1000,
            f"sharpness {self.sharpness!r} must be greater than 0 and at most 1000",
        )
        need(0 <= self.share < 1, f"share {self.share!r} must be at least 0 and less than 1")
        for name, _ in self.circuits:
            need(
                self.parity == "linear" or name in HIDE_PARITY,
                f"parity 'hidden' is for sequential, associative, strided and chunked: in {name} "
                "parity is always readable",
            )

    @property
    def circuits(self) -> list[tuple[str, float]]:
        """The algorithms of the model, and the share of each in the logits."""
        if self.second is None:
            return [(self.algorithm, 1.0)]
        return [(self.algorithm, 1.0 - self.share), (self.second, self.share)]

    @property
    def title(self) -> str:
        """The algorithm, or both with their shares."""
        if self.second is None:
            return self.algorithm
        return " and ".join(f"{name} ({share:g})" for name, share in self.circuits)

    @property
    def counts_by(self) -> str:
        """The counter, or the default one."""
        return self.counter or ("selective" if self.start_marker else "average")

    @property
    def positions(self) -> int:
        """The reach, or the default one."""
        return self.reach if self.reach is not None else 2 * self.length
