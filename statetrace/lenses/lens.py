"""Lens: a measurement with everything that the commands and the report need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statetrace.lenses.result import LensResult, no_progress

if TYPE_CHECKING:
    from statetrace.reports.figures.chart import Chart


@dataclass(frozen=True)
class Lens:
    """A measurement: `look(model, task, spec, progress)` returns a LensResult.

    Attributes:
        spec: a dataclass of settings with defaults; `--set NAME.FIELD=VALUE` sets them.
        look: measures; `progress` takes the share of the work that is done, 0 to 1.
        stacked: as `look` for several models of one shape at once, with a list of results.
        reads_log: whether it reads the run's training log, not the model; its spec then has the
            fields `run` (the folder) and `until` (the last step, or None).
        whole: whether it covers all lengths itself, even with `--at-length`.
        headline: result -> one sentence; by default the numbers of the summary.
        figure: result -> chart; by default lines over the first column of numbers.
    """

    spec: type[Any]
    look: Callable[..., LensResult]
    reads_log: bool = False
    whole: bool = False
    headline: Callable[[LensResult], str] | None = None
    figure: Callable[[LensResult], Chart] | None = None
    stacked: Callable[..., list[LensResult]] | None = None

    def look_together(self, models: Sequence[Any], task: Any, spec: Any) -> list[LensResult]:
        """The results of several models of one shape."""
        if self.stacked is None:
            return [self.look(model, task, spec, no_progress) for model in models]
        return self.stacked(models, task, spec)
