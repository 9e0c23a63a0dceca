"""The argument of a command: a run or study folder, a Hugging Face checkpoint, or zoo:NAME."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statetrace.cli.completion import complete_model
from statetrace.cli.console import Work, note
from statetrace.config.checks import check_not_file, no_folder
from statetrace.config.external import ExternalCheckpoint
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError
from statetrace.runs import Run
from statetrace.zoo import catalogue, checkpoint

if TYPE_CHECKING:
    from statetrace.api import TrackedModel

EXTERNAL = "A checkpoint that statetrace did not train"
BUNDLED = f"Bundled models: {', '.join(f'zoo:{name}' for name in catalogue())}."
MODEL = typer.Argument(
    help="A run folder, a compiled model's folder, zoo:NAME, or a Hugging Face checkpoint. "
    + BUNDLED,
    autocompletion=complete_model,
)
DEVICE = typer.Option(help="auto, cpu, cuda, a specific GPU such as cuda:1, or mps.")
RESULTS = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder for the results (default: runs/NAME; for zoo:NAME, zoo-NAME).",
        rich_help_panel=EXTERNAL,
        metavar="DIR",
        parser=path_named,
    ),
]


def tracked_model(
    name: str,
    reading: dict[str, Any] | None = None,
    out: Path | None = None,
    step: int | None = None,
    device: str = "auto",
    command: str = "verdict",
) -> TrackedModel:
    """The model of a run folder, of zoo:NAME, or of a Hugging Face checkpoint (a folder or a model
    id). Results of the last two go to `out`; `reading` describes how the last one is read."""
    from statetrace.api import ZOO, load

    source, arguments = resolve(name, reading, out, command)
    options: dict[str, Any] = {"step": step, "device": device, "on_message": note}
    if Run(Path(source)).exists():
        if out is not None and source == name:
            raise StatetraceError(
                f"--out '{out}' is for other checkpoints; results of '{name}' go into its folder"
            )
        return load(source, **options)
    if name.startswith(ZOO):
        folder = out or Path(name.replace(":", "-"))
    else:
        folder = out or _free_folder(name, arguments)
    model = load(name, out=folder, **options, **arguments)
    note(f"results: {folder}")
    return model


def resolve(
    name: str, reading: dict[str, Any] | None, out: Path | None = None, command: str = "explore"
) -> tuple[str, dict[str, Any]]:
    """The source and further arguments of `st.load`. A checkpoint that an earlier command described
    is found again in its run folder."""
    from statetrace.api import ZOO

    reading = reading or {}
    if name.startswith(ZOO):
        checkpoint(name.removeprefix(ZOO))
    if name.startswith(ZOO) or Run(Path(name)).exists():
        for option, value in reading.items():
            shown = f"--{option.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise StatetraceError(f"{shown} is not needed: '{name}' records its task")
        return name, {}
    folder = out or _usual_folder(name)
    if not {"group", "length"} <= reading.keys() and _describes(Run(folder), name, reading):
        return str(folder), {}
    _check_described(name, reading, command)
    return name, _as_python(reading)


def _usual_folder(name: str) -> Path:
    """runs/NAME for a checkpoint in some/folder/NAME."""
    return Path("runs") / Path(name).resolve().name


def _free_folder(name: str, arguments: dict[str, Any]) -> Path:
    """runs/NAME, or runs/NAME-2 and so on if that holds another reading of the checkpoint."""
    from statetrace.api.loading import described

    usual = folder = _usual_folder(name)
    number = 1
    while Run(folder).exists() and (other := described(name, arguments).differences(Run(folder))):
        number += 1
        note(f"'{folder}' holds results with {other}")
        folder = usual.with_name(f"{usual.name}-{number}")
    return folder


def folder_of(name: str, reading: dict[str, Any] | None = None, work: Work | None = None) -> Path:
    """The folder of a run, of a study, or of the results of another checkpoint; with `work`, the
    verdict of a checkpoint that was not analyzed yet is computed."""
    from statetrace.reports.page import is_study

    path = Path(name)
    if is_study(path):
        from statetrace.studies.folder import Study

        for sentence in Study.existing(path).damages():
            note(sentence)
        return path
    model = tracked_model(name, reading, command="report")
    assert model.run is not None
    folder = model.run.path
    untouched = not (folder / "lenses").is_dir()
    described = bool(reading) and not (folder / "verdict.json").is_file()  # or interrupted
    if work is not None and model.run.external and (untouched or described):
        model.verdict(work.lens, work.estimate)
    return folder


def _describes(run: Run, name: str, reading: dict[str, Any]) -> bool:
    """Whether an earlier command wrote this run folder about the checkpoint, read as in `reading`,
    as far as that goes."""
    external = ExternalCheckpoint.of(run) if run.exists() else None
    if external is None or Path(external.folder) != Path(name).resolve():
        return False
    recorded = external.to_json() | {"no_start_marker": not external.start_marker}
    recorded["tokens"] = ",".join(map(str, external.tokens or ()))
    return all(recorded[option] == value for option, value in reading.items())


def _check_described(name: str, reading: dict[str, Any], command: str) -> None:
    """Ask for the group and the length with the command that would work."""
    folder = Path(name)
    missing = [option for option in ("group", "length") if option not in reading]
    check_not_file(name)
    if folder.is_dir() and not (folder / "config.json").is_file():
        files = [*folder.glob("*/run.json"), *folder.glob("cells/*/run.json")]  # of a study
        runs = sorted(str(path.parent) for path in files)
        inside = f"; give a run in it: {', '.join(runs[:5])}" if runs else ""
        more = ", ..." if len(runs) > 5 else ""
        raise StatetraceError(
            f"'{name}' is neither a run folder (it has no run.json) nor a Hugging Face checkpoint "
            f"(it has no config.json){inside}{more}"
        )
    if not missing:
        return
    words = ["statetrace", command, name]
    words += ["--group", reading.get("group", "S3"), "--length", str(reading.get("length", 14))]
    problem = f"'{name}' does not record its task;"
    if not folder.is_dir():
        problem = f"{no_folder(name)}; for a model id on the hub,"
    raise StatetraceError(
        f"{problem} add the {' and '.join(missing)} it was trained with, as in "
        f"`{shlex.join(words)}`"
    )


def _as_python(reading: dict[str, Any]) -> dict[str, Any]:
    """Options of the command line as arguments of `st.load`."""
    arguments = {name: value for name, value in reading.items() if name != "no_start_marker"}
    arguments["start_marker"] = not reading.get("no_start_marker", False)
    if (tokens := arguments.get("tokens")) is not None:
        try:
            arguments["tokens"] = [int(number) for number in tokens.split(",")]
        except ValueError:
            raise StatetraceError(
                f"--tokens '{tokens}' must be numbers separated by commas"
            ) from None
    return arguments
