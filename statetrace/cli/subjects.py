"""What a command was asked to look at: a run folder, or a model of the zoo."""

from __future__ import annotations

from pathlib import Path

from statetrace.cli.console import note
from statetrace.errors import StatetraceError
from statetrace.runs import Run

ZOO = "zoo:"


def folder_named(name: str) -> Path:
    """As `run_named`, where a study's folder will do as well."""
    from statetrace.report.page import is_study

    path = Path(name)
    if not is_study(path):
        return run_named(name).path
    from statetrace.studies.folder import Study

    for sentence in Study.existing(path).damages():
        note(sentence)
    return path


def run_named(name: str, out: Path | None = None) -> Run:
    """The run folder `name`; for zoo:NAME a run folder about that model, in `out` or here."""
    if not name.startswith(ZOO):
        if out is not None:
            raise StatetraceError(
                f"--out '{out}' is for --model and zoo: '{name}' is its own folder"
            )
        return Run.existing(Path(name))
    from statetrace.zoo import adopt

    return adopt(name.removeprefix(ZOO), out or Path(name.replace(":", "-")))
