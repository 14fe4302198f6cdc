"""An unreliable proxy in front of a collector: one request is refused, one reply is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx


@dataclass
class FlakyProxy:
    """The proxy's address, and the statuses that it has replied with."""

    target: str
    url: str = ""
    statuses: list[int] = field(default_factory=list)

    def forward(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        """Refuse the first request, drop the reply to the second, forward the others."""
        if not self.statuses:
            status = 429
        else:
            passed = {
                k: v for k, v in headers.items() if k.lower() not in ("host", "content-length")
            }
            answer = httpx.post(self.target + path, content=body, headers=passed)
            status = 503 if len(self.statuses) == 1 else answer.status_code
        self.statuses.append(status)
        return status


@contextmanager
def flaky_proxy(target: str) -> Iterator[FlakyProxy]:
    proxy = FlakyProxy(target)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = proxy.forward(self.path, body, dict(self.headers))
            answer = b'{"success":true}'
            self.send_response(status)
            self.send_header("retry-after", "1")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        proxy.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
