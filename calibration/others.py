"""Compiled models that run none of the verdict's algorithms or two at once, and controls for them.

Two circuits that share the logits, the quotient composed first, folds in strides and in chunks,
lookup tables, and circuits that are computed but not read.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from calibration.compiled import NOISE
from statetrace.config.compile_spec import CompileSpec

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of the second circuit."""

MIXTURES = (
    ("associative", "parallel", 16),
    ("parallel", "sequential", 10),
    ("associative", "sequential", 12),
    ("associative", "parity-associative", 16),
    ("parity-associative", "parallel", 12),
    ("composed-quotient", "associative", 8),
)

QUOTIENTS = (("S3", None), ("S4", None), ("S4", "S3"), ("D4", None), ("A4", None))

FOLDS = (
    *(("strided", 2, length) for length in (8, 12, 16, 24)),
    *(("strided", 4, length) for length in (16, 24)),
    *(("chunked", 2, length) for length in (8, 16)),
    *(("chunked", 3, length) for length in (12, 24)),
    *(("chunked", 4, length) for length in (16, 24)),
)
"""Longer than two strides: up to there a strided fold is the associative algorithm."""

TABLES = (("S3", 4), ("S3", 5), ("D4", 4), ("Z6", 4), ("A4", 3), ("S4", 3))

INERT = (
    *(("strided", name) for name in ("associative", "parallel", "parity-associative")),
    *(("composed-quotient", name) for name in ("associative", "parallel", "parity-associative")),
    *(("associative", name) for name in ("parallel", "parity-associative")),
    *(("parity-associative", name) for name in ("associative", "parallel")),
)
"""The circuit that is read, and the other; the last four are controls."""


def specs(seed: int = 0) -> list[CompileSpec]:
    """In a fixed order; what does not change the algorithm is drawn at random."""
    rng = np.random.default_rng([seed, 1])
    chosen: list[dict[str, Any]] = [
        *(
            {"algorithm": first, "second": second, "share": share, "length": length}
            for first, second, length in MIXTURES
            for share in SHARES
        ),
        *(
            {"algorithm": "composed-quotient", "group": of, "quotient": quotient, "length": length}
            for of, quotient in QUOTIENTS
            for length in (8, 12, 16)
        ),
        *(
            {"algorithm": name, "stride": stride, "length": length, "group": of}
            for name, stride, length in FOLDS
            for of in ("S3", "S4")[: 1 + (length <= 12)]
        ),
        *({"algorithm": "lookup", "group": of, "length": length} for of, length in TABLES),
        *(
            {"algorithm": first, "second": second, "share": 0.0, "length": 12, "stride": 2}
            for first, second in INERT
        ),
        *(
            {"algorithm": name, "stride": stride, "length": 16, "parity": "hidden"}
            for name, stride in (("strided", 2), ("strided", 4), ("chunked", 4))
        ),
        *(
            {"algorithm": first, "second": second, "length": length, "counter": "average"}
            for first, second, length in (MIXTURES[1], MIXTURES[3], MIXTURES[4])
        ),
    ]
    return [_varied(CompileSpec(**settings), rng) for settings in chosen]


def _varied(spec: CompileSpec, rng: np.random.Generator) -> CompileSpec:
    marker = bool(rng.integers(2))
    names = {name for name, _ in spec.circuits}
    noise = min(NOISE.get(name, NOISE["parity-associative"]) for name in names)
    return dataclasses.replace(
        spec,
        notation=str(rng.choice(["moves", "receives"])),
        start_marker=marker,
        reach=None if marker or spec.algorithm == "lookup" else spec.length,
        heads=int(rng.integers(1, 5)),
        before=int(rng.integers(2)),
        between=int(rng.integers(2)),
        after=int(rng.integers(2)),
        basis=str(rng.choice(["random", "plain"])),
        noise=float(rng.choice([0.0, rng.uniform(0.02, 0.1)]) * noise),
        sharpness=float(rng.choice([1.0, 2.0, 5.0, 10.0, 20.0])),
        seed=int(rng.integers(1_000_000)),
    )


def label(spec: CompileSpec) -> str:
    """The algorithm that gives the answers; "mixed" if two do; "other" for those without a place in
    the verdict."""
    if spec.second and spec.share:
        return "mixed"
    return "other" if spec.algorithm in ("strided", "chunked", "lookup") else spec.algorithm
