"""A local page for one or two models: a server, and the requests that the page sends.

What it shows is computed by statetrace.inspection. Its names are exported here too, so that
snippets copied from earlier versions of the page still run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from statetrace.inspection import Patch, Session, View, look, make_session
from statetrace.inspection.timeline import with_timeline
from statetrace.lenses.result import Progress, no_progress

__all__ = ["Patch", "Session", "View", "look", "open_model"]


def open_model(
    name: str | Path,
    *,
    device: str = "auto",
    step: int | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
    tell: Callable[[str], None] = lambda message: None,
) -> Session:
    """Load the model of a run folder or zoo:NAME, as `statetrace.load` does, and fit its probes.
    Equal arguments give equal probes."""
    from statetrace.api import ZOO, load
    from statetrace.runs import Run

    if not str(name).startswith(ZOO):
        Run.existing(Path(name))
    model = load(str(name), step=step, device=device, on_message=tell)
    arguments = {"device": (device, "auto"), "step": (step, None)}
    options = {key: value for key, (value, default) in arguments.items() if value != default}
    session = make_session(model.loaded, str(name), options, seed, progress)
    if model.run is None or len(model.run.checkpoints()) < 2:
        return session
    return with_timeline(session, model.run, model.loaded, seed)
