"""Inspect single forward passes: readings, patches and ablations, as arrays and tables."""

from statetrace.inspection.ablation import AblationTable, ablate
from statetrace.inspection.look import look
from statetrace.inspection.patch import PatchTable, patch
from statetrace.inspection.query import Patch
from statetrace.inspection.session import Session, make_session
from statetrace.inspection.view import View

__all__ = [
    "AblationTable",
    "Patch",
    "PatchTable",
    "Session",
    "View",
    "ablate",
    "look",
    "make_session",
    "patch",
]
