"""A real server on a free port of this machine, for as long as a test needs it."""

import http.client
import json
import threading
from contextlib import contextmanager

from statetrace.explorer.server import Trust, address, application, listen, web_server

TOKEN = "token-of-the-tests"


class Served:
    """A running explorer."""

    def __init__(self, bound):
        self.port = bound.getsockname()[1]
        self.url = address(bound, "127.0.0.1", TOKEN)

    def ask(self, path, body=None, method=None, token=TOKEN, **headers):
        """(status, headers, JSON or bytes); the path goes out exactly as it is given."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        start = f"/{token}" if token else ""
        line.request(method or ("GET" if data is None else "POST"), start + path, data, sent)
        answer = line.getresponse()
        raw = answer.read()
        line.close()
        kind = answer.getheader("content-type", "")
        content = json.loads(raw) if kind == "application/json" else raw
        return answer.status, dict(answer.getheaders()), content

    def look(self, **asked):
        status, _, content = self.ask("/api/look", asked)
        assert status == 200, content
        return content


@contextmanager
def serving(*models):
    bound = listen("127.0.0.1", 0)
    app = application(models, TOKEN, Trust.for_host("127.0.0.1"))
    server = web_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield Served(bound)
    finally:
        server.should_exit = True
        thread.join(timeout=300)
        bound.close()
