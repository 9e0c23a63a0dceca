"""A local page for one or two models: a server, and the requests that the page sends.

What it shows is computed by statetrace.inspection, whose names are exported here too, so that
snippets copied from earlier versions of the page still run.
"""

from statetrace.inspection import Patch, Session, View, look, open_model

__all__ = ["Patch", "Session", "View", "look", "open_model"]
