"""`statetrace study`: many runs from one file, on one machine or a cluster."""

from __future__ import annotations

import difflib
import os
import shutil
import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from statetrace.cli import study_view
from statetrace.cli.console import note, out
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study
from statetrace.studies.grid import read_study

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="A study folder.")]


class RunByDefault(TyperGroup):
    """`statetrace study FILE` is short for `statetrace study run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            self._check_file(args[0])
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def _check_file(self, word: str) -> None:
        """A word that could be no file is a command that was misspelt."""
        if word.startswith("-") or Path(word).suffix or Path(word).exists():
            return
        close = difflib.get_close_matches(word, self.commands, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(self.commands)}"
        raise StatetraceError(f"'{word}' is neither a study file nor a command; {hint}")


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
        Path, typer.Argument(help="A study (TOML), such as recipes/studies/seed-sweep.toml.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="The study folder to write, or to go on with.", metavar="DIR", parser=path_named
        ),
    ],
    engine: Annotated[
        str, typer.Option(help="Where its runs are trained: local processes, or ray.")
    ] = "local",
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs at once (default: as many as cores or GPUs allow)."),
    ] = None,
    gpus_per_run: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Share of a GPU each run gets: 0.25 puts four on one, 0 uses none."
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="ray: an existing cluster, such as auto; else one is started here."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try cells again that had failed for good.")
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Write the study folder and train nothing yet.")
    ] = False,
) -> None:
    """Train every cell of a study and write one table of what came out.

    Can be killed at any moment and started again with the same words: cells that have ended are
    skipped, others go on from their last checkpoint, bit for bit. Several may work on one STUDY.
    """
    from statetrace.studies.cell import check_cells

    study = Study.prepare(out, read_study(file))
    check_cells(study)
    if retry_failed:
        for name in study.forget_failed():
            note(f"{name}: will be tried again")
    if prepare:
        note(f"{len(study.plan.cells):,} cells planned in {out}")
        return
    failed = _train(study, engine, jobs, gpus_per_run, address)
    _write_tables(study)
    if failed:
        raise StatetraceError(
            f"{failed} of {len(study.plan.cells)} cells failed; `statetrace study status {out}` "
            "says why, --retry-failed tries them again"
        )


def _train(
    study: Study, engine: str, jobs: int | None, gpus_per_run: float | None, address: str | None
) -> int:
    """How many cells failed."""
    from statetrace.studies.engines import make_pool
    from statetrace.studies.supervise import supervise

    pool = make_pool(engine, study, jobs, gpus_per_run, address)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with study_view.StudyProgress(len(study.plan.cells)) as live:
            states = supervise(study, pool, live.draw, note)
    except KeyboardInterrupt:
        note(f"stopped; the same command goes on with {study.path}")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    study_view.show(states)
    return sum(one.state == "failed" for one in states)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@app.command("status")
def status(study: Folder) -> None:
    """Show how a study stands, also while it runs, from any machine that sees its folder."""
    from statetrace.studies.survey import Survey

    states = Survey(Study.existing(study)).look()
    study_view.show(states)
    out.print(study_view.summary(states))


@app.command("table")
def table(study: Folder) -> None:
    """Write results.parquet and .csv: a row per cell; and how often each mechanism was learned."""
    _write_tables(Study.existing(study))


@app.command("look")
def look(
    study: Folder,
    cell: Annotated[list[str] | None, typer.Option(help="Only this cell; repeat for more.")] = None,
) -> None:
    """Look at trained cells again: new verdicts and evidence of checkpoints that are still there.

    For studies whose cells were judged by an earlier version. Nothing is trained.
    """
    from statetrace.studies.reevaluate import look_again

    found = Study.existing(study)
    cells = [found.cell(name) for name in cell] if cell else found.plan.cells
    for one in cells:
        note(look_again(found, one))
    _write_tables(found)


def _write_tables(study: Study) -> None:
    from statetrace.studies.proportions import associations, proportions
    from statetrace.studies.table import evidence, results, write_table

    for sentence in study.damages():
        note(sentence)
    rows = results(study)
    file = write_table(rows, study.path / "results.parquet")
    note(f"table: {file}")
    if known := evidence(study):
        write_table(known, study.path / "evidence.parquet")
    for name, made in (
        ("proportions", proportions(rows, study.plan.factors)),
        ("associations", associations(rows, study.plan.factors)),
    ):
        if made:
            write_table(made, study.path / f"{name}.parquet")
            out.print(study_view.plain(name, made))


@app.command("slurm")
def slurm(
    study: Folder,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Tasks at the same time.")] = None,
    time: Annotated[str, typer.Option(help="Time limit of a task.")] = "24:00:00",
    memory: Annotated[str, typer.Option(help="Memory of a task.")] = "16G",
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs of a task.")] = 0,
    directive: Annotated[
        list[str] | None,
        typer.Option(help="A further #SBATCH line, such as --directive=--partition=gpu; repeat."),
    ] = None,
) -> None:
    """Write STUDY/slurm.sh, an array job with the study's cells.

    `statetrace study FILE --out STUDY --prepare` makes the folder without training anything.
    """
    from statetrace.studies.slurm import SlurmSpec, script

    found = Study.existing(study)
    program = shutil.which("statetrace") or "statetrace"
    spec = SlurmSpec(jobs, time, memory, gpus, tuple(directive or ()), program)
    file = found.path / "slurm.sh"
    file.write_text(script(found, spec))
    file.chmod(0o755)
    note(f"{len(found.plan.cells):,} cells: sbatch {file}")


@app.command("work")
def work(
    study: Folder,
    cell: Annotated[
        list[str] | None, typer.Option(help="A cell to look at first, and alone; repeat.")
    ] = None,
    then_others: Annotated[
        bool, typer.Option("--then-others", help="After these, help with the other cells.")
    ] = False,
    with_parent: Annotated[
        bool, typer.Option("--with-parent", help="Stop when the process that started this ends.")
    ] = False,
) -> None:
    """Be one worker: do cells until none is left to claim. Engines and array jobs start these."""
    from statetrace.studies import worker

    stopping: list[int] = []
    parent = os.getppid()

    def stop() -> bool:
        return bool(stopping) or (with_parent and os.getppid() != parent)

    found = Study.existing(study)
    handlers = {
        number: signal.signal(number, lambda got, _: stopping.append(got))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        if cell:
            worker.work(found, stop, cell, note)
        if not cell or then_others:
            worker.work(found, stop, told=note)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
