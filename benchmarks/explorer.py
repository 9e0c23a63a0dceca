"""Response times of the explorer: every bundled model, over HTTP, from a real server.

Target: within 200 ms on two cores. A request is for everything the page shows (all readings, all
heads' maps); "changed" ones also patch a prefix and two cells and ablate two heads, which runs the
model three times. Sequences are as long as in training, and as long as the model accepts.

    python benchmarks/explorer.py
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import threading
import time

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=50)
    requests = parser.parse_args().requests
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
