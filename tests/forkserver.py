"""Python processes that are forked from one that has imported the libraries.

A command of the command line spends six seconds importing and a fraction of one working. Here
`subprocess` hands `python -m statetrace ...`, and what else MODULES names, to a server that imports
torch, transformers and the package once and forks for every command. What a test gets is a process
like any other: its own memory, directory, environment, streams, signals and exit status. It is
orphaned when the process that started it dies. Only one thing is left out: at its end it does not
take all modules apart, which would copy all the memory that it shares with the server.

The server ends with the test run. Everything else that `subprocess` starts is a new process as
always; so is everything with STATETRACE_FORK=0 in its environment, in tests marked
`new_interpreter`, and where there is no Linux.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

ADDRESS = "STATETRACE_FORK_SERVER"
ROOT = Path(__file__).parents[1]
MODULES = ("statetrace", "reproduction", "reproduction.export", "torch.distributed.run")
"""What is forked for `python -m`; scripts, `python FILE.py`, are as well."""

LIBRARIES = (
    "torch.distributed.run", "torch.distributed.fsdp", "transformers.models.gpt2.modeling_gpt2",
    "transformers.models.gpt_neox.modeling_gpt_neox", "pandas", "pyarrow.dataset",
    "pyarrow.parquet", "matplotlib.pyplot", "plotly.io", "pydantic", "rich.progress",
    "typer.rich_utils", "uvicorn",
)  # fmt: skip
LEFT_OUT = ("statetrace.cli", "statetrace.__main__", "statetrace.training.fused.kernels")
INT, END = struct.Struct("i"), struct.Struct("id")
processor_time = 0.0
"""Seconds that forked processes of this one have used."""


def forkable(command: Any) -> list[str] | None:
    """What follows `python` in a command that the server can run."""
    if isinstance(command, str | bytes | os.PathLike):
        return None
    first, *words = map(os.fsdecode, command)
    words = words[1:] if words[:1] == ["-u"] else words
    if first != sys.executable or not words:
        return None
    known = words[0] == "-m" and words[1] in MODULES
    return words if known or words[0].endswith(".py") else None


class Popen(subprocess.Popen):
    """A process that the server forks, where it can."""

    _connection: socket.socket | None = None
    _signature = inspect.signature(subprocess.Popen._execute_child)

    def _execute_child(self, *values: Any) -> None:
        given = self._signature.bind(self, *values).arguments
        environment = dict(os.environ if given["env"] is None else given["env"])
        command = forkable(given["args"])
        unusual = any(given[name] for name in ("executable", "preexec_fn", "pass_fds", "shell"))
        if command is None or unusual or environment.get("STATETRACE_FORK") == "0":
            super()._execute_child(*values)
            return
        streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [stream if stream >= 0 else n for n, stream in enumerate(streams)]
        body = json.dumps(
            {
                "words": command,
                "cwd": os.path.join(os.getcwd(), os.fsdecode(given["cwd"] or "")),
                "env": {os.fsdecode(k): os.fsdecode(v) for k, v in environment.items()},
                "new_session": given["start_new_session"],
            }
        ).encode()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect("\0" + os.environ[ADDRESS])
        socket.send_fds(self._connection, [INT.pack(len(body))], streams)
        self._connection.sendall(body)
        (self.pid,) = INT.unpack(self._connection.recv(INT.size))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._connection is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._connection], [], [], 0)[0]:
            return 0, 0
        global processor_time
        status, seconds = END.unpack(self._connection.recv(END.size) or END.pack(9, 0.0))
        processor_time += seconds
        self._connection.close()
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, **others: Any) -> int | None:
        if self._connection is not None:
            others["_waitpid"] = lambda _, flags: self._try_wait(flags)
        return super()._internal_poll(_deadstate, **others)


def start() -> subprocess.Popen[bytes] | None:
    """Start the server of a test run, where there is none; it ends when its stdin is closed."""
    if sys.platform != "linux":
        return None
    server = None
    if ADDRESS not in os.environ:
        os.environ[ADDRESS] = f"statetrace-tests-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("\0" + os.environ[ADDRESS])
            listening.listen(64)
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.forkserver", str(listening.fileno())],
                cwd=ROOT,
                pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
            )
    subprocess.Popen = Popen
    return server


def serve(listening: socket.socket) -> dict[str, Any]:
    """Fork for every request; returns only in the processes that are to carry one out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a watching process ended
    while True:
        ready, _, _ = select.select([listening, 0], [], [])
        if 0 in ready:
            os._exit(0)
        connection, _ = listening.accept()
        preload()
        if os.fork():
            connection.close()
            continue
        listening.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        (size,), streams, _, _ = _received(connection)
        request = json.loads(connection.makefile("rb").read(size))
        child = os.fork()
        if child:
            for stream in streams:
                os.close(stream)
            _watch(child, connection)
        connection.close()
        return request | {"streams": streams}


def _received(connection: socket.socket) -> tuple[Any, ...]:
    data, *others = socket.recv_fds(connection, INT.size, 3)
    return INT.unpack(data), *others


def _watch(child: int, connection: socket.socket) -> None:
    """Tell how the child ends; leave it alone, as an orphan, when nobody listens any more."""
    connection.sendall(INT.pack(child))
    ready, _, _ = select.select([os.pidfd_open(child), connection], [], [])
    if connection not in ready:
        _, status, used = os.wait4(child, 0)
        connection.sendall(END.pack(status, used.ru_utime + used.ru_stime))
    os._exit(0)


def preload() -> None:
    """Import everything but the command line, which looks at the streams when it is imported."""
    if "torch" in sys.modules:
        return
    subprocess.Popen = Popen
    files = sorted((ROOT / "statetrace").rglob("*.py"))
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    for name in (*LIBRARIES, *modules):
        if not name.startswith(LEFT_OUT):
            with contextlib.suppress(ImportError):  # of what is not installed
                importlib.import_module(name.removesuffix(".__init__"))
    gc.freeze()  # a collection in a child would copy what it looks at


def become(request: dict[str, Any]) -> None:
    """Take over everything that the process that was asked for has of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, stream in enumerate(request["streams"]):
        os.dup2(stream, target)
        os.close(stream)
    if request["new_session"]:
        os.setsid()
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=stream.isatty() or stream is sys.stderr)
        stream.reconfigure(write_through=unbuffered)
    first = request["words"][0]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = request["cwd"] if first == "-m" else str(Path(first).resolve().parent)
    kept = [path for path in sys.path[1:] if path not in before]
    sys.path[:] = [here, *filter(None, paths), *kept]
    importlib.invalidate_caches()


def run(words: list[str]) -> int:
    """Run a module or a script as Python would; its exit status."""
    sys.argv = words[words[0] == "-m" :]
    try:
        if words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    become(asked)
    status = run(asked["words"])
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
