"""The explorer's server: a page, its assets, the models, and answers to requests. It keeps no state
between requests, so several people can use it at once, each with an address of their own.

    /TOKEN/                 the page
    /TOKEN/assets/NAME      its scripts and styles, only those in the package
    /TOKEN/api/about        the models
    /TOKEN/api/look         POST: a request as in requests.py
    /TOKEN/api/verdict      POST: the same, of which only the model and its step count

Every path begins with a random token that other programs and pages do not know. Requests under
another host name (DNS rebinding) or from another page are refused. No file is opened for a request:
assets are read when the server starts.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from statetrace.errors import StatetraceError
from statetrace.explorer.describe import describe_model
from statetrace.explorer.requests import Request, judge, respond
from statetrace.inspection import Session

MOST_BYTES = 65_536
"""Largest request body."""

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",  # the address contains the token
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Trust:
    """The host names that the server answers to.

    Attributes:
        names: host names, in lower case.
        any_address: whether any literal IP address is accepted; it cannot be rebound.
    """

    names: frozenset[str]
    any_address: bool

    @staticmethod
    def for_host(host: str) -> Trust:
        """For a server bound to `host`."""
        loopback = {"localhost", "127.0.0.1", "::1"}
        if is_loopback(host):
            return Trust(frozenset(loopback | {host.lower()}), False)
        return Trust(frozenset(loopback | {host.lower(), socket.gethostname().lower()}), True)

    def allows(self, header: str) -> bool:
        """Whether a Host header names this server; its port does not matter."""
        name = re.sub(r":\d*$", "", header).strip("[]").lower()
        return name in self.names or (self.any_address and _ip(name) is not None)


def is_loopback(host: str) -> bool:
    ip = _ip(host)
    return host.lower() == "localhost" if ip is None else ip.is_loopback


def _ip(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def check_comparable(sessions: Sequence[Session]) -> None:
    """Refuse two models that cannot read the same sequences."""
    first, *others = sessions
    for other in others:
        if first.task.group != other.task.group:
            a, b = first.task.group, other.task.group
            raise StatetraceError(
                f"'{first.name}' and '{other.name}' cannot be compared on the same input: the "
                f"first tracks {a.name} (notation '{a.notation}'), the second {b.name} (notation "
                f"'{b.notation}')"
            )


def application(sessions: Sequence[Session], token: str, trust: Trust) -> Guard:
    """The whole server as an ASGI application."""
    check_comparable(sessions)
    description = {"models": [describe_model(session) for session in sessions]}
    assets = _assets()

    async def page(request: HttpRequest) -> Response:
        return Response(assets["index.html"], media_type=TYPES["html"])

    async def asset(request: HttpRequest) -> Response:
        name = request.path_params["name"]
        if name not in assets:
            raise HTTPException(404)
        return Response(assets[name], media_type=TYPES[name.rsplit(".", 1)[-1]])

    async def about(request: HttpRequest) -> Response:
        return JSONResponse(description)

    async def look(request: HttpRequest) -> Response:
        body = await _body(request)
        return JSONResponse(await run_in_threadpool(lambda: respond(sessions, Request.of(body))))

    async def verdict(request: HttpRequest) -> Response:
        body = await _body(request)
        return JSONResponse(await run_in_threadpool(lambda: judge(sessions, Request.of(body))))

    inner = Starlette(
        routes=[
            Route("/{token}/", page),
            Route("/{token}/assets/{name}", asset),
            Route("/{token}/api/about", about),
            Route("/{token}/api/look", look, methods=["POST"]),
            Route("/{token}/api/verdict", verdict, methods=["POST"]),
        ],
        exception_handlers=dict.fromkeys((StatetraceError, HTTPException, Exception), _refused),
    )
    return Guard(inner, token, trust)


class Guard:
    """Passes on requests with the token that name this server; adds the security headers."""

    def __init__(self, app: ASGIApp, token: str, trust: Trust) -> None:
        self.app, self.token, self.trust = app, token.encode(), trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(k, v) for k, v in message["headers"] if k.decode().lower() not in HEADERS]
                security = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": own + security}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, guarded)
        else:
            await JSONResponse({"error": refusal}, 403)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> str | None:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        host = headers.get("host", "")
        if not self.trust.allows(host):
            return f"this server does not answer under the name '{host[:80]}'"
        origin = headers.get("origin")
        if origin is not None and origin.split("://", 1)[-1] != host:
            return f"a page from '{origin[:80]}' may not send requests to this server"
        token = scope["path"].split("/")[1] if "/" in scope["path"] else ""
        if not secrets.compare_digest(token.encode(errors="replace"), self.token):
            return "the address lacks the token that was printed when the explorer started"
        return None


async def _body(request: HttpRequest) -> bytes:
    """The body; refuses one that is too large."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise HTTPException(413, f"the request is larger than {MOST_BYTES} bytes")
    except ClientDisconnect:
        raise HTTPException(400, "the request ended early") from None  # nobody reads it
    return body


async def _refused(request: HttpRequest, error: Exception) -> Response:
    """The reason, in one sentence."""
    headers, status, reason = None, 500, f"the explorer failed ({type(error).__name__})"
    if isinstance(error, StatetraceError):
        status, reason = 400, str(error)
    if isinstance(error, HTTPException):
        known = {404: "there is nothing at this address", 405: "method not allowed"}
        status, reason = error.status_code, known.get(error.status_code, error.detail)
        headers = error.headers
    return JSONResponse({"error": reason}, status, headers)


def _assets() -> Mapping[str, bytes]:
    """By name; the report's style is the base of the explorer's."""
    assets = {"page.css": files("statetrace.reports").joinpath("assets", "page.css").read_bytes()}
    for file in files("statetrace.explorer").joinpath("assets").iterdir():
        if file.name.rsplit(".", 1)[-1] in TYPES:
            assets[file.name] = file.read_bytes()
    return assets


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one."""
    try:
        family, kind, *_, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StatetraceError(
            f"port {port} on '{host}' cannot be used ({reason}); choose another --port (0 for a "
            "free one) or --host"
        ) from None
    bound.listen(128)
    return bound


def address(bound: socket.socket, host: str, token: str) -> str:
    """The URL of the page."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{bound.getsockname()[1]}/{token}/"


def web_server(app: Any) -> Any:
    """A uvicorn server that is not running yet."""
    import uvicorn

    from statetrace.explorer.connections import protocol

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses contain the token
        server_header=False,
        ws="none",
        http=protocol(),
        limit_concurrency=256,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def serve(app: Any, bound: socket.socket) -> None:
    """Serve until interrupted."""
    web_server(app).run(sockets=[bound])
