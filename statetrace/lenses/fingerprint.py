"""Which weights a result is about: a fingerprint of the checkpoint's files. Needs no torch.

A run's checkpoints are told apart by their step. A checkpoint from elsewhere has only its folder's
name, and other weights may be put there later; so results of such a model keep this with them.

Cost: files of up to WHOLE bytes are read whole, of larger ones 16 MiB spread over them; a second at
most, however large they are. Caveat: in such a large file a change of a few neighbouring weights
may go unnoticed; training changes all of them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from statetrace.config.external import ExternalCheckpoint
from statetrace.runs import Run

WHOLE = 2**26
PIECES, PIECE = 4096, 4096
"""Of a larger file: how many pieces, and the bytes in each."""

BESIDE = ("config.json", "tokenizer.json")
"""What else makes it another model, where it is there."""


def fingerprint(folder: Path) -> str | None:
    """Of a checkpoint: the same for the same files, wherever they lie; None without weights."""
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        return None
    found = hashlib.sha256()
    try:
        for file in [*(folder / name for name in BESIDE), *weights]:
            if file.is_file():
                found.update(f"{file.name} {file.stat().st_size} ".encode())
                _add(file, found)
    except OSError:  # whoever loads the model says so
        return None
    return found.hexdigest()


def _add(file: Path, to: hashlib._Hash) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= WHOLE:
            to.update(stream.read())
            return
        for number in range(PIECES):
            stream.seek(number * (size - PIECE) // (PIECES - 1))
            to.update(stream.read(PIECE))


def weights_of(run: Run) -> str | None:
    """Of the checkpoint from elsewhere that a run folder is about, as it is now; None for a run
    that was trained here, and where the weights are not there any more."""
    external = ExternalCheckpoint.of(run)
    return None if external is None else fingerprint(external.path(run))


def differ(kept: object, now: str | None) -> bool:
    """Whether a result is known to be about other weights; older results do not say."""
    return kept is not None and now is not None and kept != now
