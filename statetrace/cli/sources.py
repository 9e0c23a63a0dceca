"""The argument of a command: a run folder, a study folder, or zoo:NAME."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from statetrace.cli.console import note
from statetrace.errors import StatetraceError
from statetrace.runs import Run

if TYPE_CHECKING:
    from statetrace.api import TrackedModel


def tracked_model(
    name: str, out: Path | None = None, step: int | None = None, device: str = "auto"
) -> TrackedModel:
    """The model of a run folder; for zoo:NAME with results in `out`, by default ./zoo-NAME."""
    from statetrace.api import ZOO, load

    if name.startswith(ZOO):
        out = out or Path(name.replace(":", "-"))
    else:
        if out is not None:
            raise StatetraceError(
                f"--out '{out}' is for --model and zoo:NAME; results of '{name}' go into its folder"
            )
        Run.existing(Path(name))
    return load(name, out=out, step=step, device=device, on_message=note)


def folder_of(name: str) -> Path:
    """The folder of a run, of a study, or of a bundled model's results."""
    from statetrace.reports.page import is_study

    path = Path(name)
    if is_study(path):
        from statetrace.studies.folder import Study

        for sentence in Study.existing(path).damages():
            note(sentence)
        return path
    run = tracked_model(name).run
    assert run is not None
    return run.path
