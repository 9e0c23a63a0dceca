"""The sessions of one run at its checkpoints, made when they are asked for.

Cost: probes are fitted once per checkpoint, a few tenths of a second for a small model. Sessions
are kept while their weights fit into MEMORY.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from statetrace.errors import StatetraceError
from statetrace.inspection.session import Session, make_session
from statetrace.lenses.loading import LoadedModel
from statetrace.lenses.parts.answers import device_of
from statetrace.models import load_checkpoint
from statetrace.runs import Run, checkpoint_damage

MEMORY = 1_000_000_000
"""Bytes of weights that are kept, apart from those of two sessions."""


class Timeline:
    """Attributes:
    steps: of the checkpoints, in order.
    opened: the step of the first session.
    accuracy: step -> "state", "parity", ... -> mean accuracy, where the log has an evaluation.
    """

    def __init__(self, run: Run, loaded: LoadedModel, first: Session, seed: int) -> None:
        self.steps = tuple(step for step, _ in run.checkpoints())
        self.accuracy = {record["step"]: record["accuracy"] for record in run.evaluations()}
        self.opened = loaded.step
        self._run, self._loaded, self._first, self._seed = run, loaded, first, seed
        self._sessions = OrderedDict({loaded.step: first})
        size = sum(p.numel() * p.element_size() for p in loaded.model.parameters())
        self._most = max(2, MEMORY // max(1, size))
        self._lock = threading.Lock()

    def at(self, step: int) -> Session:
        """The session of a checkpoint; equal arguments give equal probes."""
        if step not in self.steps:
            listed = ", ".join(map(str, self.steps))
            raise StatetraceError(f"there is no checkpoint at step {step}; use one of {listed}")
        with self._lock:
            if step not in self._sessions:
                self._sessions[step] = self._open(step)
            self._sessions.move_to_end(step)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)
            return self._sessions[step]

    def _open(self, step: int) -> Session:
        folder = self._run.checkpoint(step)
        if damage := checkpoint_damage(folder):
            raise StatetraceError(f"checkpoint {folder} is damaged ({damage})")
        model = load_checkpoint(folder).to(device_of(self._loaded.model))
        loaded = replace(self._loaded, model=model, folder=folder, step=step)
        options = self._first.options | {"step": step}
        return make_session(loaded, self._first.name, options, self._seed)
