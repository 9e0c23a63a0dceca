"""Train language models to track state, then find out how they do it.

    load, train, compile    a TrackedModel: bundled, your own, or with computed weights
    TrackedModel            verdict, analyze, patch, look, ablate, report
    signatures              what each algorithm would show
    study                   many models
    report                  several models on one page
    group, Group, register  groups and other plug-ins of your own

>>> import statetrace as st
>>> model = st.load("zoo:s3-associative")
>>> model.group.name, model.length
('S3', 24)
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.api import TrackedModel, compile, load, report, signatures, study, train
    from statetrace.groups import Group, group
    from statetrace.plugins import register

__version__ = "0.2.0"

__all__ = [
    "Group",
    "StatetraceError",
    "TrackedModel",
    "compile",
    "group",
    "load",
    "register",
    "report",
    "signatures",
    "study",
    "train",
]

# Read when torch is imported: threads that wait for each other sleep, and so leave the cores of a
# busy machine to those they wait for
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# In a notebook without ipywidgets, importing transformers would warn about its progress bars
warnings.filterwarnings("ignore", message="IProgress not found")

_HOME = {"Group": "groups", "group": "groups", "register": "plugins"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: torch takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module 'statetrace' has no attribute {name!r}")
    return getattr(import_module(f"statetrace.{_HOME.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]
