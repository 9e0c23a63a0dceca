"""`st.load`: a model together with its task, from any source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from statetrace import zoo
from statetrace.api.model import TrackedModel
from statetrace.config.checks import as_path, is_whole, no_folder
from statetrace.config.external import HIDDEN, VISIBLE, ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.runs import OnMessage, Run, no_message

ZOO = "zoo:"


def load(
    source: Any,
    *,
    group: str | Group | None = None,
    length: int | None = None,
    notation: str = "moves",
    tokens: Sequence[int] | None = None,
    start_marker: bool = True,
    start_token: int | None = None,
    form: str = "tokens",
    paraphrases: int | None = None,
    phrases: Mapping[str, Sequence[str]] | str | Path | None = None,
    padding: str | None = None,
    step: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    on_message: OnMessage = no_message,
) -> TrackedModel:
    """Load a model together with its task, from any source.

    Args:
        source: a run folder, "zoo:NAME", a Hugging Face folder or model id, or a model in memory.
            The last three do not record their task; describe it with `group`, `length` and the
            settings that follow.
        group: the group it was trained on: a name such as "S3", a file, or a Group.
        length: actions per training sequence.
        notation: how to read 312: "moves" (object 1 moves to position 3) or "receives".
        tokens: token id of each element, in the order of the group's labels; by default 0, 1, 2...
        start_marker: whether sequences begin with a marker token.
        start_token: its id; by default the one after the last element.
        form: "tokens", one per action, or "text", read with the checkpoint's own tokenizer.
        paraphrases: for text, number of built-in paraphrases.
        phrases: for text, sentences of your own by label, or a JSON file of them.
        padding: for text, whether padding is "hidden" from the model or "visible".
        step: the step of a run's checkpoint; by default that of the newest undamaged one.
        device: "auto", "cpu" or "cuda".
        out: a run folder for the results, which are otherwise kept in memory. A run uses its own
            folder.

    Examples:
        >>> import statetrace as st
        >>> st.load("zoo:s3-associative")
        TrackedModel(zoo:s3-associative: S3, length 24)
    """
    reading = {
        "group": group, "length": length, "tokens": tokens, "start_token": start_token,
        "paraphrases": paraphrases, "phrases": phrases, "padding": padding,
        "notation": None if notation == "moves" else notation,
        "form": None if form == "tokens" else form,
        "start_marker": None if start_marker is True else start_marker,
    }  # fmt: skip
    reading = {name: value for name, value in reading.items() if value is not None}
    options = {"device": device, "on_message": on_message}
    if isinstance(source, str) and source.startswith(ZOO):
        zoo.checkpoint(source.removeprefix(ZOO))
        _refuse(reading, source)
        if step is not None:
            raise StatetraceError(
                f"'{source}' is one checkpoint and has no step {step}; leave it out"
            )
        return _bundled(source.removeprefix(ZOO), out, **options)
    if isinstance(source, str | Path) and Run(Path(source)).exists():
        _refuse(reading | ({} if out is None else {"out": out}), str(source))
        return TrackedModel(Run(Path(source)), name=str(source), step=step, **options)
    if step is not None:
        raise StatetraceError(
            f"step {step} needs a run folder, but {_named(source)} is one checkpoint; leave it out"
        )
    if isinstance(source, str | Path):
        return _external(str(source), reading, out, **options)
    return _in_memory(source, reading, out, device)


def _bundled(name: str, out: str | Path | None, **options: Any) -> TrackedModel:
    if out is not None:
        return TrackedModel(zoo.adopt(name, as_path("out", out)), name=f"{ZOO}{name}", **options)
    from statetrace.lenses.loading import load_external

    external = zoo.external(name)
    loaded = load_external(Path(external.folder), external, options["device"])
    return TrackedModel(loaded, name=f"{ZOO}{name}")


def _external(
    source: str, reading: dict[str, Any], out: str | Path | None, **options: Any
) -> TrackedModel:
    """A Hugging Face folder, or a model id that is fetched into one."""
    from statetrace.lenses.loading import load_external

    cells = sorted((Path(source) / "cells").glob("*"))
    if (Path(source) / "study.json").is_file() and cells:
        raise StatetraceError(f"'{source}' is a study; load one of its runs, such as '{cells[0]}'")
    problem = f"'{source}' does not record its task:"
    if not Path(source).exists():
        problem = f"{no_folder(source)}; for a model id on the hub"
    _need_task(problem, f'"{source}"', reading)
    external = described(source, reading)
    folder = Path(external.folder)
    if out is None:
        return TrackedModel(load_external(folder, external, options["device"]), name=source)
    run = Run(as_path("out", out))
    if not run.exists() or external.differences(run):
        load_external(folder, external, "cpu")  # refuses before anything is written
    external.describe(run)
    return TrackedModel(run, name=source, **options)


def _in_memory(
    model: Any, reading: dict[str, Any], out: str | Path | None, device: str
) -> TrackedModel:
    from statetrace.lenses.loading import read_model
    from statetrace.models.device import pick_device

    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise StatetraceError(
            f"{_named(model)} is not a model; give a run folder, zoo:NAME, a Hugging Face folder "
            "or model id, or a transformers model"
        )
    if out is not None:
        raise StatetraceError(f"out '{out}' needs a checkpoint on disk; save the model first")
    _need_task(f"'{_named(model)}' does not record its task:", "model", reading)
    if device != "auto":
        model = model.to(pick_device(device))
    return TrackedModel(read_model(model.eval(), _described(reading, None), None), name="in memory")


def described(source: str, reading: Mapping[str, Any]) -> ExternalCheckpoint:
    """How a Hugging Face folder or model id is to be read, from settings of `load`."""
    from statetrace.models.checkpoint import locate

    folder = locate(source)
    external = _described(dict(reading), folder)
    return dataclasses.replace(external, folder=str(folder.resolve()))


def _described(reading: dict[str, Any], folder: Path | None) -> ExternalCheckpoint:
    """Settings of `load` as an ExternalCheckpoint, contradictions refused."""
    text = {name: reading.pop(name, None) for name in ("paraphrases", "phrases", "padding")}
    given = [f"{name} {value}" for name, value in text.items() if value is not None]
    if reading.get("form", "tokens") != "text":
        if given:
            raise StatetraceError(
                f"{given[0]} has no effect with form 'tokens'; set form to 'text'"
            )
        return ExternalCheckpoint(**_tuples(reading))
    phrases, padding = text["phrases"], text["padding"]
    if phrases is not None and (text["paraphrases"] is not None or padding == VISIBLE):
        other = given[0] if text["paraphrases"] is not None else given[-1]
        raise StatetraceError(f"phrases '{phrases}' contradicts {other}; leave one of them out")
    if isinstance(phrases, str | Path):
        from statetrace.tasks.plain_text import read_wordings

        phrases = read_wordings(Path(phrases))
    # `statetrace train` writes training.json, and its models see their padding
    trained_here = folder is not None and (folder / "training.json").is_file()
    usual = VISIBLE if trained_here and phrases is None else HIDDEN
    return ExternalCheckpoint(
        **_tuples(reading),
        paraphrases=text["paraphrases"] or 1,
        phrases=phrases,
        padding=padding or usual,
    )


def _tuples(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with tokens as a tuple and integers of numpy as those of Python, to be saved."""
    tokens = reading.get("tokens", ())
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise StatetraceError(f"tokens must be a list of token ids, not {tokens!r}")
    plain = {name: int(value) if is_whole(value) else value for name, value in reading.items()}
    ids = tuple(int(token) if is_whole(token) else token for token in tokens)
    return plain | ({"tokens": ids} if "tokens" in reading else {})


def _need_task(problem: str, source: str, reading: Mapping[str, Any]) -> None:
    missing = [name for name in ("group", "length") if name not in reading]
    if missing:
        example = f'st.load({source}, group="S3", length=14)'
        raise StatetraceError(f"{problem} also give {' and '.join(missing)}, as in {example}")


def _refuse(reading: Mapping[str, Any], source: str) -> None:
    if reading:
        name, value = next(iter(reading.items()))
        raise StatetraceError(f"{name} {value} is not needed: '{source}' records its task")


def _named(source: object) -> str:
    return repr(source) if isinstance(source, str | Path) else type(source).__name__
