"""Connections that send no request: they are closed after a while, and the oldest at once if there
are many. Otherwise anyone who can reach the port could block everyone else without knowing the
token."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
"""How long a connection may take to send the head of a request."""

MOST = 128
"""Connections without a request at one time; half of those that the server accepts. While it
computes, new connections of many people wait unread: they are the youngest, and are not closed."""


def protocol() -> type[H11Protocol]:
    """The protocol of one server."""
    idle: dict[H11Protocol, asyncio.TimerHandle] = {}  # the longest idle one first

    class Impatient(H11Protocol):
        def _wait(self) -> None:
            if self in idle:
                return
            idle[self] = self.loop.call_later(SECONDS, self.transport.abort)
            if len(idle) > MOST:
                oldest = next(iter(idle))
                idle.pop(oldest).cancel()
                self.connections.discard(oldest)  # now, as they are counted
                oldest.transport.abort()

        def _stop_waiting(self) -> None:
            if (timer := idle.pop(self, None)) is not None:
                timer.cancel()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            else:
                self._stop_waiting()

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

    return Impatient
