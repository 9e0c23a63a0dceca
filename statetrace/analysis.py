"""The pipeline from a model to a verdict: lens results, computed once and stored, and the verdict.

    Analyzer(run).analyze(["patching"])     results by lens, from RUN/lenses if stored there
    Analyzer(run).verdict()                 computes missing results, writes RUN/verdict.json

The Python interface (api/), the command line and studies all use this. Results of a run folder are
stored in RUN/lenses (RUN/lenses/step-N for an older checkpoint), all others in memory.

Cost: see the lenses. A verdict from stored results needs no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.errors import StatetraceError
from statetrace.lenses.fingerprint import differ, weights_of
from statetrace.lenses.result import WHOLE, LensResult
from statetrace.mechanisms.compatibility import incompatibility
from statetrace.mechanisms.cutoff_verdict import cutoff_verdict
from statetrace.mechanisms.mastery import LEARNED, enough, solved_length
from statetrace.mechanisms.verdict import Verdict, verdict
from statetrace.runs import Run, write_json

if TYPE_CHECKING:
    from statetrace.groups import Group
    from statetrace.lenses.loading import LoadedModel

USED_BY_VERDICT = ("generalization", "probing", "patching", "depth", "attention", "dynamics")

ABLE = "able"
"""As a length: the longest one that the model solves."""

OnProgress = Callable[[str, float], None]
OnMessage = Callable[[str], None]


def no_progress(lens: str, share: float) -> None:
    """Ignore progress."""


def no_message(message: str) -> None:
    """Ignore messages."""


@dataclass(frozen=True)
class Store:
    """Lens results of one checkpoint, in a folder (RUN/lenses) or, without one, in memory."""

    folder: Path | None = None
    _memory: dict[tuple[str, int | None], LensResult] = field(default_factory=dict, repr=False)

    def place(self, length: int | None = None) -> Path | None:
        """The folder of results at a length shorter than the task's."""
        if self.folder is None or length is None:
            return self.folder
        return self.folder / f"length-{length}"

    def get(self, lens: str, length: int | None = None) -> LensResult | None:
        place = self.place(length)
        if place is None:
            return self._memory.get((lens, length))
        return LensResult.load(place, lens) if (place / f"{lens}.json").is_file() else None

    def whole_results(self) -> list[LensResult]:
        """Results in memory at the task's own length."""
        return [result for (_, length), result in self._memory.items() if length is None]

    def put(self, result: LensResult, length: int | None = None) -> None:
        place = self.place(length)
        if place is None:
            self._memory[result.lens, length] = result
        else:
            result.save(place)


@dataclass
class Analysis:
    """What `Analyzer.analyze` computed.

    Attributes:
        results: by lens.
        failures: lens -> why it has no result.
        length: actions per sequence, for all lenses except those that measure every length.
        folders: where the results were saved; empty for results in memory.
    """

    length: int
    results: dict[str, LensResult] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)


@dataclass
class _Stored:
    """Stored results of the current checkpoint.

    Attributes:
        usable: those that a verdict can use, all at the length of the verdict.
        unusable: lens -> why a verdict cannot use the stored result, which is left as it is.
        outdated: lenses whose results describe other weights.
        weights: fingerprint of an external checkpoint; if its files are gone, that of its results.
    """

    weights: str | None
    usable: dict[str, LensResult] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)

    def ignored(self) -> str | None:
        """The results that are not used, in one sentence."""
        reasons = [f"{lens} ({why})" for lens, why in self.unusable.items()]
        if self.outdated:
            reasons.append(f"{', '.join(self.outdated)} (computed from other weights)")
        return f"ignored; recomputed where needed: {'; '.join(reasons)}" if reasons else None


