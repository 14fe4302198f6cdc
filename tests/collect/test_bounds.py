"""Limits of what clients can use without a key: headers, connections, bodies, time."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from eventlake.collect.limits import DEFAULTS, MAX_BODY_BYTES
from tests.collect.servers import Server, event, file_limit, serving
from tests.collect.sockets import ask, connect, connections, is_closed, post, send, status

START = b"GET /health HTTP/1.1\r\nhost: x\r\n"
BODY = json.dumps(event(1)).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("bounds") / "lake") as server:
        assert server.post("/v1/track", event(0)).status_code == 200
        yield server


def growth_mb(server: Server, before: int) -> float:
    return (psutil.Process(server.process.pid).memory_info().rss - before) / 1e6


def rss(server: Server) -> int:
    memory: int = psutil.Process(server.process.pid).memory_info().rss
    return memory


@pytest.mark.parametrize(
    ("start", "piece", "answer"),
    [
        (START, b"x-aaaaaaaaaaaaaaaa: b\r\n" * 40_000, 431),
        (START + b"x-one: ", b"a" * (1 << 20), 431),
        (START, b"a" * (1 << 20), 431),
        (START, b"a:b\r\n" * 100_000, 431),
        (b"GET /", b"a" * (1 << 20), 414),
        (b"GET /health?", b"a" * (1 << 20), 414),
        (b"POST /v1/t HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;", b"x" * (1 << 20), 431),
        (
            b"POST /v1/t HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
            b"x-trailer: b\r\n" * 70_000,
            431,
        ),
        (
            b"POST /v1/t HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx:",
            b"y" * (1 << 20),
            431,
        ),
        (b"", b"\r\n" * (1 << 19), 431),
        (b"", b"\x00\xff" * (1 << 19), 400),
    ],
)
def test_a_header_without_end_is_refused(
    server: Server, start: bytes, piece: bytes, answer: int
) -> None:
    before = rss(server)
    assert status(ask(server, start, *[piece] * 100)) == answer
    assert growth_mb(server, before) < 8
    assert httpx.get(f"{server.url}/health", timeout=10).status_code == 200


@pytest.mark.parametrize("size", [60_000, 65_000])
def test_a_header_of_64_kib_is_read(server: Server, size: int) -> None:
    assert status(ask(server, post(BODY, b"x-large: " + b"a" * size))) == 200
    many = [b"x-%d: " % n + b"a" * (size // 101) for n in range(100)]
    assert status(ask(server, post(BODY, *many))) == 200
    # With the end of a large body before it, in one piece.
    large = post(json.dumps(event(2, properties={"a": "x" * 30_000})).encode())
    with connect(server) as client:
        send(client, large + post(BODY, b"connection: close", *many))
        answers = b""
        while piece := client.recv(65_536):
            answers += piece
    assert answers.count(b"HTTP/1.1 200") == 2


def test_a_body_in_tiny_chunks_is_read(server: Server) -> None:
    head = post(b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
    body = json.dumps(event(3, properties={"a": "x" * 20_000})).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert status(ask(server, head + chunks)) == 200


def test_many_incomplete_headers_are_bounded_together(server: Server) -> None:
    before = rss(server)
    with connections(server, 400) as clients:
        for client in clients:
            send(client, START + b"x-one: " + b"a" * 60_000)
        assert server.post("/v1/track", event(4)).status_code == 200
        assert growth_mb(server, before) < 40
        # The oldest are closed, the youngest are left alone.
        assert is_closed(clients[0], 10)
        assert not is_closed(clients[-1], 0.1)


def test_many_pipelined_requests_are_bounded(server: Server) -> None:
    before, peak = rss(server), 0.0
    with connections(server, 60) as clients:
        for client in clients:
            client.setblocking(False)
            with suppress(OSError):
                client.send(START.replace(b"health", b"openapi.json") + b"\r\n")
                client.send((START + b"\r\n") * 60_000)
        for _ in range(20):
            peak = max(peak, growth_mb(server, before))
            assert server.post("/v1/track", event(4)).status_code == 200
    assert peak < 60


def test_connections_without_a_key_do_not_crowd_out_senders(server: Server) -> None:
    """Announced bodies cost no memory, and bodies without a key share a part of the budget."""
    announced = b"POST /v1/track HTTP/1.1\r\nhost: x\r\ncontent-length: 511000\r\n\r\n"
    with connections(server, 100) as clients:
        for client in clients:
            send(client, announced)
        without_key = httpx.post(f"{server.url}/v1/track", json=event(5, writeKey="x"))
        assert without_key.status_code == 401
        for client in clients:
            send(client, b" " * 510_999)
        for number in range(50):
            assert server.post("/v1/track", event(number)).status_code == 200
        assert server.post("/v1/batch", {"batch": [{"type": "page"}] * 2_500}).status_code == 200
    assert DEFAULTS.keyless_bytes < 100 * MAX_BODY_BYTES
    refused = server.metrics()
    assert refused['responses_total{status="429"}'] > 0


SILENT = {
    "silent": b"",
    "half a header": b"GET / HT",
    "half a body": b"POST /v1/t HTTP/1.1\r\ncontent-length: 9\r\n\r\n{",
    "idle": b"GET /health HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("kind", SILENT)
def test_idle_connections_do_not_lock_others_out(tmp_path: Path, kind: str) -> None:
    with ExitStack() as stack:
        with file_limit(256):
            server = stack.enter_context(serving(tmp_path / "lake"))
        clients: list[socket.socket] = []
        for _ in range(300):
            with suppress(OSError):
                clients.append(stack.enter_context(connect(server)))
                send(clients[-1], SILENT[kind])
        for number in range(
            20
        ):  # each gives up long before an idle connection is closed for its age
            assert server.post("/v1/track", event(number)).status_code == 200
        assert psutil.Process(server.process.pid).num_fds() < 240
        assert not is_closed(clients[-1], 0.1)
