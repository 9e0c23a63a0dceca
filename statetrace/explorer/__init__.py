"""Look into one model on one sequence: what is read where, what patches and ablations change.

    from statetrace.explorer import Patch, look, open_model

    model = open_model("zoo:s3-parity-associative")
    view = look(model, "132,213,231", source="213,213,231", patches=[Patch(4, 0, 1)])
    view.answer(2)  # after the third action, the most probable state first

server.py shows the same to a browser; this part needs no server and keeps no state.
"""

from statetrace.explorer.look import View, look
from statetrace.explorer.query import Patch
from statetrace.explorer.session import Session, open_model

__all__ = ["Patch", "Session", "View", "look", "open_model"]
