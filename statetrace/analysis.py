"""The pipeline from a model to a verdict: lens results, computed once and stored, and the verdict.

    Analyzer(run).analyze(["patching"])     results by lens, from RUN/lenses if stored there
    Analyzer(run).verdict()                 computes missing results, writes RUN/verdict.json

The Python interface (api/), the command line and studies all use this. Results of a run folder are
stored in RUN/lenses (RUN/lenses/step-N for an older checkpoint), all others in memory. A result is
stored as soon as it is computed, and so are the longer parts of a lens: after an interruption, the
same call continues. Cost: see lenses/cost.py; a verdict from stored results needs no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.errors import StatetraceError
from statetrace.files import read_json, write_json
from statetrace.lenses.fingerprint import differ, weights_of
from statetrace.lenses.partial import keeping
from statetrace.lenses.result import LensResult
from statetrace.lenses.store import Store
from statetrace.mechanisms.cutoff_verdict import cutoff_verdict
from statetrace.mechanisms.mastery import (
    COLLECTED,
    LEARNED,
    NEEDED,
    enough,
    has_learned,
    solved_length,
)
from statetrace.mechanisms.stored import StoredResults, stored_results
from statetrace.mechanisms.verdict import Verdict, verdict
from statetrace.runs import OnMessage, Run, no_message

if TYPE_CHECKING:
    from statetrace.groups import Group
    from statetrace.lenses.cost import Speed
    from statetrace.lenses.loading import LoadedModel
    from statetrace.tasks.word_problem import WordProblem

USED_BY_VERDICT = (*COLLECTED, "dynamics")

ABLE = "able"
"""As a length: the longest one that the model solves."""

OnProgress = Callable[[str, float], None]
OnEstimate = Callable[[Mapping[str, float]], None]
"""Receives the lenses that have to be computed, with the seconds that each is expected to take."""


def no_progress(lens: str, share: float) -> None:
    """Ignore progress."""


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


@dataclass(frozen=True)
class Job:
    """A lens to run, and the settings (as `repr`) of stored results that can be used instead."""

    lens: str
    spec: Any
    accepted: frozenset[str]


class Analyzer:
    """One checkpoint and everything that was measured on it.

    Args:
        source: a run folder, or a model that is already loaded.
        step: the step of the checkpoint; by default that of the newest undamaged one.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        on_message: receives messages to users, for instance about a damaged checkpoint.

    Attributes:
        light: set to load the model without transformers where possible, which is enough for a
            verdict and no other lenses.
    """

    light = False

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
        return load_run(self.run, self._asked_step, self._device, self.on_message, self.light)

    @cached_property
    def group(self) -> Group:
        return self.loaded.task.group if self.run is None else self.run.group

    @cached_property
    def length(self) -> int:
        """Actions per training sequence."""
        return self.loaded.task.length if self.run is None else int(self.run.task["length"])

    @property
    def has_weights(self) -> bool:
        """Whether lenses can be computed; an exported run may have results only."""
        return self.run is None or self.run.has_weights

    @property
    def has_log(self) -> bool:
        """Whether there is a training log, which the dynamics lens reads."""
        return self.run is not None and not self.run.external

    @cached_property
    def speed(self) -> Speed:
        """How fast the model runs here, and with how many CPU threads; measured once."""
        from statetrace.lenses.cost import measure_speed

        return measure_speed(self.loaded)

    def analyze(
        self,
        lenses: Iterable[str],
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        at_length: int | str | None = None,
        *,
        thorough: bool = False,
        recompute: bool = False,
        on_progress: OnProgress = no_progress,
        on_estimate: OnEstimate | None = None,
    ) -> Analysis:
        """Run lenses on the model. A lens that fails does not stop the others. `settings` are by
        lens, with values that may be written as on the command line; for the other arguments see
        `TrackedModel.analyze`."""
        from statetrace.lenses.registry import LENSES

        if not self.has_weights:
            return self._kept_results(lenses, settings or {}, at_length)

        jobs = [self.job(name, (settings or {}).get(name, {}), thorough) for name in lenses]
        analysis = Analysis(self.length)
        options = analysis, recompute, on_progress, on_estimate
        if at_length is not None:
            self._check_length(at_length)
            self._run([job for job in jobs if LENSES[job.lens].whole], None, *options)
            jobs = [job for job in jobs if not LENSES[job.lens].whole]
            if not jobs:
                return analysis
            try:
                analysis.length = self._resolve_length(at_length)
            except StatetraceError as error:
                analysis.failures |= {job.lens: str(error) for job in jobs}
                return analysis
        shorter = None if analysis.length == self.length else analysis.length
        self._run(jobs, shorter, *options)
        return analysis

    def verdict(
        self, on_progress: OnProgress = no_progress, on_estimate: OnEstimate | None = None
    ) -> Verdict:
        """Which algorithm the model runs; for the newest checkpoint written to RUN/verdict.json. A
        run of an older version without weights keeps the verdict that is written there."""
        if (kept := self._kept_verdict()) is not None:
            return kept
        results, weights = self._evidence(on_progress, on_estimate)
        judged = verdict(results, self.group)
        judged = dataclasses.replace(judged, hint=self._hint(results, weights))
        if self.run is not None and self._asked_step is None:
            about = {} if weights is None else {"weights": weights}
            write_json(self.run.path / "verdict.json", judged.to_dict() | about)
        return judged

    def evidence(
        self, on_progress: OnProgress = no_progress, lenses: Sequence[str] = NEEDED
    ) -> dict[str, LensResult]:
        """The lens results that a verdict uses, and those of other `lenses`. Missing results are
        computed, and so are results of other weights or with unsuitable settings."""
        return self._evidence(on_progress, None, lenses)[0]

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

    def job(self, lens: str, settings: Mapping[str, Any], thorough: bool) -> Job:
        """Results with the paper's settings also serve where lighter ones would do."""
        from statetrace.lenses.registry import LENSES, make_spec
        from statetrace.mechanisms.collect_evidence import lighter_settings

        log: dict[str, Any] = {}
        if LENSES[lens].reads_log and self.run is not None:
            log = {"run": str(self.run.path), "until": self._asked_step}
        papers = make_spec(lens, log | dict(settings))
        if thorough:
            return Job(lens, papers, frozenset({repr(papers)}))
        lighter = make_spec(lens, lighter_settings(lens, self.group) | log | dict(settings))
        return Job(lens, lighter, frozenset({repr(papers), repr(lighter)}))

    def _kept_results(
        self, names: Iterable[str], settings: Mapping[str, Any], at_length: int | str | None
    ) -> Analysis:
        """The results of a run without weights, at the given length or the longest one kept."""
        assert self.run is not None
        analysis = Analysis(self.length)
        for name in names:
            length, result = self.store.longest(name, self.length, at_length)
            if result is None or settings.get(name):
                changed = " with these settings" if settings.get(name) else ""
                analysis.failures[name] = (
                    f"cannot be computed{changed}, because '{self.run.path}' has no weights"
                )
                continue
            analysis.results[name] = result
            analysis.length = min(analysis.length, length)
        return analysis

    def _run(
        self,
        jobs: Sequence[Job],
        shorter: int | None,
        analysis: Analysis,
        recompute: bool,
        on_progress: OnProgress,
        on_estimate: OnEstimate | None,
    ) -> None:
        """Fill `analysis` with stored results, and compute the others."""
        task = self.loaded.task if shorter is None else self.loaded.task.at_length(shorter)
        stored = {} if recompute else {job.lens: self.stored_result(job, shorter) for job in jobs}
        missing = {job.lens: job.spec for job in jobs if stored.get(job.lens) is None}
        self._estimate(missing, task, on_estimate)
        for job in jobs:
            try:
                result = stored.get(job.lens) or self._compute(
                    job.lens, job.spec, task, shorter, on_progress
                )
            except StatetraceError as error:
                analysis.failures[job.lens] = str(error)
                continue
            analysis.results[job.lens] = result
            place = self.store.place(shorter)
            if place is not None and place not in analysis.folders:
                analysis.folders.append(place)

    def stored_result(self, job: Job, shorter: int | None) -> LensResult | None:
        """A stored result of the same checkpoint with accepted settings."""
        try:
            result = self.store.get(job.lens, shorter)
        except StatetraceError:  # damaged
            return None
        if result is None:
            return None
        about = dict(result.subject)
        current = self.loaded.about()
        if not differ(about.get("weights"), current.get("weights")):  # older ones have none
            about["weights"] = current.get("weights")
        fits = about.pop("spec", None) in job.accepted and about == {"weights": None} | current
        return result if fits else None

    def _compute(
        self,
        lens: str,
        spec: Any,
        task: WordProblem,
        shorter: int | None,
        on_progress: OnProgress = no_progress,
        store: bool = True,
    ) -> LensResult:
        from statetrace.lenses.registry import LENSES
        from statetrace.models.threads import using_threads

        loaded, about = self.loaded, self.loaded.about() | {"spec": repr(spec)}
        parts = self.store.unfinished(lens, shorter, about)
        threads = None if LENSES[lens].reads_log else loaded.threads or self.speed.threads
        with keeping(parts), using_threads(threads):
            result = LENSES[lens].look(
                loaded.model, task, spec, lambda share: on_progress(lens, share)
            )
        result = dataclasses.replace(result, subject=about)
        if store:
            self.store.put(result, shorter)
        self.store.forget_unfinished(lens, shorter)
        on_progress(lens, 1.0)
        return result

    def _estimate(
        self, specs: Mapping[str, Any], task: WordProblem, on_estimate: OnEstimate | None
    ) -> None:
        if on_estimate is not None and specs:
            from statetrace.lenses.cost import estimate

            on_estimate(estimate(self.loaded.model, task, specs, self.speed))

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

    def _evidence(
        self,
        on_progress: OnProgress,
        on_estimate: OnEstimate | None,
        lenses: Sequence[str] = NEEDED,
    ) -> tuple[dict[str, LensResult], str | None]:
        """Results by lens, and the fingerprint of the weights that they describe."""
        stored = self._stored(USED_BY_VERDICT, self._newest_step())
        if stored.damaged and not self.has_weights:
            raise StatetraceError(next(iter(stored.damaged.values())))
        sufficient = enough(stored.usable) and "dynamics" not in stored.unusable
        if sufficient and has_learned(stored.usable["generalization"]):
            sufficient = {*lenses} <= stored.usable.keys()
        if sufficient or not (self.has_weights or {*NEEDED} - stored.usable.keys()):
            self._report_ignored(stored)
            patching = stored.usable.get("patching")
            if patching is not None and "probability" not in patching.columns["metric"]:
                self.on_message("the patching result has no probabilities; NLD is used instead")
            return stored.usable, stored.weights  # the model is not needed
        from statetrace.mechanisms.collect_evidence import collect_evidence

        loaded = self.loaded
        stored = self._stored(USED_BY_VERDICT, loaded.step)
        self._report_ignored(stored)
        known = dict(stored.usable)
        if self.has_log and "dynamics" not in known:
            spec = self.job("dynamics", {}, False).spec
            store = self._replaceable("dynamics", None)
            known["dynamics"] = self._compute("dynamics", spec, loaded.task, None, store=store)
        missing = [lens for lens in lenses if lens not in known]
        specs = {lens: self.job(lens, {}, False).spec for lens in missing}
        self._estimate(specs, loaded.task, on_estimate)

        def run_lens(lens: str, spec: Any, task: WordProblem) -> LensResult:
            shorter = None if task.length == self.length else task.length
            replaceable = self._replaceable(lens, shorter)
            return self._compute(lens, spec, task, shorter, on_progress, replaceable)

        results = collect_evidence(loaded.model, loaded.task, known, run_lens, lenses)
        return results, loaded.weights

    def _hint(self, results: Mapping[str, LensResult], weights: str | None) -> str | None:
        """Another reading of an external checkpoint that does not solve its task, if one does;
        without the model what the last verdict on these weights had."""
        trained_here = self.run is not None and not self.run.external
        if trained_here or solved_length(results["generalization"]) == self.length:
            return None
        if "loaded" not in self.__dict__:
            file = self.run.path / "verdict.json" if self.run is not None else None
            before = read_json(file) if file is not None and file.exists() else {}
            return before.get("hint") if before.get("weights") == weights else None
        from statetrace.mechanisms.misreading import hint

        return hint(self.loaded.model, self.loaded.task)

    def _replaceable(self, lens: str, shorter: int | None) -> bool:
        """Whether there is no result of the checkpoint; one with unusual settings stays."""
        about = self.loaded.about()
        try:
            result = self.store.get(lens, shorter)
        except StatetraceError:  # damaged
            return True
        if result is None or result.subject.get("step") != about["step"]:
            return True
        return differ(result.subject.get("weights"), about.get("weights"))

    def _kept_verdict(self) -> Verdict | None:
        if self.run is None or self.has_weights or self._asked_step is not None:
            return None
        file = self.run.path / "verdict.json"
        depth = self.store.longest("depth", self.length, None)[1]
        if depth is None or "links" in depth.summary or not file.exists():
            return None
        return Verdict.from_dict(read_json(file))

    def _newest_step(self) -> int | None:
        if self._asked_step is not None or not self.has_log:
            return self._asked_step
        assert self.run is not None
        if not self.has_weights:
            general = self.store.get("generalization")
            return None if general is None else general.subject.get("step")
        return max((step for step, _ in self.run.checkpoints()), default=None)

    def _stored(self, lenses: Sequence[str], step: int | None) -> StoredResults:
        weights = None if self.run is None else weights_of(self.run, step)
        return stored_results(self.store, lenses, self.group, self.length, step, weights)

    def _report_ignored(self, stored: StoredResults) -> None:
        if (sentence := stored.ignored()) is not None:
            self.on_message(sentence)
