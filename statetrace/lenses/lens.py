"""Lens: a measurement with everything that the commands and the report need. Needs no
torch, so that a plug-in can be listed and shown without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.lenses.result import NAMES, LensResult, no_progress

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


def registered_lens(name: str) -> Lens | None:
    """The plug-in of that name; None if it is missing or (with a warning) broken."""
    try:
        return plugins.find("lens", name)
    except StatetraceError as error:
        plugins.warn(str(error))
        return None


def is_builtin(name: str) -> bool:
    return name in NAMES


def check_plugin(name: str, lens: Any) -> Lens:
    """A Lens whose failures are sentences that name it."""
    if not isinstance(lens, Lens):
        raise StatetraceError(f"it is {type(lens).__name__!r}, not a Lens")
    if not (isinstance(lens.spec, type) and dataclasses.is_dataclass(lens.spec)):
        raise StatetraceError(f"its spec {lens.spec!r} is not a dataclass")
    if not name.replace("-", "_").isidentifier():
        raise StatetraceError("its name should consist of letters, digits and hyphens")

    measure = plugins.guarded("lens", name, lens.look)

    def look(*arguments: Any, **settings: Any) -> LensResult:
        result = measure(*arguments, **settings)
        if not isinstance(result, LensResult) or result.lens != name:
            raise StatetraceError(
                f"the lens '{name}' returned {result!r:.60}, not a LensResult with lens = '{name}'"
            )
        return result

    shown: dict[str, Any] = {
        part: plugins.guarded("lens", name, function)
        for part in ("headline", "figure")
        if (function := getattr(lens, part)) is not None
    }
    return dataclasses.replace(lens, look=look, **shown)
