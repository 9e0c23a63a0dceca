"""The explorer's server: a page, its assets, what models there are, and answers. It keeps nothing
between requests, so any number of people can look at once, each at an address of their own.

    /TOKEN/                 the page
    /TOKEN/assets/NAME      what it is made of, from the package and nothing else
    /TOKEN/api/about        the models
    /TOKEN/api/look         POST: a request as requests.py has it, and its answer

Every path begins with a random token, which other programs and other pages do not know; a request
under another host's name is refused (DNS rebinding), as is one that another page sends. No file is
opened for a request: assets are read when the server starts.
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
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from statetrace.errors import StatetraceError
from statetrace.explorer.describe import about
from statetrace.explorer.requests import Request, answer
from statetrace.inspection.session import Session

MOST_BYTES = 65_536
"""Of a request's body."""

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
    "referrer-policy": "no-referrer",  # the address has the token in it
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Trust:
    """Under which names the server answers.

    Attributes:
        names: host names, in lower case.
        any_address: whether any literal IP address will do; such a one cannot be rebound.
    """

    names: frozenset[str]
    any_address: bool

    @staticmethod
    def for_host(host: str) -> Trust:
        """Of a server bound to `host`."""
        loopback = {"localhost", "127.0.0.1", "::1"}
        if is_loopback(host):
            return Trust(frozenset(loopback | {host.lower()}), False)
        return Trust(frozenset(loopback | {host.lower(), socket.gethostname().lower()}), True)

    def allows(self, header: str) -> bool:
        """Whether a Host header names this server; its port does not matter."""
        name = re.sub(r":\d*$", "", header).strip("[]").lower()
        if name in self.names:
            return True
        if not self.any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_comparable(models: Sequence[Session]) -> None:
    """Refuse two models that cannot read the same sequences."""
    first, *others = models
    for other in others:
        if first.task.group != other.task.group:
            a, b = first.task.group, other.task.group
            raise StatetraceError(
                f"'{first.name}' and '{other.name}' cannot be compared on the same input: one is "
                f"about {a.name} (notation '{a.notation}'), the other about {b.name} (notation "
                f"'{b.notation}')"
            )


def application(models: Sequence[Session], token: str, trust: Trust) -> Guard:
    """The whole server as an ASGI application."""
    check_comparable(models)
    described = {"models": [about(model) for model in models]}
    assets = _assets()

    async def page(request: HttpRequest) -> Response:
        return Response(assets["index.html"], media_type=TYPES["html"])

    async def asset(request: HttpRequest) -> Response:
        name = request.path_params["name"]
        if name not in assets:
            raise HTTPException(404)
        return Response(assets[name], media_type=TYPES[name.rsplit(".", 1)[-1]])

    async def models_(request: HttpRequest) -> Response:
        return JSONResponse(described)

    async def ask(request: HttpRequest) -> Response:
        body = await _body(request)
        found = await run_in_threadpool(lambda: answer(models, Request.of(body)))
        return JSONResponse(found)

    inner = Starlette(
        routes=[
            Route("/{token}/", page),
            Route("/{token}/assets/{name}", asset),
            Route("/{token}/api/about", models_),
            Route("/{token}/api/look", ask, methods=["POST"]),
        ],
        exception_handlers={
            StatetraceError: _refused,
            HTTPException: _not_there,
            Exception: _failed,
        },
    )
    return Guard(inner, token, trust)


class Guard:
    """Lets through whoever knows the token and means this server; adds the safe headers."""

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
                kept = [(k, v) for k, v in message["headers"] if k.decode().lower() not in HEADERS]
                made = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": kept + made}
            await send(message)

        trouble = self._trouble(scope)
        if trouble is None:
            await self.app(scope, receive, guarded)
        else:
            await JSONResponse({"error": trouble}, 403)(scope, receive, guarded)

    def _trouble(self, scope: Scope) -> str | None:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        host = headers.get("host", "")
        if not self.trust.allows(host):
            return f"this server does not answer under the name '{host[:80]}'"
        origin = headers.get("origin")
        if origin is not None and origin.split("://", 1)[-1] != host:
            return f"a page from '{origin[:80]}' may not ask this server"
        given = scope["path"].split("/")[1] if "/" in scope["path"] else ""
        if not secrets.compare_digest(given.encode(errors="replace"), self.token):
            return "the address lacks the token that was printed when the explorer started"
        return None


async def _body(request: HttpRequest) -> bytes:
    """The body, unless it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the request is larger than {MOST_BYTES} bytes")
    return body


async def _refused(request: HttpRequest, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _not_there(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address is not asked like that"}
    return JSONResponse({"error": said.get(error.status_code, error.detail)}, error.status_code)


async def _failed(request: HttpRequest, error: Exception) -> Response:
    return JSONResponse({"error": f"the explorer failed ({type(error).__name__})"}, 500)


def _assets() -> Mapping[str, bytes]:
    """By name; the report's style is the base of the explorer's."""
    found = {"page.css": files("statetrace.report").joinpath("assets", "page.css").read_bytes()}
    for file in files("statetrace.explorer").joinpath("assets").iterdir():
        if file.name.rsplit(".", 1)[-1] in TYPES:
            found[file.name] = file.read_bytes()
    return found


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 for one that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(found[0], found[1])
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(found[4])
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise StatetraceError(
            f"port {port} on '{host}' cannot be used ({said}); choose another --port (0 for a free "
            "one) or --host"
        ) from None
    bound.listen(128)
    return bound


def address(bound: socket.socket, host: str, token: str) -> str:
    """Where a person opens the page."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{bound.getsockname()[1]}/{token}/"


def web_server(app: Any) -> Any:
    """A uvicorn server that is not running yet."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses have the token in them
        server_header=False,
        ws="none",
        http="h11",
        limit_concurrency=64,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def serve(app: Any, bound: socket.socket) -> None:
    """Until somebody interrupts it."""
    web_server(app).run(sockets=[bound])
