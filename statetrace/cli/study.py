"""`statetrace study`: many runs from one file, on one machine or a cluster."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statetrace.cli import study_view
from statetrace.cli.console import next_steps, note, out
from statetrace.cli.help import Commands
from statetrace.config.checks import hint
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study

if TYPE_CHECKING:
    from statetrace.api import StudyResults

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="A study folder.")]


class RunByDefault(Commands):
    """`statetrace study FILE` is short for `statetrace study run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            self._check_file(args[0])
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def _check_file(self, word: str) -> None:
        """Refuse a misspelt command; files exist or have a suffix, bundled studies a slash."""
        if word.startswith("-") or "/" in word or Path(word).suffix or Path(word).exists():
            return
        raise StatetraceError(
            f"'{word}' is neither a study file nor a command; {hint(word, self.commands)}"
        )


app = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train many models from one file: `statetrace study FILE --out STUDY`.",
)


@app.command("run")
def run(
    file: Annotated[
        Path, typer.Argument(help="A study: a TOML file or a name, such as studies/toy.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="The study folder to create or continue.", metavar="DIR", parser=path_named
        ),
    ],
    engine: Annotated[
        str, typer.Option(help="Where runs are trained: local (processes on this machine) or ray.")
    ] = "local",
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs at once (default: as many as cores or GPUs allow)."),
    ] = None,
    gpus_per_run: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Share of a GPU per run: 0.25 puts four on one GPU, 0 uses none."
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="ray: an existing cluster, such as auto (default: start one here)."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also try failed cells again.")
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Create the study folder without training.")
    ] = False,
) -> None:
    """Train every cell of a study and write one table of results.

    It can be killed at any time and started again with the same command: cells that have ended are
    skipped, others resume from their last checkpoint, bit for bit. Several such processes may share
    one STUDY.
    """
    if prepare:
        from statetrace.studies.folder import prepare_study

        study = prepare_study(file, out, retry_failed, note)
        note(f"{len(study.plan.cells):,} cells planned in {out}")
        next_steps(["study", "work", out], ["study", "slurm", out], ["study", "status", out])
        return
    from statetrace import api

    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with study_view.StudyProgress() as progress:
            results = api.study(
                file,
                out,
                engine=engine,
                jobs=jobs,
                gpus_per_run=gpus_per_run,
                address=address,
                retry_failed=retry_failed,
                on_update=progress.draw,
                on_message=note,
            )
    except KeyboardInterrupt:
        note(f"stopped; the same command continues {out}")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    study_view.show(progress.states)
    _show_tables(results)
    if results.failed:
        raise StatetraceError(
            f"{len(results.failed)} of {len(progress.states)} cells failed; `statetrace study "
            f"status {out}` shows why, --retry-failed tries them again"
        )


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@app.command("status")
def status(
    study: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show the status of a study and when it will be done, even while it runs, on any machine that
    shares its folder."""
    from statetrace.studies.survey import Survey

    states = Survey(Study.existing(study)).look()
    if as_json:
        typer.echo(study_view.as_json(states))
        return
    study_view.show(states)
    out.print(study_view.summary(states))
    next_steps(["study", "table", study], ["report", study])


@app.command("table")
def table(study: Folder) -> None:
    """Write the tables: a row per cell, and how often each mechanism was learned."""
    from statetrace.api import StudyResults

    _show_tables(StudyResults(Study.existing(study)))


@app.command("look")
def look(
    study: Folder,
    cell: Annotated[list[str] | None, typer.Option(help="Only this cell; may be repeated.")] = None,
) -> None:
    """Evaluate trained cells again: new verdicts and evidence from their last checkpoints.

    For studies that were evaluated by an earlier version. Nothing is trained.
    """
    from statetrace.api import StudyResults
    from statetrace.studies.evaluate import reevaluate

    opened = Study.existing(study)
    for chosen in [opened.cell(name) for name in cell] if cell else opened.plan.cells:
        note(reevaluate(opened, chosen))
    _show_tables(StudyResults(opened))


def _show_tables(results: StudyResults) -> None:
    for sentence in results.damages:
        note(sentence)
    note(f"table: {results.path / 'results.parquet'}")
    for name in ("proportions", "associations"):
        if name in results.tables:
            out.print(study_view.plain(name, results.tables[name]))
    next_steps(["report", results.path])


@app.command("slurm")
def slurm(
    study: Folder,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Most tasks at once.")] = None,
    time: Annotated[str, typer.Option(help="Time limit of a task.")] = "24:00:00",
    memory: Annotated[str, typer.Option(help="Memory of a task.")] = "16G",
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs of a task.")] = 0,
    directive: Annotated[
        list[str] | None,
        typer.Option(
            help="A further #SBATCH line, such as --directive=--partition=gpu; may be repeated."
        ),
    ] = None,
) -> None:
    """Write STUDY/slurm.sh, an array job with the study's cells.

    `statetrace study FILE --out STUDY --prepare` creates the folder without training.
    """
    from statetrace.studies.slurm import SlurmSpec, script

    opened = Study.existing(study)
    program = shutil.which("statetrace") or "statetrace"
    spec = SlurmSpec(jobs, time, memory, gpus, tuple(directive or ()), program)
    file = opened.path / "slurm.sh"
    file.write_text(script(opened, spec))
    file.chmod(0o755)
    next_steps(f"sbatch {file}  # {len(opened.plan.cells):,} cells", ["study", "status", study])


@app.command("work")
def work(
    study: Folder,
    cell: Annotated[list[str] | None, typer.Option(help="Only this cell; may be repeated.")] = None,
    then_others: Annotated[
        bool, typer.Option("--then-others", help="Then continue with all other cells.")
    ] = False,
    with_parent: Annotated[
        bool, typer.Option("--with-parent", help="Stop when the process that started this ends.")
    ] = False,
) -> None:
    """Run one worker: process cells until none is left. Engines and array jobs start these."""
    from statetrace.studies import worker

    stopping: list[int] = []
    parent = os.getppid()

    def stop() -> bool:
        return bool(stopping) or (with_parent and os.getppid() != parent)

    opened = Study.existing(study)
    handlers = {
        number: signal.signal(number, lambda received, _: stopping.append(received))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        if cell:
            worker.work(opened, stop, cell, note)
        if not cell or then_others:
            worker.work(opened, stop, on_message=note)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    next_steps(["study", "status", study])
