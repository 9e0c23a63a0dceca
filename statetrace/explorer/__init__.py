"""A local page for one or two models: a server, and the requests that the page sends.

What it shows is computed by statetrace.inspection. Its names are exported here too, so that
snippets copied from earlier versions of the page still run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from statetrace.inspection import Patch, Session, View, look, make_session
from statetrace.inspection.timeline import Timeline
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
    **reading: Any,
) -> Session:
    """Load a model, as `statetrace.load` does, and fit its probes; a Hugging Face checkpoint needs
    `group` and `length`. Equal arguments give equal probes."""
    from statetrace.api import load

    model = load(str(name), step=step, device=device, on_message=tell, **reading)
    arguments = {"device": (device, "auto"), "step": (step, None)}
    options = {key: value for key, (value, default) in arguments.items() if value != default}
    options |= {key: value for key, value in reading.items() if value not in (True, None)}
    session = make_session(model.loaded, str(name), options, seed, progress)
    if model.run is None or len(model.run.checkpoints()) < 2:
        return session
    return replace(session, timeline=Timeline(model.run, model.loaded, session, seed))
