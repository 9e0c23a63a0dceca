"""TrackedModel: a model together with its task, and everything that can be measured on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.analysis import Analyzer, OnEstimate, OnProgress, no_progress
from statetrace.api.results import Results
from statetrace.errors import StatetraceError, by_reason
from statetrace.runs import Run

if TYPE_CHECKING:
    from statetrace.api.patches import Patches
    from statetrace.inspection import AblationTable, Session, View
    from statetrace.interventions.sites import Site
    from statetrace.interventions.spec import GridSpec
    from statetrace.lenses.loading import LoadedModel
    from statetrace.reports.run_results import RunResults
    from statetrace.tasks.word_problem import WordProblem
    from statetrace.training.loop import Outcome


class TrackedModel(Analyzer):
    """A model together with its task. `st.load`, `st.train` and `st.compile` return one.

    Attributes:
        name: as it was loaded.
        run: its run folder, where results are kept; None for results in memory.
        group, length: the word problem.
        outcome: how training ended, for a model that `st.train` returned.
    """

    outcome: Outcome | None = None

    def __init__(self, source: Run | LoadedModel, *, name: str, **options: Any) -> None:
        super().__init__(source, **options)
        self.name = name
        self._temporary: Any = None

    @property
    def model(self) -> Any:
        """The Hugging Face model."""
        return self.loaded.model

    @property
    def task(self) -> WordProblem:
        """The word problem: draws sequences, encodes actions, computes the true states."""
        return self.loaded.task

    def __repr__(self) -> str:
        step = "" if self._asked_step is None else f", step {self._asked_step}"
        return f"TrackedModel({self.name}: {self.group.name}, length {self.length}{step})"

    def analyze(  # type: ignore[override]
        self,
        lenses: str | Iterable[str] | None = None,
        *,
        at_length: int | str | None = None,
        thorough: bool = False,
        recompute: bool = False,
        on_progress: OnProgress = no_progress,
        on_estimate: OnEstimate | None = None,
        **settings: Any,
    ) -> Results:
        """Run lenses on the model; all that apply to it by default. After an interruption (Ctrl-C)
        the same call continues.

        Args:
            lenses: names, such as ["patching", "probing"]; `statetrace analyze --help` lists them.
            at_length: actions per sequence, if fewer than in training; "able" for the longest
                length that the model solves.
            thorough: use the paper's settings, which take several times longer than the default
                ones, those of a verdict.
            recompute: compute again even if a result with the same settings is stored.
            on_progress: called with a lens and the share of it that is done.
            on_estimate: called first, with the lenses to compute and the seconds they may take.
            settings: fields of the lenses' specs. `pairs=50` applies to every lens that has it,
                `patching={"pairs": 50}` to one.

        Examples:
            >>> import statetrace as st
            >>> model = st.compile("associative", "S3", length=4)
            >>> results = model.analyze("generalization", sequences=200)
            >>> results["generalization"].summary["accuracy"]["state"]
            1.0
            >>> results["generalization"].to_pandas().columns[:3].tolist()
            ['what', 'length', 'accuracy']
        """
        names = self._lenses(lenses)
        analysis = super().analyze(
            names,
            self._settings(names, settings),
            at_length,
            thorough=thorough,
            recompute=recompute,
            on_progress=on_progress,
            on_estimate=on_estimate,
        )
        if not analysis.results:
            raise StatetraceError("; ".join(by_reason(analysis.failures)))
        return Results(self, analysis.results, analysis.failures, analysis.length, analysis.folders)

    def report(self, path: str | Path) -> Path:
        """Write one HTML page with the verdict and every figure. If nothing was measured yet, the
        verdict is computed first."""
        from statetrace.api.actions import report

        return report([self], path)

    # Reading and changing single forward passes

    @cached_property
    def session(self) -> Session:
        """The model with probes fitted and mean head outputs computed, which `look` uses."""
        from statetrace.inspection import make_session

        return make_session(self.loaded, self.name)

    def look(
        self,
        actions: str | Sequence[int | str],
        *,
        source: str | Sequence[int | str] | None = None,
        patches: Iterable[tuple[int, int, int]] = (),
        without: Iterable[tuple[int, int]] = (),
        instead: str = "mean",
    ) -> View:
        """Run the model on one sequence and read every layer and position.

        Args:
            actions: labels or element indices, one by one, or labels separated by commas.
            source: another sequence, whose residual stream `patches` copy.
            patches: (layer, first action, last action), layer 0 being the embedding.
            without: heads to ablate, (layer, head), layers from 1 and heads from 0.
            instead: what replaces their output, its "mean" or "zero".

        Examples:
            >>> import statetrace as st
            >>> model = st.compile("associative", "S3", length=4)
            >>> next(iter(model.look("213,132").answer()))
            '312'
        """
        from statetrace.inspection import look

        return look(
            self.session, actions, source=source, patches=patches, without=without, instead=instead
        )

    def patch(
        self,
        clean: Any,
        corrupted: Any,
        sites: str | GridSpec | Sequence[Site] = "prefix",
        on_progress: OnProgress = no_progress,
    ) -> Patches:
        """Patch your own pairs of sequences: run the corrupted one with activations of the clean
        one, at every layer and position.

        Args:
            clean: one sequence or several, as labels or element indices.
            corrupted: as many sequences as in `clean`.
            sites: which positions a patch covers: "prefix", "suffix" or "window", the name of a
                grid such as "window3-substitution-head", or sites.

        Examples:
            >>> import statetrace as st
            >>> model = st.compile("associative", "S3", length=4)
            >>> model.patch("213,132,231,312", "123,132,231,312").mean().round().tolist()
            [[0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]
        """
        from statetrace.api.patches import Patches
        from statetrace.inspection import patch

        table = patch(
            self.model, self.task, clean, corrupted, sites, lambda s: on_progress("patching", s)
        )
        return Patches(**vars(table))

    def ablate(
        self, heads: Iterable[tuple[int, int]], actions: Any = None, *, instead: str = "mean"
    ) -> AblationTable:
        """Accuracy with and without attention heads.

        Args:
            heads: (layer, head), layers from 1 and heads from 0.
            actions: your own sequences; by default sequences drawn from the task.
            instead: what replaces their output, its "mean" or "zero".
        """
        from statetrace.inspection import ablate

        return ablate(self.model, self.task, heads, actions, instead)

    # Details

    def _lenses(self, lenses: str | Iterable[str] | None) -> list[str]:
        from statetrace.lenses.registry import LENSES, chosen

        if lenses is None:
            return [n for n in chosen(None) if self.has_log or not LENSES[n].reads_log]
        several = isinstance(lenses, Iterable) and not isinstance(lenses, str)
        names: list[Any] = list(lenses) if several else [lenses]
        if not all(isinstance(name, str) for name in names):
            raise StatetraceError(f"lenses must be names of lenses, not {lenses!r}")
        names = chosen(",".join(names))
        if not self.has_log and (logs := [name for name in names if LENSES[name].reads_log]):
            raise StatetraceError(f"'{self.name}' has no training log, which {logs[0]} reads")
        return names

    def _settings(
        self, names: Sequence[str], settings: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """By lens; a setting that no chosen lens has is refused."""
        from statetrace.config.checks import known
        from statetrace.lenses.registry import LENSES

        by_lens: dict[str, dict[str, Any]] = {name: {} for name in names}
        for setting, value in settings.items():
            if setting in LENSES:
                if not isinstance(value, Mapping):
                    raise StatetraceError(
                        f"{setting} must be a dictionary of settings, not {value!r}"
                    )
                if setting not in names:
                    raise StatetraceError(
                        f"there are settings for '{setting}', but the lenses are {', '.join(names)}"
                    )
                by_lens[setting] |= value
                continue
            fields = {n: [each.name for each in dataclasses.fields(LENSES[n].spec)] for n in names}
            every = [field for of_lens in fields.values() for field in of_lens]
            known(setting, every, "setting", f"the lenses {', '.join(names)}")
            for name in names:
                if setting in fields[name]:
                    by_lens[name][setting] = value
        return by_lens

    def _for_report(self) -> Path | RunResults:
        """A run folder, or results in memory with their verdict."""
        if self.run is not None:
            if not (self.run.path / "lenses").is_dir():
                self.verdict()
            return self.run.path
        from statetrace.reports.run_results import RunResults

        verdict = self.verdict().to_dict()
        results = self.store.whole_results()
        return RunResults(results, self.group, self.length, self.name, verdict)
