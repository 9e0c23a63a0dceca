"""The command line: one short file per command; the only place that prints."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer

from statetrace import __version__
from statetrace.cli import (
    analyze,
    compile,
    data,
    demo,
    doctor,
    explore,
    figures,
    glossary,
    lenses,
    recipes,
    report,
    show,
    signatures,
    study,
    train,
    verdict,
)
from statetrace.cli.completion import joined_at_colon
from statetrace.cli.console import complain, note
from statetrace.cli.help import Commands, short_help
from statetrace.errors import StatetraceError
from statetrace.plugins import PluginWarning

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _app(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Find out how language models track state.

    A model reads actions (elements of a group, for instance permutations of three objects) and
    predicts the state after each one. statetrace trains such models and finds out which algorithm
    they run. `statetrace glossary` defines the terms.
    """
    if version:
        typer.echo(f"statetrace {__version__}")
        raise typer.Exit


app.command("demo")(demo.demo)
app.command("train", cls=short_help(*train.COMMON))(train.train)
app.command("analyze")(analyze.analyze)
app.command("doctor")(doctor.doctor)
app.command("lenses")(lenses.lenses)
app.command("glossary")(glossary.glossary)
app.command("verdict")(verdict.verdict)
app.command("compile")(compile.compile_)
app.command("explore")(explore.explore)
app.command("show")(show.show)
app.command("report")(report.report)
app.command("figures")(figures.figures)
app.command("recipes")(recipes.recipes)
app.command("data")(data.data)
app.command("signatures")(signatures.signatures)
app.add_typer(study.app, name="study")


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print problems with plug-ins as one sentence each, other warnings as usual."""
    if issubclass(category, PluginWarning):
        note(str(message))
    else:
        _usual_warning(message, category, *where)


_usual_warning = warnings.showwarning


def main() -> None:
    """Run the command line; an error meant for people becomes one sentence and exit status 1."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        with joined_at_colon():
            app()
    except StatetraceError as error:
        complain(str(error))
        sys.exit(1)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        complain(
            f"cannot use '{error.filename}': {error.strerror}" if error.filename else str(error)
        )
        sys.exit(1)
    except Exception as error:
        cause = _known_cause(error)
        if cause is None:
            raise
        complain(cause)
        sys.exit(1)


def _known_cause(error: Exception) -> str | None:
    """Failures of the machine, in one sentence; libraries raise them as types of their own."""
    text = str(error).strip().split("\n")[0]
    if type(error).__name__ == "SafetensorError":
        return f"a file of weights could not be read or written ({text}); is the disk full?"
    if text.startswith(LOOP):  # Path.resolve raises a RuntimeError before Python 3.13
        return f"cannot use {text.removeprefix(LOOP)}: its symbolic links lead in a circle"
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or NO_MEMORY in text:
        return (
            "there is not enough memory; use a smaller model, --batch or --length, or split each "
            "batch into parts with --accumulate"
        )
    return None


NO_MEMORY, LOOP = "can't allocate memory", "Symlink loop from "
