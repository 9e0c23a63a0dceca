"""One sequence, or many, through one model: readings, patches, ablations, as arrays and tables."""

from statetrace.inspection.look import View, look
from statetrace.inspection.query import Patch
from statetrace.inspection.session import Session, open_model

__all__ = ["Patch", "Session", "View", "look", "open_model"]
