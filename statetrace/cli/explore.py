"""`statetrace explore`: a local page for inspecting a model by hand."""

from __future__ import annotations

import contextlib
import secrets
from typing import Annotated, Any

import typer

from statetrace.cli.completion import complete_model
from statetrace.cli.console import next_steps, note, out, working
from statetrace.cli.sources import DEVICE, EXTERNAL, MODEL, resolve
from statetrace.config.options import with_reading
from statetrace.errors import StatetraceError


@with_reading(EXTERNAL)
def explore(
    *,
    run: Annotated[str, MODEL],
    other: Annotated[
        str | None,
        typer.Argument(
            help="A second model, compared on the same input.",
            metavar="RUN2",
            autocompletion=complete_model,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default accepts this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for a free one.")] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address without opening a browser.")
    ] = False,
    checkpoint: Annotated[
        int | None,
        typer.Option(help="The training step of a checkpoint (default: the newest one)."),
    ] = None,
    device: Annotated[str, DEVICE] = "auto",
    reading: dict[str, Any],
) -> None:
    """Inspect a model on a local page: type actions, read every layer, patch.

    For a sequence of actions the page shows the true state and parity, what probes and the
    unembedding read at every layer and position, and the attention of every head. Click a cell to
    patch it from another sequence, drag a prefix, ablate heads, and see how the answer changes.
    Every view has its own address and the Python code that reproduces it.

    The server listens only on this machine unless --host is given, requires the random token in
    its address, and writes nothing. Ctrl-C stops it.
    """
    with working("starting the explorer") as work:
        try:
            from statetrace.explorer import open_model, server
        except ModuleNotFoundError as error:
            raise StatetraceError(
                f"the explorer needs the package {error.name}, which is not installed; "
                "pip install 'statetrace[explorer]'"
            ) from None
        if not 0 <= port <= 65535:
            raise StatetraceError(f"--port {port} is not a port; use 0 to 65535")
        if checkpoint is not None and other is not None:
            raise StatetraceError(
                f"--checkpoint {checkpoint} works with one model; drop the second model or the "
                "option"
            )
        bound = server.listen(host, port)
        sessions = []
        for name in [run] if other is None else [run, other]:
            work.doing(f"fitting probes of {name}")
            source, arguments = resolve(name, reading)
            arguments |= {"device": device, "step": checkpoint, "tell": note}
            sessions.append(open_model(source, **arguments, progress=work.share))
            server.check_comparable(sessions)
    token = secrets.token_urlsafe(16)
    app = server.application(sessions, token, server.Trust.for_host(host))
    url = server.address(bound, host, token)
    out.print(url, markup=False)
    if not server.is_loopback(host):
        note("anyone with this address can use the explorer from another machine")
    next_steps("open the address in a browser; Ctrl-C stops the explorer")
    if not no_open:
        _open(url)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve(app, bound)
    note("stopped")


def _open(url: str) -> None:
    """In a thread of its own: some browsers do not return at once."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
