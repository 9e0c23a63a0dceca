"""`statetrace explore`: a local page for inspecting a model by hand."""

from __future__ import annotations

import contextlib
import secrets
from typing import Annotated

import typer
from rich.progress import TaskID

from statetrace.cli.console import bars, note, out
from statetrace.errors import StatetraceError


def explore(
    run: Annotated[
        str, typer.Argument(help="A run folder, a compiled model's folder, or zoo:NAME.")
    ],
    other: Annotated[
        str | None,
        typer.Argument(help="A second model, compared on the same input.", metavar="RUN2"),
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
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Inspect a model on a local page: type actions, read every layer, patch.

    For a sequence of actions the page shows the true state and parity, what probes and the
    unembedding read at every layer and position, and the attention of every head. Click a cell to
    patch it from another sequence, drag a prefix, ablate heads, and see how the answer changes.
    Every view has its own address and the Python code that reproduces it.

    The server listens only on this machine unless --host is given, requires the random token in
    its address, and writes nothing. Ctrl-C stops it.
    """
    try:
        from statetrace.explorer.server import (
            Trust,
            address,
            application,
            check_comparable,
            is_loopback,
            listen,
            serve,
        )
    except ModuleNotFoundError as error:
        raise StatetraceError(
            f"the explorer needs the package {error.name}, which is not installed; "
            "pip install 'statetrace[explorer]'"
        ) from None
    from statetrace.explorer import open_model

    if not 0 <= port <= 65535:
        raise StatetraceError(f"--port {port} is not a port; use 0 to 65535")
    if checkpoint is not None and other is not None:
        raise StatetraceError(
            f"--checkpoint {checkpoint} works with one model; drop the second model or the option"
        )
    bound = listen(host, port)
    sessions = []
    with bars(transient=True) as progress:
        for name in [run] if other is None else [run, other]:
            row = progress.add_task("probes", total=1.0)

            def update(share: float, row: TaskID = row) -> None:
                progress.update(row, completed=share)

            sessions.append(
                open_model(name, device=device, step=checkpoint, progress=update, tell=note)
            )
            check_comparable(sessions)
    token = secrets.token_urlsafe(16)
    app = application(sessions, token, Trust.for_host(host))
    url = address(bound, host, token)
    out.print(url, markup=False)
    if not is_loopback(host):
        note("anyone with this address can use the explorer from another machine")
    note("Ctrl-C stops it")
    if not no_open:
        _open(url)
    with contextlib.suppress(KeyboardInterrupt):
        serve(app, bound)


def _open(url: str) -> None:
    """In a thread of its own: some browsers do not return at once."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
