"""The lens results, the verdict and the task of one checkpoint: what figures and the report read.

`RunResults` holds results in memory; `FolderResults` reads those of a run folder:

    RUN/lenses/             the newest checkpoint
    RUN/lenses/step-N/      earlier checkpoints (`statetrace analyze --checkpoint`)
    .../length-N/           results on shorter sequences (`--at-length`); the longest of these is
                            used where a lens has no result at full length

Cost: each file is read once, when needed. Caveat: a result that cannot be read counts as missing,
and `trouble` records why, so that one damaged file does not keep the rest from being drawn.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.files import read_json
from statetrace.groups import Group
from statetrace.lenses.fingerprint import differ, weights_of
from statetrace.lenses.registry import BUILTIN, WHOLE
from statetrace.lenses.result import LensResult, command
from statetrace.runs import Run


class RunResults:
    """The lens results of one checkpoint, in memory.

    Attributes:
        name: a short name for headings.
        location: a longer one, for two models with the same name.
        group, length: the task.
        step: of training; None if unknown.
        about: the model and its training in one phrase.
        verdict: the content of verdict.json, None without a verdict.
        log: the run with the training log; None for models trained elsewhere.
        trouble: sentences about results that could not be read.
    """

    log: Run | None = None
    step: int | None = None

    def __init__(
        self,
        results: Mapping[str, LensResult] | Iterable[LensResult],
        group: Group,
        length: int,
        name: str = "model",
        verdict: Mapping[str, Any] | None = None,
    ) -> None:
        listed = results.values() if isinstance(results, Mapping) else results
        self._results: dict[str, LensResult | None] = {result.lens: result for result in listed}
        self.group, self.length = group, length
        self.name = self.location = name
        self.about = f"{group.name}, length {length}"
        self.verdict = verdict
        self.trouble: list[str] = []

    def lens(self, name: str) -> LensResult | None:
        """The result of a lens, None if there is none."""
        return self._results.get(name)

    def need(self, name: str) -> LensResult:
        """The result of a lens; an error that says how to compute it if there is none."""
        result = self.lens(name)
        if result is None:
            reason, remedy = self.missing(name)
            raise StatetraceError(reason + (f"; `{remedy}` computes them" if remedy else ""))
        return result

    def all(self) -> dict[str, LensResult]:
        """Every result that can be read, the built-in lenses first."""
        names = dict.fromkeys([*BUILTIN, *self._names()])
        return {name: result for name in names if (result := self.lens(name)) is not None}

    def missing(self, name: str) -> tuple[str, str]:
        """Why a lens has no result, and the command that computes it ("" if none can)."""
        return f"no {name} results yet", f'model.analyze(["{name}"])'

    @property
    def verdict_command(self) -> str:
        return "model.verdict()"

    def length_of(self, name: str) -> int:
        """The length at which a lens analyzed the model."""
        result = self.lens(name)
        return self.length if result is None else int(result.summary.get("length", self.length))

    def _names(self) -> Iterable[str]:
        return self._results


class FolderResults(RunResults):
    """The results of one checkpoint in a run folder, read when needed."""

    def __init__(self, run: Run, folder: Path, step: int | None = None) -> None:
        self.run, self.folder, self.step = run, folder, step
        self.name, self.location = run.path.resolve().name or str(run.path), str(run.path)
        self.log = None if "foreign" in run.info else run
        self._results = {}
        self._damage: dict[str, str] = {}
        self.trouble = []

    def lens(self, name: str) -> LensResult | None:
        if name not in self._results:
            self._results[name] = self._load(name)
        return self._results[name]

    def missing(self, name: str) -> tuple[str, str]:
        if self.log is None and name == "dynamics":
            return f"'{self.run.path}' was not trained here and has no training log", ""
        if name in self._damage:
            return self._damage[name], ""
        reason = f"no {name} results in '{self.folder}' yet"
        if name in self.outdated:
            reason = f"the {name} results in '{self.folder}' are of other weights than the model's"
        if not self.run.has_weights:
            return f"{reason}, and '{self.run.path}' has no weights to compute them from", ""
        at_length = None if name in WHOLE else self.shorter_length
        shorter = "" if at_length is None else f"length-{at_length}"
        return reason, command(self.folder / shorter, name)

    @property
    def verdict_command(self) -> str:
        return shlex.join(["statetrace", "verdict", str(self.run.path)])

    def length_of(self, name: str) -> int:
        return self._location(name)[0] or self.length

    def _names(self) -> Iterable[str]:
        return dict.fromkeys(file.stem for file in _result_files(self.folder))

    def _outdated(self, subject: Mapping[str, Any], step: int | None) -> bool:
        """Whether a result or verdict describes other weights than the checkpoint's."""
        return differ(subject.get("weights"), self._weights(step))

    @cached_property
    def _weights(self) -> Callable[[int | None], str | None]:
        return cache(partial(weights_of, self.run))

    @cached_property
    def outdated(self) -> list[str]:
        """Lenses whose results are of other weights than the current ones; they are ignored."""
        files = _result_files(self.folder)
        stems = {file.stem for file in files if self._outdated(_subject(file), _step_of(file))}
        return [name for name in dict.fromkeys([*BUILTIN, *sorted(stems)]) if name in stems]

    def _location(self, name: str) -> tuple[int | None, Path | None]:
        """The length of the result of a lens (None: full length) and its folder. Results of a newer
        checkpoint come first, then those at full length, then longer ones."""
        whole = self.folder / f"{name}.json"
        usable = [(_step_of(whole) or 0, True, 0, self.folder)] if self._usable(whole) else []
        for path in self.folder.glob("length-*"):
            match, file = re.fullmatch(r"length-(\d+)", path.name), path / f"{name}.json"
            if match and self._usable(file) and _step_of(file) == self.step:
                usable.append((self.step or 0, False, int(match[1]), path))
        if not usable:
            return None, None
        _, at_full_length, length, folder = max(usable)
        return None if at_full_length else length, folder

    def _usable(self, file: Path) -> bool:
        return file.is_file() and not self._outdated(_subject(file), _step_of(file))

    def _load(self, name: str) -> LensResult | None:
        folder = self._location(name)[1]
        if folder is None:
            return None
        try:
            return LensResult.load(folder, name)
        except StatetraceError as damage:
            self.trouble.append(str(damage))
            self._damage[name] = str(damage)
            return None

    @cached_property
    def shorter_length(self) -> int | None:
        """The longest length below the training length to which lenses were restricted."""
        return max((n for name in self._names() if (n := self._location(name)[0])), default=None)

    @cached_property
    def group(self) -> Group:  # type: ignore[override]
        return self.run.group

    @cached_property
    def length(self) -> int:  # type: ignore[override]
        return int(self.run.task["length"])

    @cached_property
    def verdict(self) -> Mapping[str, Any] | None:  # type: ignore[override]
        file, remedy = self.run.path / "verdict.json", f"`{self.verdict_command}`"
        if not file.is_file():
            return None
        try:
            verdict: dict[str, Any] = read_json(file)
            if "mechanism" not in verdict:
                raise ValueError("it names no mechanism")
        except (OSError, ValueError) as error:
            self.trouble.append(f"'{file}' is damaged ({error}); {remedy} writes it again")
            return None
        if self._outdated(verdict, None):
            why = "is of other weights than the model's"
            self.trouble.append(f"'{file}' {why}; {remedy} recomputes it")
            return None
        return verdict

    @cached_property
    def about(self) -> str:  # type: ignore[override]
        info = self.run.info
        task = f"{self.group.name}, length {self.length}"
        if self.shorter_length is not None:
            task += f" (analyzed up to length {self.shorter_length})"
        if "compiled" in info:
            spec = info["compiled"]
            second = f" and {spec['second']}" if spec.get("second") else ""
            return f"compiled model: {spec.get('algorithm', 'a program')}{second} on {task}"
        if "zoo" in info:
            return f"bundled model {info['zoo']}, trained on {task}"
        if "foreign" in info:
            return f"external checkpoint on {task}"
        model = self.run.recipe.get("model", {})
        parts = [str(model.get("name", "a model")), f"on {task}"]
        if model.get("layers"):
            parts.insert(1, f"with {model['layers']} layers, width {model.get('width')}")
        if model.get("pretrained"):
            parts.insert(1, "(pretrained)")
        stages = self.run.recipe.get("stage") or self.run.recipe.get("stages")
        if isinstance(stages, list) and len(stages) > 1:
            parts[-1] += f", trained on {' then '.join(stage_names(stages, self.length))}"
        return " ".join(parts)


