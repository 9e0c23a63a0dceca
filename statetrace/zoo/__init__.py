"""The zoo: small trained models that are bundled with the package, by name, with checksums.

Weights are stored in half precision and computed in single precision. recipes/zoo/NAME.toml trains
each of them; s3-parallel was trained on a GPU. Use them as `statetrace verdict zoo:NAME` or
`statetrace.load("zoo:NAME")`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from statetrace.config.checks import hint
from statetrace.config.external import ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.files import digest
from statetrace.runs import Run


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Name -> group, length, start_marker, the most probable mechanism, accuracy, checksums."""
    text = _folder().joinpath("catalogue.json").read_text()
    entries: dict[str, dict[str, Any]] = json.loads(text)
    return entries


def checkpoint(name: str) -> Path:
    """The folder of a bundled model, after a check of its checksum."""
    if name not in catalogue():
        raise StatetraceError(f"the zoo has no model {name!r}; {hint(name, catalogue())}")
    folder = _folder() / name
    for file, key in (
        (folder / "model.safetensors", "sha256"),
        (folder / "config.json", "config_sha256"),
    ):
        if not file.is_file():
            raise StatetraceError(f"{file} is missing; install statetrace again")
        checksum, expected = digest(file), catalogue()[name][key]
        if checksum != expected:
            raise StatetraceError(
                f"{file} is damaged (checksum {checksum[:12]}... instead of {expected[:12]}...); "
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


def _folder() -> Path:
    return Path(str(files(__name__)))
