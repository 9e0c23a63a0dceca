"""Callbacks: how the command line, studies and tests follow a training run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from statetrace.config.stages import Stage

if TYPE_CHECKING:
    from statetrace.training.cost import Cost


class Callback:
    """Receives the events of a run and does nothing with them; override what you need."""

    def on_estimate(self, cost: Cost) -> None:
        """Called before the first step."""

    def on_stage_start(self, stage: Stage) -> None:
        """A stage of a recipe with several begins or is resumed."""

    def on_start(self, step: int, steps: int) -> None: ...

    def on_step(self, step: int, train_loss: float) -> None:
        """Called at every step that is logged, evaluated or saved."""

    def on_evaluation(self, record: dict[str, Any]) -> None: ...

    def on_message(self, message: str) -> None: ...

    def should_stop(self) -> bool:
        """Checked after every step; True ends the run there, with a checkpoint."""
        return False


class Until(Callback):
    """Stops a run on request, or after a step of its last stage."""

    def __init__(
        self, step: int | None, stop: Callable[[], bool], on_message: Callable[[str], object] = str
    ) -> None:
        self._until, self._stop, self._done, self._last = step, stop, 0, True
        self._tell = on_message

    def on_message(self, message: str) -> None:
        self._tell(message)

    def on_stage_start(self, stage: Stage) -> None:
        self._last = stage.last

    def on_start(self, step: int, steps: int) -> None:
        self._done = step

    def should_stop(self) -> bool:
        self._done += 1
        reached = self._until is not None and self._last and self._done >= self._until
        return reached or self._stop()