class Analyzer:
    """One checkpoint and everything that was measured on it.

    Args:
        source: a run folder, or a model that is already loaded.
        step: the step of the checkpoint; by default that of the newest undamaged one.
        device: "auto", "cpu", "cuda".
        on_message: receives messages to users, for instance about a damaged checkpoint.
    """

    def __init__(
        self,
        source: Run | LoadedModel,
        *,
        step: int | None = None,
        device: str = "auto",
        on_message: OnMessage = no_message,
    ) -> None:
        self.run = source if isinstance(source, Run) else None
        self._asked_step, self._device, self.on_message = step, device, on_message
        folder = None
        if self.run is not None:
            folder = self.run.path / "lenses" / ("" if step is None else f"step-{step}")
        self.store = Store(folder)
        if self.run is None:
            self.__dict__["loaded"] = source

    @cached_property
    def loaded(self) -> LoadedModel:
        """The model and its task; loaded when first needed."""
        from statetrace.lenses.loading import load_run

        assert self.run is not None
        return load_run(self.run, self._asked_step, self._device, self.on_message)

    @cached_property
    def group(self) -> Group:
        return self.loaded.task.group if self.run is None else self.run.group

    @cached_property
    def length(self) -> int:
        """Actions per training sequence."""
        return self.loaded.task.length if self.run is None else int(self.run.task["length"])

    @property
    def has_log(self) -> bool:
        """Whether there is a training log, which the dynamics lens reads."""
        return self.run is not None and not self.run.external

    def analyze(
        self,
        lenses: Iterable[str],
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        at_length: int | str | None = None,
        *,
        recompute: bool = False,
        on_progress: OnProgress = no_progress,
    ) -> Analysis:
        """Run lenses on the model. A lens that fails does not stop the others.

        Args:
            settings: by lens, fields of its spec; values may be written as on the command line.
            at_length: actions per sequence, if fewer than in training; "able" for the longest
                length that the model solves.
            recompute: compute again even if a result with the same settings is stored.
        """
        names = list(lenses)
        specs = {name: self._spec(name, (settings or {}).get(name, {})) for name in names}
        if self.loaded.threads is not None:
            import torch

            torch.set_num_threads(self.loaded.threads)
        analysis = Analysis(self.length)
        if at_length is not None:
            self._check_length(at_length)
            from statetrace.lenses.registry import LENSES

            first = [name for name in names if LENSES[name].whole]
            names = [name for name in names if name not in first]
            self._run_lenses(first, specs, None, analysis, recompute, on_progress)
            if not names:
                return analysis
            try:
                analysis.length = self._resolve_length(at_length)
            except StatetraceError as error:
                analysis.failures |= dict.fromkeys(names, str(error))
                return analysis
        shorter = None if analysis.length == self.length else analysis.length
        self._run_lenses(names, specs, shorter, analysis, recompute, on_progress)
        return analysis

    def verdict(self, on_progress: OnProgress = no_progress) -> Verdict:
        """Which algorithm the model runs; for the newest checkpoint written to RUN/verdict.json."""
        results, weights = self._evidence(on_progress)
        judged = verdict(results, self.group)
        if self.run is not None and self._asked_step is None:
            about = {} if weights is None else {"weights": weights}
            write_json(self.run.path / "verdict.json", judged.to_dict() | about)
        return judged

    def evidence(self, on_progress: OnProgress = no_progress) -> dict[str, LensResult]:
        """The lens results that a verdict uses. Missing results are computed, with lighter settings
        than `analyze` uses, and so are results of other weights or with unsuitable settings."""
        return self._evidence(on_progress)[0]

    def cutoff_verdict(self) -> dict[str, Any]:
        """The paper's early verdict, from generalization alone."""
        stored = self._stored(["generalization"], self._newest_step())
        general = stored.usable.get("generalization")
        if general is None:
            from statetrace.lenses.generalization import generalization

            self._report_ignored(stored)
            general = generalization(self.loaded.model, self.loaded.task)
        return cutoff_verdict(general)

    # Lenses

    def _spec(self, lens: str, settings: Mapping[str, Any]) -> Any:
        from statetrace.lenses.registry import LENSES, make_spec

        settings = dict(settings)
        if LENSES[lens].reads_log and self.run is not None:
            settings.setdefault("run", str(self.run.path))
            settings.setdefault("until", self._asked_step)
        return make_spec(lens, settings)

    def _run_lenses(
        self,
        names: Sequence[str],
        specs: Mapping[str, Any],
        shorter: int | None,
        analysis: Analysis,
        recompute: bool,
        on_progress: OnProgress,
    ) -> None:
        """Fill `analysis` with stored results, and compute the others."""
        task = self.loaded.task if shorter is None else self.loaded.task.at_length(shorter)
        for name in names:
            about = self.loaded.about() | {"spec": repr(specs[name])}
            try:
                result = None if recompute else self._equal_result(name, shorter, about)
                if result is None:
                    result = self._compute(name, specs[name], task, on_progress)
                    result = dataclasses.replace(result, subject=about)
                    self.store.put(result, shorter)
            except StatetraceError as error:
                analysis.failures[name] = str(error)
                continue
            on_progress(name, 1.0)
            analysis.results[name] = result
            place = self.store.place(shorter)
            if place is not None and place not in analysis.folders:
                analysis.folders.append(place)

    def _equal_result(
        self, lens: str, shorter: int | None, about: Mapping[str, Any]
    ) -> LensResult | None:
        """A stored result of the same checkpoint with the same settings."""
        try:
            result = self.store.get(lens, shorter)
        except StatetraceError:  # damaged
            return None
        return result if result is not None and dict(result.subject) == dict(about) else None

    def _compute(
        self, lens: str, spec: Any, task: Any, on_progress: OnProgress = no_progress
    ) -> LensResult:
        from statetrace.lenses.registry import LENSES

        return LENSES[lens].look(
            self.loaded.model, task, spec, lambda share: on_progress(lens, share)
        )

    def _check_length(self, at_length: int | str) -> None:
        if at_length != ABLE and not (isinstance(at_length, int) and at_length >= 1):
            raise StatetraceError(f"length {at_length!r} is not a number of actions, or '{ABLE}'")
        if isinstance(at_length, int) and at_length > self.length:
            raise StatetraceError(
                f"length {at_length} is longer than the {self.length} actions it was trained on"
            )

    def _resolve_length(self, at_length: int | str) -> int:
        if isinstance(at_length, int):
            return at_length
        from statetrace.lenses.generalization import generalization

        length = solved_length(generalization(self.loaded.model, self.loaded.task))
        if length < min(LEARNED, self.length):
            step = "" if self._asked_step is None else f"step {self._asked_step}: "
            raise StatetraceError(f"{step}the model solves no more than {length} actions")
        return length

    # Verdict

    def _evidence(self, on_progress: OnProgress) -> tuple[dict[str, LensResult], str | None]:
        """Results by lens, and the fingerprint of the weights that they describe."""
        stored = self._stored(USED_BY_VERDICT, self._newest_step())
        if enough(stored.usable) and "dynamics" not in stored.unusable:  # the model is not needed
            self._report_ignored(stored)
            return stored.usable, stored.weights
        from statetrace.mechanisms.collect_evidence import collect_evidence

        loaded = self.loaded
        stored = self._stored(USED_BY_VERDICT, loaded.step)
        self._report_ignored(stored)
        known = dict(stored.usable)
        if self.has_log and "dynamics" not in known:
            known["dynamics"] = self._compute("dynamics", self._spec("dynamics", {}), loaded.task)
        results = collect_evidence(loaded.model, loaded.task, known, on_progress)
        if "patching" in results and results["patching"].summary["length"] == self.length:
            # at another length they would be mistaken for results at the task's own
            for lens, result in results.items():
                if lens not in known and lens not in stored.unusable:
                    self.store.put(dataclasses.replace(result, subject=loaded.about()))
        return results, loaded.weights

    def _newest_step(self) -> int | None:
        if self._asked_step is not None or not self.has_log:
            return self._asked_step
        assert self.run is not None
        return max((step for step, _ in self.run.checkpoints()), default=None)

    def _stored(self, lenses: Sequence[str], step: int | None) -> _Stored:
        """Stored results, generalization first: a model that fails at its own length is judged at
        the longest length that it solves."""
        stored = _Stored(None if self.run is None else weights_of(self.run))
        length = self.length
        for lens in lenses:
            shorter = None if lens in WHOLE or length == self.length else length
            result = self.store.get(lens, shorter)
            if result is None or result.subject.get("step") != step:
                continue
            stored.weights = stored.weights or result.subject.get("weights")
            reason = incompatibility(result, self.group, length)
            if differ(result.subject.get("weights"), stored.weights):
                stored.outdated.append(lens)
            elif reason is not None:
                stored.unusable[lens] = reason
            else:
                stored.usable[lens] = result
                length = solved_length(result) if lens == "generalization" else length
        return stored

    def _report_ignored(self, stored: _Stored) -> None:
        if (sentence := stored.ignored()) is not None:
            self.on_message(sentence)
