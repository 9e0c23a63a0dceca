"""How a run is watched: the loop tells, and whoever listens draws it."""

from __future__ import annotations

from typing import Any, Protocol

from statetrace.config.stages import Stage


class Callback(Protocol):
    """Hears of a run as it goes; the command line draws it."""

    def entered(self, stage: Stage) -> None:
        """A stage of several begins, or is resumed."""
        ...

    def started(self, step: int, steps: int) -> None: ...

    def stepped(self, step: int, train_loss: float) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def told(self, message: str) -> None: ...

    def wants_stop(self) -> bool:
        """Asked after every step; True ends the run there, with a checkpoint."""
        ...


class Quiet:
    """A listener that does nothing."""

    def entered(self, stage: Stage) -> None: ...

    def started(self, step: int, steps: int) -> None: ...

    def stepped(self, step: int, train_loss: float) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def told(self, message: str) -> None: ...

    def wants_stop(self) -> bool:
        return False
