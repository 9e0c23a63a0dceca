"""A zoo: small trained models that come with the package, by name, with their checksums.

They are kept in half precision and computed in single; recipes/zoo/NAME.toml made each of them, but
for s3-parallel on a GPU. `statetrace analyze zoo:NAME` and `statetrace verdict zoo:NAME` look at
them.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from statetrace.config.external import ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.runs import Run


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Name -> what it is: group, length, start_marker, mechanism, accuracy, sha256."""
    about: dict[str, dict[str, Any]] = json.loads(_folder().joinpath("catalogue.json").read_text())
    return about


def checkpoint(name: str) -> Path:
    """The folder of a model, its weights checked against their checksum."""
    if name not in catalogue():
        raise StatetraceError(f"the zoo has no model {name!r}: there are {', '.join(catalogue())}")
    folder = _folder() / name
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise StatetraceError(f"{weights} is missing: install statetrace again")
    found = hashlib.sha256(weights.read_bytes()).hexdigest()
    if found != catalogue()[name]["sha256"]:
        raise StatetraceError(
            f"{weights} is damaged: its checksum begins with {found[:12]} instead of "
            f"{catalogue()[name]['sha256'][:12]}; install statetrace again"
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


def _folder() -> Path:
    return Path(str(files("statetrace.zoo")))
