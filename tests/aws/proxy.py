"""A proxy before AWS or Azure: it records what was asked for, and answers where a rule says so."""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.aws.answers import Answer
from tests.aws.calls import Call, understood
from tests.aws.moto import Aws, entered
from tests.aws.rules import Rule

PREFIXES = ("segment-logs/", "segment-stage/", "segment-data/", "logs/")
"""All that a lake may touch of its bucket."""
TESTER = "another"
"""The access key of a test's own clients, which no rule is for."""
PATIENCE = 60.0

_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}


@dataclass
class Proxy:
    """What the product asked for, and what is in its way."""

    upstream: Any
    here: Any
    """The same cloud behind this proxy."""
    rules: list[Rule] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    connections: set[socket.socket] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def ruled(self, *rules: Rule) -> Iterator["Proxy"]:
        """With these rules for some time, before all others."""
        before = self.rules
        self.rules = [*rules, *before]
        try:
            yield self
        finally:
            self.rules = before

    @contextmanager
    def visited(self) -> Iterator[None]:
        """Another process calls, and all that it has sent is done with when this ends."""
        known = set(self.connections)
        yield
        # It may be dead with connections that still wait for us: we come after them.
        url = urlsplit(self.here.url)
        with socket.create_connection((url.hostname, url.port), PATIENCE) as last:
            last.sendall(b"GET /moto-api/ HTTP/1.0\r\n\r\n")
            assert last.recv(1)
        with self.changed:
            assert self.changed.wait_for(lambda: self.connections <= known, PATIENCE)

    def answer(self, call: Call) -> Answer:
        if call.caller in ("", TESTER):
            return self.forward(call)
        self.calls.append(call)
        found = (rule(call, self.forward) for rule in self.rules)
        return next((answer for answer in found if answer), None) or self.forward(call)

    def forward(self, call: Call) -> Answer:
        upstream = http.client.HTTPConnection(urlsplit(self.upstream.url).netloc, timeout=PATIENCE)
        kept = {name: value for name, value in call.headers.items() if name not in _HOP}
        try:
            upstream.request(call.method, call.target, call.body, kept)
            got = upstream.getresponse()
            headers = {k: v for k, v in got.getheaders() if k.lower() not in _HOP}
            if call.method == "HEAD" and (size := got.headers["Content-Length"]):
                headers["Content-Length"] = size
            return Answer(got.status, got.read(), headers)
        finally:
            upstream.close()

    def asked(self, *actions: str) -> list[Call]:
        """The calls of some actions."""
        return [call for call in self.calls if call.action in actions]

    def astray(self) -> list[str]:
        """What was read, listed, written or deleted beside the lake's four prefixes."""
        used = [(call, need) for call in self.calls if call.service == "s3" for need in call.needs]
        return [
            f"{call}: {need}"
            for call, need in used
            if need.permission.startswith("s3:") and not need.resource.startswith(PREFIXES)
        ]


Understand = Callable[[str, str, Mapping[str, str], bytes], Call]
"""Makes a call of a request's method, target, headers and body."""


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Server"

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # clients that are killed end in the middle
            super().handle_one_request()
            return
        self.close_connection = True

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = self.server.understand(self.command, self.path, dict(self.headers), body)
        self._send(self.server.proxy.answer(call))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815 - the base's own names

    def _send(self, answer: Answer) -> None:
        if answer.cut is not None:
            self.close_connection = True
        if answer.cut is None or answer.cut >= 0:
            self.wfile.write(self._whole(answer))

    def _whole(self, answer: Answer) -> bytes:
        body = b"" if self.command == "HEAD" else answer.body
        self.send_response_only(answer.status)
        headers = {"Content-Length": str(len(body)), **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        head = b"".join([*self._headers_buffer, b"\r\n"])
        self._headers_buffer.clear()
        return head + body[: answer.cut]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """Knows its connections, so that none is left when it ends."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(
        self,
        upstream: Any,
        make: type[Proxy],
        understand: Understand,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        scheme = "https" if tls else "http"
        self.socket = tls.wrap_socket(self.socket, server_side=True) if tls else self.socket
        here = replace(upstream, url=f"{scheme}://127.0.0.1:{self.server_port}")
        self.proxy, self.understand = make(upstream, here), understand

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        with self.proxy.changed:
            self.proxy.connections.add(request)
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        super().shutdown_request(request)
        with self.proxy.changed:
            self.proxy.connections.discard(request)
            self.proxy.changed.notify_all()

    def end(self) -> None:
        self.shutdown()
        for one in tuple(self.proxy.connections):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.server_close()


@contextmanager
def started(
    upstream: Any,
    make: type[Proxy] = Proxy,
    understand: Understand = understood,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Any]:
    """A proxy before a cloud while it is needed."""
    server = Server(upstream, make, understand, tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.proxy
    finally:
        server.end()
        thread.join()


@pytest.fixture
def proxy(aws: Aws) -> Iterator[Proxy]:
    """What stands between the product and this test's AWS."""
    with started(aws) as proxy, entered(proxy.here):
        yield proxy
