"""A bad line in front of a collector: some answers are refusals, and one is lost on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx


@dataclass
class Line:
    """Where the client connects to, and what has happened to its requests so far."""

    target: str
    url: str = ""
    told: list[int] = field(default_factory=list)

    def carry(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        """The first is refused, the second stored but its answer lost, the others pass."""
        if not self.told:
            status = 429
        else:
            kept = {k: v for k, v in headers.items() if k.lower() not in ("host", "content-length")}
            answer = httpx.post(self.target + path, content=body, headers=kept)
            status = 503 if len(self.told) == 1 else answer.status_code
        self.told.append(status)
        return status


@contextmanager
def flaky(target: str) -> Iterator[Line]:
    line = Line(target)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = line.carry(self.path, body, dict(self.headers))
            answer = b'{"success":true}'
            self.send_response(status)
            self.send_header("retry-after", "1")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        line.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield line
        finally:
            server.shutdown()
            thread.join()
