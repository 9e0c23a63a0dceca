"""ExternalCheckpoint: how to read a checkpoint that statetrace did not train. Needs no torch.

A run folder about such a checkpoint holds no training; its run.json has these settings under the
key "foreign". Bundled and compiled models use the same form.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from statetrace.config.checks import need, one_of, whole
from statetrace.config.settings import FORMS, setting
from statetrace.errors import StatetraceError
from statetrace.groups import GroupSpec, group_name, store_group
from statetrace.groups import group as resolve_group
from statetrace.runs import Run

HIDDEN, VISIBLE = PADDINGS = ("hidden", "visible")


@dataclass(frozen=True)
class ReadingOptions:
    """How a checkpoint is read, as options of the command line; see `st.load`."""

    group: str | None = setting(
        None, "The group it was trained on: S3, a .json file or module:name."
    )
    length: int | None = setting(None, "Actions per training sequence.")
    notation: str | None = setting(
        None,
        "How to read 312: 'moves' (object 1 moves to position 3; the default) or 'receives' "
        "(position 1 receives object 3).",
    )
    tokens: str | None = setting(
        None,
        "Token id of each element, in the order of the group's labels, separated by commas "
        "(default: 0,1,2,...; for text, the tokens that spell the states).",
    )
    no_start_marker: bool | None = setting(
        None, "Sequences begin with the first action, without a marker."
    )
    start_token: int | None = setting(
        None,
        "Token id of the start marker (default: the one after the last element; for text, "
        "`<start>`, if there is one).",
    )
    form: str | None = setting(
        None,
        "How actions are written: tokens (one each; the default), or text, read with the "
        "checkpoint's tokenizer.json; the state is predicted at each period.",
    )
    paraphrases: int | None = setting(None, "text: number of built-in paraphrases per action.")
    phrases: str | None = setting(
        None,
        'text: sentences to use instead, a JSON file: {"132": "Swap positions 2 and 3.", ...}.',
    )
    padding: str | None = setting(
        None,
        "text: whether padding is visible to the model: hidden (plain text, the default) or "
        "visible (as to models trained by `statetrace train`).",
    )


@dataclass(frozen=True)
class ExternalCheckpoint:
    """Settings that a checkpoint does not record itself.

    Attributes:
        group, length: the word problem it was trained on.
        tokens: tokens[g] is the token id of element g; by default token i is element i. For text,
            the ids of the answers; by default the tokens that spell the states.
        start_marker: whether sequences begin with a marker; ignored where the vocabulary has no
            spare token (for text, no <start>).
        start_token: id of the marker; by default the one after the last element, for text <start>.
        form: "tokens", one per action, or "text", read with the checkpoint's own tokenizer.
        paraphrases: number of built-in paraphrases of every action.
        phrases: the caller's own sentences instead, by label.
        padding: whether the padding of short sentences is "hidden" from the model or "visible", as
            it is to models trained by statetrace.
        folder: the checkpoint, relative to the run folder or absolute.
    """

    group: GroupSpec
    length: int
    notation: str = "moves"
    tokens: tuple[int, ...] | None = None
    start_marker: bool = True
    start_token: int | None = None
    form: str = "tokens"
    paraphrases: int = 1
    phrases: dict[str, list[str]] | None = None
    padding: str = HIDDEN
    folder: str = "."

    def __post_init__(self) -> None:
        one_of("form", self.form, FORMS)
        one_of("padding", self.padding, PADDINGS)
        whole("length", self.length, 1)
        whole("paraphrases", self.paraphrases, 1)
        for token in self.tokens or ():
            whole("token id", token, 0)
        if self.start_token is not None:
            whole("start_token", self.start_token, 0)
        need(
            isinstance(self.start_marker, bool),
            f"start_marker must be true or false, not {self.start_marker!r}",
        )
        if not self.start_marker and self.start_token is not None:
            raise StatetraceError(
                f"start_token {self.start_token} contradicts start_marker = false"
            )

    @staticmethod
    def of(run: Run) -> ExternalCheckpoint | None:
        """The settings in run.json; None for a run that was trained here."""
        if not run.external:
            return None
        settings = dict(run.info["foreign"])
        tokens = settings.pop("tokens", None)
        try:
            return ExternalCheckpoint(**settings, tokens=None if tokens is None else tuple(tokens))
        except TypeError:
            raise StatetraceError(
                f"{run.path / 'run.json'} is damaged: it does not record how to read the checkpoint"
            ) from None

    def describe(self, run: Run, **details: Any) -> None:
        """Write the run.json of a folder about this checkpoint. A folder that holds another run is
        refused; a bundled or compiled model may have moved since."""
        run.check_new()
        named = dataclasses.replace(self, group=group_name(self.group))
        if run.exists():
            before, info = ExternalCheckpoint.of(run), run.info
            if before is not None and details:
                before = dataclasses.replace(before, folder=self.folder)
            if before != named or any(info.get(key) != value for key, value in details.items()):
                differences = self.differences(run)
                content = "another run" if differences is None else f"results with {differences}"
                raise StatetraceError(
                    f"'{run.path}' already holds {content}; choose another folder, such as "
                    f"{run.path}-2"
                )
        info = {"format": 1, "foreign": self.to_json(), **details}
        if not run.exists():
            store_group(run.path, resolve_group(self.group, self.notation))
        if not run.exists() or run.info != info:
            run.write_info(info)

    def differences(self, run: Run) -> str | None:
        """How the results in a folder read the same checkpoint in another way, as in "notation
        moves instead of receives"; None for the same reading, and for anything else."""
        before = ExternalCheckpoint.of(run) if run.exists() else None
        if before is None or before.folder != self.folder:
            return None
        named = dataclasses.replace(self, group=group_name(self.group))
        names = [field.name for field in dataclasses.fields(self)]
        pairs = [(name, getattr(before, name), getattr(named, name)) for name in names]
        parts = [
            f"{name} {_shown(old)} instead of {_shown(new)}"
            for name, old, new in pairs
            if old != new
        ]
        return ", ".join(parts) or None

    def to_json(self) -> dict[str, Any]:
        tokens = None if self.tokens is None else list(self.tokens)
        named = dataclasses.replace(self, group=group_name(self.group))
        return dataclasses.asdict(named) | {"tokens": tokens}

    def path(self, run: Run) -> Path:
        """The checkpoint's folder; of a bundled model that of this installation."""
        bundled = run.info.get("zoo")
        if isinstance(bundled, str):
            return Path(str(files("statetrace"))) / "zoo" / bundled
        return run.path / self.folder


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "as usual" if value is None else str(value)
