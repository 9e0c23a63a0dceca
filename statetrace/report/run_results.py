"""What a run folder says about one checkpoint: the lenses' results, the verdict, and who it is.

    RUN/lenses/             the newest checkpoint
    RUN/lenses/step-N/      others, where `statetrace analyze --checkpoint` was asked for them
    .../length-N/           what lenses saw of shorter sequences (`--at-length`); the longest of
                            these counts where a lens has seen nothing else

Cost: files are read when asked for, once. Caveat: a result that cannot be read counts as missing,
and `trouble` says why: one damaged file does not keep the rest from being drawn.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.lenses.fingerprint import differ, weights_of
from statetrace.lenses.result import NAMES, LensResult, command
from statetrace.runs import Run


@dataclass(frozen=True)
class RunResults:
    """One checkpoint of one run, as far as lenses have looked at it.

    Attributes:
        step: of training; None where that is not known (a checkpoint from elsewhere).
        trouble: sentences on what could not be read.
        kept: what figures have worked out from the tables, for their other views.
    """

    run: Run
    folder: Path
    step: int | None = None
    _read: dict[str, LensResult | None] = field(default_factory=dict, compare=False, repr=False)
    _damage: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    trouble: list[str] = field(default_factory=list, compare=False, repr=False)
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def lens(self, name: str) -> LensResult | None:
        """Its result, None where there is none to read."""
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def need(self, name: str) -> LensResult:
        found = self.lens(name)
        if found is None and self.logless and name == "dynamics":
            raise StatetraceError(
                f"'{self.run.path}' was not trained here, so there is no log of its training"
            )
        if found is None and name in self._damage:
            raise StatetraceError(self._damage[name])
        if found is None and name in self.outdated:
            raise StatetraceError(
                f"the '{name}' in '{self.folder}' is about other weights than the model has now; "
                f"`{self.command(name)}` makes it anew"
            )
        if found is None:
            raise StatetraceError(
                f"'{self.folder}' has no '{name}'; `{self.command(name)}` makes it"
            )
        return found

    @cached_property
    def weights(self) -> str | None:
        """Fingerprint of a checkpoint from elsewhere, as it is now."""
        return weights_of(self.run)

    @cached_property
    def outdated(self) -> list[str]:
        """Lenses that looked at other weights than are there now; they count as not there."""
        files = _results(self.folder)
        found = {file.stem for file in files if differ(_subject(file).get("weights"), self.weights)}
        return [name for name in NAMES if name in found]

    @property
    def logless(self) -> bool:
        """Whether it was trained elsewhere, or not at all."""
        return "foreign" in self.run.info

    def command(self, name: str) -> str:
        """What makes a missing result."""
        return command(self.folder, name)

    def place(self, name: str) -> tuple[int | None, Path] | None:
        """The folder with a lens's result, and the length it looked at if it is a shorter one. What
        is about a newer checkpoint goes first; then what looked at whole sequences, or at longer
        ones."""
        whole = self.folder / f"{name}.json"
        found = [(_step_of(whole) or 0, True, 0, self.folder)] if self._counts(whole) else []
        for path in self.folder.glob("length-*"):
            match, file = re.fullmatch(r"length-(\d+)", path.name), path / f"{name}.json"
            if match and self._counts(file) and _step_of(file) == self.step:
                found.append((self.step or 0, False, int(match[1]), path))
        if not found:
            return None
        _, at_whole, length, folder = max(found)
        return None if at_whole else length, folder

    def _counts(self, file: Path) -> bool:
        """Whether it is there, and about the weights that are."""
        return file.is_file() and not differ(_subject(file).get("weights"), self.weights)

    @cached_property
    def shorter(self) -> int | None:
        """The length that lenses looked at, where that is shorter than what it is trained on."""
        places = [place for name in NAMES if (place := self.place(name)) is not None]
        return max((length for length, _ in places if length is not None), default=None)

    def seen(self, name: str) -> int:
        """The length that a lens looked at."""
        place = self.place(name)
        return self.length if place is None or place[0] is None else place[0]

    def _load(self, name: str) -> LensResult | None:
        place = self.place(name)
        if place is None:
            return None
        try:
            return LensResult.load(place[1], name)
        except StatetraceError as damage:
            self.trouble.append(str(damage))
            self._damage[name] = str(damage)
            return None

    @cached_property
    def task(self) -> dict[str, Any]:
        """group, length and notation, from run.json."""
        info = self.run.info
        found = info["foreign"] if "foreign" in info else self.run.recipe.get("task", {})
        try:
            return {key: found[key] for key in ("group", "length", "notation")}
        except (KeyError, TypeError):
            raise StatetraceError(
                f"{self.run.path / 'run.json'} does not say which group and length it is about"
            ) from None

    @cached_property
    def group(self) -> Group:
        return self.run.group

    @property
    def length(self) -> int:
        return int(self.task["length"])

    @cached_property
    def verdict(self) -> dict[str, Any] | None:
        """RUN/verdict.json."""
        file = self.run.path / "verdict.json"
        if not file.is_file():
            return None
        try:
            found = json.loads(file.read_text())
            if not isinstance(found, dict) or "mechanism" not in found:
                raise ValueError("it names no mechanism")
        except (OSError, ValueError) as error:
            self.trouble.append(f"'{file}' cannot be read ({error})")
            return None
        if differ(found.get("weights"), self.weights):
            asked = shlex.join(["statetrace", "verdict", str(self.run.path)])
            self.trouble.append(
                f"'{file}' is about other weights than the model has now; `{asked}` makes it anew"
            )
            return None
        return found

    @cached_property
    def about(self) -> str:
        """What was trained, in a few words."""
        info = self.run.info
        where = f"{self.group.name}, length {self.length}"
        if self.shorter is not None:
            where += f" (looked at up to length {self.shorter})"
        if "compiled" in info:
            return f"compiled by hand: {info['compiled'].get('algorithm', 'a program')} on {where}"
        if "zoo" in info:
            return f"{info['zoo']} of the zoo, trained on {where}"
        if "foreign" in info:
            return f"a checkpoint from elsewhere on {where}"
        model = self.run.recipe.get("model", {})
        said = [str(model.get("name", "a model")), f"on {where}"]
        if model.get("layers"):
            said.insert(1, f"with {model['layers']} layers, width {model.get('width')}")
        if model.get("pretrained"):
            said.insert(1, "(pretrained)")
        stages = self.run.recipe.get("stage") or self.run.recipe.get("stages")
        if isinstance(stages, list) and len(stages) > 1:
            said[-1] += f", trained on {' then '.join(stage_names(stages, self.length))}"
        return " ".join(said)


def all_results(run: Run) -> list[RunResults]:
    """All checkpoints that lenses have looked at, by step; the newest comes last, and is there even
    if nothing has been measured yet."""
    folder = run.path / "lenses"
    early = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = re.fullmatch(r"step-(\d+)", path.name)
        if match and _results(path):
            early.append(RunResults(run, path, int(match[1])))
    early.sort(key=lambda look: look.step or 0)
    if not _results(folder) and early:
        return early
    newest = RunResults(run, folder, _newest_step(folder))
    if newest.outdated:
        asked = shlex.join(["statetrace", "analyze", str(run.path)])
        newest.trouble.append(
            f"{', '.join(newest.outdated)}: about other weights than the model has now, and left "
            f"out; `{asked}` makes them anew"
        )
    return [look for look in early if look.step != newest.step] + [newest]


def newest(path: Path) -> RunResults:
    """The last checkpoint of the run in that folder."""
    return all_results(Run.existing(path))[-1]


def _results(folder: Path) -> list[Path]:
    """Of lenses, at any length."""
    return sorted(folder.glob("*.json")) + sorted(folder.glob("length-*/*.json"))


def _newest_step(folder: Path) -> int | None:
    """Which step the results in RUN/lenses are about, as they say themselves."""
    steps = [step for file in _results(folder) if (step := _step_of(file)) is not None]
    return max(steps, default=None)


def _step_of(file: Path) -> int | None:
    step = _subject(file).get("step")
    return step if isinstance(step, int) else None


def _subject(file: Path) -> dict[str, Any]:
    """Whom a result is about, as it says itself; nothing where it cannot be read."""
    try:
        found = json.loads(file.read_text())["subject"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def stage_names(chain: Sequence[dict[str, Any]], longest: int) -> list[str]:
    """ "10 actions", "25 actions"; or "topic", "state"; or both, where both change."""
    lengths = [f"{stage_length(stage, longest)} actions" for stage in chain]
    objectives = [str(stage.get("objective", "?")) for stage in chain]
    parts = [words for words in (objectives, lengths) if len(set(words)) > 1]
    told = [" of ".join(words) for words in zip(*parts, strict=True)] or objectives
    unique = len(set(told)) == len(told)
    return told if unique else [f"stage {n}: {words}" for n, words in enumerate(told, start=1)]


def stage_length(stage: dict[str, Any], longest: int) -> int:
    """Of its sequences."""
    return int(stage.get("length") or longest)
