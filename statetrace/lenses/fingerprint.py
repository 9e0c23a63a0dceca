"""Fingerprints of checkpoints: which weights a result describes. Needs no torch.

Another model may be trained to the same step in the same folder, and the files of an external
checkpoint may be replaced, so results record which weights they describe: the checksum that a
checkpoint of a run was written with, and a fingerprint of the files of an external one.

Cost: none for a run. Files of an external checkpoint of up to WHOLE bytes are read completely, of
larger ones 16 MiB in evenly spaced pieces; at most a second. Caveat: in a larger file a change of a
few neighboring weights may go unnoticed; training changes all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from statetrace.config.external import ExternalCheckpoint
from statetrace.files import digest, read_json
from statetrace.runs import CHECKSUMS, Run

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
    content = hashlib.sha256()
    try:
        for file in [*(folder / name for name in BESIDE), *weights]:
            if file.is_file():
                content.update(f"{file.name} {file.stat().st_size} ".encode())
                _add(file, content)
    except OSError:  # loading the model reports it
        return None
    return content.hexdigest()


def _add(file: Path, content: hashlib._Hash) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= WHOLE:
            content.update(stream.read())
            return
        for number in range(PIECES):
            stream.seek(number * (size - PIECE) // (PIECES - 1))
            content.update(stream.read(PIECE))


def weights_of(run: Run, step: int | None = None) -> str | None:
    """The current fingerprint of the checkpoint of a run folder, of a trained run the newest or the
    one at a step; None for missing weights."""
    external = ExternalCheckpoint.of(run)
    if external is not None:
        return fingerprint(external.path(run))
    steps = [number for number, _ in run.checkpoints()] if step is None else [step]
    return recorded_checksum(run.checkpoint(max(steps))) if steps else None


def recorded_checksum(folder: Path) -> str | None:
    """Of the weights, as written beside them; None where there is none, and where the checksums
    are not those of this checkpoint, as far as a small file tells."""
    with contextlib.suppress(OSError, ValueError):
        checksums = read_json(folder / CHECKSUMS)
        small, checksum = checksums.get("training.json"), checksums.get("model.safetensors")
        belongs = small is None or small == digest(folder / "training.json")
        return checksum if belongs and isinstance(checksum, str) else None
    return None


def differ(recorded: object, current: str | None) -> bool:
    """Whether a result is known to be of other weights; older results have no fingerprint."""
    return recorded is not None and current is not None and recorded != current