def all_results(run: Run) -> list[FolderResults]:
    """Every analyzed checkpoint of a run by step; the newest comes last and is included even if
    nothing has been measured yet."""
    folder = run.path / "lenses"
    earlier = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = re.fullmatch(r"step-(\d+)", path.name)
        if match and _result_files(path):
            earlier.append(FolderResults(run, path, int(match[1])))
    earlier.sort(key=lambda results: results.step or 0)
    files = _result_files(folder)
    if not files and earlier:
        return earlier
    steps = [step for file in files if (step := _step_of(file)) is not None]
    last = FolderResults(run, folder, max(steps, default=None))
    if last.outdated:
        lenses = ",".join(last.outdated)
        remedy = shlex.join(["statetrace", "analyze", str(run.path), "--only", lenses])
        last.trouble.append(
            f"{', '.join(last.outdated)}: ignored, because the results are of other weights than "
            f"the model's; `{remedy}` recomputes them"
        )
    return [results for results in earlier if results.step != last.step] + [last]


def newest(path: Path) -> FolderResults:
    """The last checkpoint of the run in that folder."""
    return all_results(Run.existing(path))[-1]


def _result_files(folder: Path) -> list[Path]:
    """The summaries of all results in a folder, at any length."""
    return sorted(folder.glob("*.json")) + sorted(folder.glob("length-*/*.json"))


def _step_of(file: Path) -> int | None:
    step = _subject(file).get("step")
    return step if isinstance(step, int) else None


def _subject(file: Path) -> dict[str, Any]:
    """Which checkpoint a result describes; {} if the file cannot be read."""
    try:
        subject = read_json(file)["subject"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return subject if isinstance(subject, dict) else {}


def stage_names(stages: Sequence[dict[str, Any]], longest: int) -> list[str]:
    """ "10 actions", "25 actions"; or "topic", "state"; or both, where both change."""
    lengths = [f"{stage_length(stage, longest)} actions" for stage in stages]
    objectives = [str(stage.get("objective", "?")) for stage in stages]
    varied = [values for values in (objectives, lengths) if len(set(values)) > 1]
    names = [" of ".join(values) for values in zip(*varied, strict=True)] or objectives
    unique = len(set(names)) == len(names)
    return names if unique else [f"stage {n}: {name}" for n, name in enumerate(names, start=1)]


def stage_length(stage: dict[str, Any], longest: int) -> int:
    """The length of its sequences."""
    return int(stage.get("length") or longest)
