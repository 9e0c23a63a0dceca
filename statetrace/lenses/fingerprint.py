"""Fingerprints of checkpoints: which weights a result describes. Needs no torch.

Checkpoints of a run are identified by their step. An external checkpoint has only a folder, whose
weights may be replaced later, so results of such a model record a fingerprint of its files.

Cost: files of up to WHOLE bytes are read completely, of larger files 16 MiB in evenly spaced
pieces; at most a second. Caveat: in a larger file a change of a few neighbouring weights may go
unnoticed; training changes all of them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from statetrace.config.external import ExternalCheckpoint
from statetrace.runs import Run

WHOLE = 2**26
PIECES, PIECE = 4096, 4096
"""Number of pieces of a larger file, and bytes per piece."""

BESIDE = ("config.json", "tokenizer.json")
"""Other files that identify a model, if present."""


def fingerprint(folder: Path) -> str | None:
    """The fingerprint of a checkpoint, independent of its location; None without weights."""
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        return None
    digest = hashlib.sha256()
    try:
        for file in [*(folder / name for name in BESIDE), *weights]:
            if file.is_file():
                digest.update(f"{file.name} {file.stat().st_size} ".encode())
                _add(file, digest)
    except OSError:  # loading the model reports it
        return None
    return digest.hexdigest()


def _add(file: Path, digest: hashlib._Hash) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= WHOLE:
            digest.update(stream.read())
            return
        for number in range(PIECES):
            stream.seek(number * (size - PIECE) // (PIECES - 1))
            digest.update(stream.read(PIECE))


def weights_of(run: Run) -> str | None:
    """The current fingerprint of the external checkpoint of a run folder; None for a run that was
    trained here and for missing weights."""
    external = ExternalCheckpoint.of(run)
    return None if external is None else fingerprint(external.path(run))


def differ(recorded: object, current: str | None) -> bool:
    """Whether a result is known to be of other weights; older results have no fingerprint."""
    return recorded is not None and current is not None and recorded != current
