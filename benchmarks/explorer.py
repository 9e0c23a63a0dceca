"""Response times of the explorer: every bundled model, over HTTP, from a real server.

Target: within 200 ms on two cores. A request is for everything the page shows (all readings, all
heads' maps); "changed" ones also patch a prefix and two cells and ablate two heads, which runs the
model three times. Sequences are as long as in training, and as long as the model accepts.

    python benchmarks/explorer.py
    python benchmarks/explorer.py --clients 50 --minutes 5     # load, beside half-open connections
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import socket
import statistics
import threading
import time
from pathlib import Path

from statetrace.explorer import open_model
from statetrace.explorer.server import Trust, application, listen, web_server
from statetrace.inspection import Session
from statetrace.zoo import catalogue


def request(model: Session, length: int, changed: bool, rng: random.Random) -> bytes:
    """What the page would send."""
    labels = model.task.group.labels
    request = {
        "actions": rng.choices(labels, k=length),
        "head": [rng.randint(1, model.anatomy.layers), 0],
        "maps": True,
    }
    if changed:
        last = rng.randrange(length)
        request["source"] = rng.choices(labels, k=length)
        request["patches"] = [[rng.randint(0, model.anatomy.layers), 0, last], [1, 2, 2], [2, 3, 3]]
        request["without"] = [[1, 0], [2, 1]]
    return json.dumps(request).encode()


def times(port: int, bodies: list[bytes]) -> list[float]:
    """Milliseconds from sending each request to having read its answer."""
    found = []
    for body in bodies:
        begin = time.perf_counter()
        line = http.client.HTTPConnection("127.0.0.1", port)
        line.request("POST", "/token/api/look", body)
        answer = line.getresponse()
        data = answer.read()
        found.append(1000 * (time.perf_counter() - begin))
        line.close()
        if answer.status != 200:
            raise SystemExit(data.decode())
    return found


def load(clients: int, minutes: float) -> None:
    """Response times of a bundled model for many clients at once, while others open connections
    and send nothing; and the memory of the process, clients included."""
    model = open_model("zoo:s3-associative")
    bound = listen("127.0.0.1", 0)
    server = web_server(application([model], "token", Trust.for_host("127.0.0.1")))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    serving.start()
    port, end = bound.getsockname()[1], time.monotonic() + 60 * minutes
    took: list[float] = []
    failures: list[str] = []

    def ask(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < end:
            body = request(model, model.task.length, rng.random() < 0.5, rng)
            try:
                took.extend(times(port, [body]))
            except (OSError, http.client.HTTPException, SystemExit) as error:
                failures.append(f"{type(error).__name__}: {error}")

    def open_and_wait() -> None:
        half_open: list[socket.socket] = []
        while time.monotonic() < end:
            half_open = [*half_open[-100:], socket.create_connection(("127.0.0.1", port))]
            time.sleep(0.05)

    memory = [_resident()]
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    threads.append(threading.Thread(target=open_and_wait))
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        time.sleep(5)
        memory.append(_resident())
    for thread in threads:
        thread.join()
    server.should_exit = True
    serving.join()
    took.sort()
    print(
        f"{clients} clients, {minutes:g} minutes: {len(took):,} answers, {len(failures)} failures; "
        f"median {statistics.median(took):.0f} ms, p99 {took[int(0.99 * len(took))]:.0f} ms; "
        f"memory {memory[0] / 1e6:.0f} MB, then {memory[1] / 1e6:.0f}, "
        f"{max(memory) / 1e6:.0f} at most, {memory[-1] / 1e6:.0f} at the end"
    )
    for failure in failures[:5]:
        print(failure)
    raise SystemExit(bool(failures))


def _resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--clients", type=int, help="measure load instead")
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    if options.clients:
        load(options.clients, options.minutes)
    requests = options.requests
    print("| model | ready after | length | plain: median, max | changed: median, max |")
    print("|---|---|---|---|---|")
    for name in catalogue():
        begin = time.perf_counter()
        model = open_model(f"zoo:{name}")
        ready = time.perf_counter() - begin
        bound = listen("127.0.0.1", 0)
        server = web_server(application([model], "token", Trust.for_host("127.0.0.1")))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        port = bound.getsockname()[1]
        rng = random.Random(0)
        times(port, [request(model, 4, True, rng)])  # the first one finds everything cold
        for length in (model.task.length, model.longest):
            cells = [name, f"{ready:.1f} s", str(length)]
            for changed in (False, True):
                took = times(port, [request(model, length, changed, rng) for _ in range(requests)])
                cells.append(f"{statistics.median(took):.0f} ms, {max(took):.0f} ms")
            print("| " + " | ".join(cells) + " |", flush=True)
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
