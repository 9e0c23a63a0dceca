"""The zoo: small trained models that are bundled with the package, by name, with checksums.

Weights are stored in half precision and computed in single precision. recipes/zoo/NAME.toml trains
each of them; s3-parallel was trained on a GPU. Use them as `statetrace verdict zoo:NAME` or
`statetrace.load("zoo:NAME")`.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from statetrace.config.checks import hint
from statetrace.config.external import ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.runs import Run


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Name -> group, length, start_marker, mechanism, accuracy, sha256."""
    text = _folder().joinpath("catalogue.json").read_text()
    entries: dict[str, dict[str, Any]] = json.loads(text)
    return entries


def checkpoint(name: str) -> Path:
    """The folder of a bundled model, after a check of its checksum."""
    if name not in catalogue():
        raise StatetraceError(f"the zoo has no model {name!r}; {hint(name, catalogue())}")
    folder = _folder() / name
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise StatetraceError(f"{weights} is missing; install statetrace again")
    checksum, expected = _sha256(weights), catalogue()[name]["sha256"]
    if checksum != expected:
        raise StatetraceError(
            f"{weights} is damaged (checksum {checksum[:12]}... instead of {expected[:12]}...); "
            "install statetrace again"
        )
    return folder


def external(name: str) -> ExternalCheckpoint:
    """How to read a bundled model."""
    folder, entry = checkpoint(name), catalogue()[name]
    return ExternalCheckpoint(
        entry["group"], entry["length"], start_marker=entry["start_marker"], folder=str(folder)
    )


def adopt(name: str, out: Path) -> Run:
    """A run folder for the results of a bundled model."""
    run = Run(out)
    external(name).describe(run, zoo=name)
    return run


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _folder() -> Path:
    return Path(str(files("statetrace.zoo")))
