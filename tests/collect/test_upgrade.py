"""Requests that ask for a protocol upgrade are answered in HTTP/1.1, and their events stored."""

import json
import shutil
import socket
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.collect.servers import KEY, Server, archived, event, serving
from tests.collect.sockets import ask, connect, post, read_reply, send, status
from tests.collect.test_serve import wait_until

H2C = (b"upgrade: h2c", b"connection: Upgrade, HTTP2-Settings", b"http2-settings: AAMAAABkAAQCAAAA")
WEBSOCKET = (
    b"Upgrade: websocket",
    b"Connection: keep-alive, Upgrade",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Sec-WebSocket-Version: 13",
)
UPGRADES = [H2C, WEBSOCKET, (b"upgrade: TLS/1.0, x/9", b"connection: upgrade"), (b"upgrade: h2c",)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("upgrade") / "lake"


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[Server]:
    with serving(lake, "--seal-seconds", "0.2") as server:
        yield server


def body(number: int) -> bytes:
    return json.dumps(event(number)).encode()


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("cut", [None, 1, 30, -60, -1])
def test_an_upgrade_is_ignored(
    server: Server, lake: Path, upgrade: tuple[bytes, ...], cut: int | None
) -> None:
    request = post(body(1), *upgrade)
    before = server.metrics()["accepted_total"]
    pieces = [request] if cut is None else [request[:cut], request[cut:]]
    assert status(ask(server, *pieces)) == 200
    assert server.metrics()["accepted_total"] == before + 1
    wait_for_events(lake, "m1")


def wait_for_events(lake: Path, *ids: str) -> None:
    """Wait until events with these ids are in the archive."""
    wait_until(lambda: set(ids) <= {one["messageId"] for one in archived(lake)})


def test_requests_that_follow_an_upgrade_are_answered(server: Server, lake: Path) -> None:
    chunked = body(3)
    long = b"POST /v1/track HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + b"\r\n".join(H2C)
    long += b"\r\nauthorization: Basic " + b64encode(f"{KEY}:".encode()) + b"\r\n\r\n"
    long += b"%x\r\n%s\r\n0\r\n\r\n" % (len(chunked), chunked)
    with connect(server) as client:
        send(client, post(body(2), *H2C) + long + post(body(4), *WEBSOCKET) + post(body(5)))
        for _ in range(4):
            assert status(read_one(client)) == 200
    wait_for_events(lake, "m2", "m3", "m4", "m5")


def read_one(client: socket.socket) -> bytes:
    """Exactly one answer of several that may come together."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while length:
        length -= len(client.recv(length))
    return head


def test_no_tunnel_is_made(server: Server) -> None:
    answer = ask(server, b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\n\r\n")
    assert status(answer) == 405
    answer = ask(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert status(answer) == 400


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_curl_with_http2(server: Server, lake: Path) -> None:
    command = ["curl", "--silent", "--http2", "-u", f"{KEY}:", "-d", body(6).decode()]
    command += ["--write-out", "%{http_code}", f"{server.url}/v1/track"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
    assert done.stdout.endswith("200")
    wait_for_events(lake, "m6")


@pytest.mark.skipif(not shutil.which("java"), reason="no java")
def test_the_http_client_of_java(server: Server, lake: Path) -> None:
    source = Path(__file__).with_name("Upgrade.java")
    basic = "Basic " + b64encode(f"{KEY}:".encode()).decode()
    command = ["java", str(source), server.url, basic]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["200", "200"], done.stderr
    wait_for_events(lake, "java-1", "java-2")


def test_expect_continue(tmp_path: Path) -> None:
    with serving(tmp_path / "lake") as server, connect(server) as client:
        request = post(body(1), b"expect: 100-continue")
        head, _, rest = request.partition(b"\r\n\r\n")
        send(client, head + b"\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
        send(client, rest)
        assert status(read_reply(client)) == 200
        assert httpx.get(f"{server.url}/health").status_code == 200
