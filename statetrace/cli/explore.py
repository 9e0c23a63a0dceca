"""`statetrace explore`: a local page to look into a model by hand."""

from __future__ import annotations

import contextlib
import secrets
from typing import Annotated

import typer

from statetrace.cli.console import bars, note, out
from statetrace.errors import StatetraceError


def explore(
    run: Annotated[
        str, typer.Argument(help="A run folder, a compiled model's folder, or zoo:NAME.")
    ],
    other: Annotated[
        str | None,
        typer.Argument(help="A second model, beside the first on the same input.", metavar="RUN2"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; other machines reach it only if you say so.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for a free one.")] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address and open no browser.")
    ] = False,
    checkpoint: Annotated[
        int | None,
        typer.Option(help="A step of the run's training (default the newest checkpoint)."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Serve a local page on which to look into a model: type actions, read every layer, patch.

    It shows, for a sequence of actions, the true state and parity, what probes and the unembedding
    read at every layer and position, and the attention of every head. Click a cell to patch it from
    another sequence, drag a prefix, ablate heads, and see what the model then says. Every view has
    an address, and the Python that reproduces it.

    The server listens on this machine alone unless --host says otherwise, answers only to
    addresses with its random token, and writes nothing. Ctrl-C ends it.
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
            f"the explorer needs the package '{error.name}'; pip install starlette uvicorn"
        ) from None
    from statetrace.inspection import open_model

    if not 0 <= port <= 65535:
        raise StatetraceError(f"--port {port} is no port; use 0 to 65535")
    if checkpoint is not None and other is not None:
        raise StatetraceError(
            f"--checkpoint {checkpoint} is for one model; give one, or leave it out"
        )
    bound = listen(host, port)
    models = []
    with bars(transient=True) as progress:
        for name in [run] if other is None else [run, other]:
            row = progress.add_task("probes", total=1.0)

            def tell(share: float, row: object = row) -> None:
                progress.update(row, completed=share)  # type: ignore[arg-type]

            models.append(
                open_model(name, device=device, step=checkpoint, progress=tell, tell=note)
            )
            check_comparable(models)
    token = secrets.token_urlsafe(16)
    app = application(models, token, Trust.for_host(host))
    where = address(bound, host, token)
    out.print(where, markup=False)
    if not is_loopback(host):
        note("whoever has this address can use the explorer from another machine")
    note("Ctrl-C ends it")
    if not no_open:
        _open(where)
    with contextlib.suppress(KeyboardInterrupt):
        serve(app, bound)


def _open(where: str) -> None:
    """In the person's browser, from another thread: some browsers do not return at once."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(where,), daemon=True).start()
