"""How `statetrace analyze --model` is told to read a checkpoint that statetrace did not train."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.runs import Run


def ids(tokens: str | None) -> tuple[int, ...] | None:
    if tokens is None:
        return None
    try:
        return tuple(int(word) for word in tokens.split(","))
    except ValueError:
        raise StatetraceError(f"--tokens '{tokens}' should be numbers with commas") from None


def words(
    model: Path, form: str, paraphrases: int | None, phrases: Path | None, padding: str | None
) -> dict[str, Any]:
    """How it is told actions in words, as far as it is."""
    given = {"--paraphrases": paraphrases, "--phrases": phrases, "--padding": padding}
    said = [f"{name} {value}" for name, value in given.items() if value is not None]
    if form != "text":
        if said:
            raise StatetraceError(f"{said[0]} is for --form text")
        return {"form": form}
    if phrases is not None and (paraphrases is not None or padding == "visible"):
        other = said[0] if paraphrases is not None else said[-1]
        raise StatetraceError(f"--phrases '{phrases}' contradicts {other}; leave one of them out")
    from statetrace.tasks.plain_text import read_wordings

    ours = (model / "training.json").is_file()  # `train` wrote it, and shows its padding
    usual = "visible" if ours and phrases is None else "hidden"
    return {
        "form": form,
        "paraphrases": 1 if paraphrases is None else paraphrases,
        "phrases": None if phrases is None else read_wordings(phrases),
        "padding": padding or usual,
    }


def adopt(
    model: Path, group: str | None, length: int | None, target: Path | None, how: dict[str, Any]
) -> Run:
    """Write a run.json that says how to read someone else's checkpoint."""
    from statetrace.lenses.loading import ExternalCheckpoint

    if group is None or length is None or target is None:
        given = {"--group": group, "--length": length, "--out": target}
        missing = ", ".join(name for name, value in given.items() if value is None)
        raise StatetraceError(f"--model '{model}' also needs {missing}")
    run = Run(target)
    run.check_new()
    reading = ExternalCheckpoint(group, length, **how)
    about = dataclasses.asdict(reading) | {"folder": str(model.resolve())}
    if run.exists() and run.info.get("foreign") != _as_json(about):
        raise StatetraceError(f"'{target}' already holds another run; choose another --out")
    from statetrace.lenses.loading import from_checkpoint

    from_checkpoint(model, reading, "cpu")  # refuses before anything is written
    run.write_info({"format": 1, "foreign": _as_json(about)})
    return run


def _as_json(about: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in about.items()}
