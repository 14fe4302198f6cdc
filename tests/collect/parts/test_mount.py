"""An ASGI app behind the collector's server, over real sockets."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from eventlake.clock import SYSTEM_CLOCK
from eventlake.collect.connection import Connection
from eventlake.collect.limits import Limits
from eventlake.collect.mount import Mount
from eventlake.collect.pool import Pool
from eventlake.collect.proxies import TrustedProxies
from tests.collect.parts.test_app import make_harness

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]
LIMITS = Limits(body_seconds=0.5)
LARGE = 20 << 20


class Server:
    """Describes each request in its reply; `/stream`, `/large`, `/endless` and `/dead` do more."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"].decode()
        names = ("method", "path", "query_string", "headers", "client")
        text = json.dumps([str(scope[name]) for name in names] + [body]).encode()
        path = scope["path"]
        if path == "/dead":
            raise OSError("ended without a reply")
        headers = [(b"Content-Type", b"text/plain"), (b"connection", b"never")]
        if path in ("/echo", "/"):
            headers.append((b"Content-Length", str(len(text)).encode()))
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        try:
            if path == "/stream":
                for piece in (b"one", b"", b"two"):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            while path == "/endless":
                await send({"type": "http.response.body", "body": b"x" * 9999, "more_body": True})
            last = b"y" * LARGE if path == "/large" else text
            await send({"type": "http.response.body", "body": last})
            assert (await receive())["type"] == "http.disconnect"
        finally:
            self.ended.append(path)


def serving(scenario: Callable[[Connect], Awaitable[None]]) -> Server:
    """Run a scenario against a collector with a mounted app; return the app."""
    harness, app = make_harness(limits=LIMITS), Server()
    harness.app.mount = Mount(app, TrustedProxies())

    async def run() -> None:
        pool = Pool(LIMITS, 10, SYSTEM_CLOCK)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(harness.app, pool), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def connect() -> Streams:
            return await asyncio.open_connection("127.0.0.1", port)

        await asyncio.wait_for(scenario(connect), 30)
        server.close()
        await pool.drain(1)
        assert (harness.app.budget.used_bytes, len(pool)) == (0, 0)

    uvloop.run(run())
    return app


async def read_reply(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the head and the body, whose length is known or which is in chunks."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head:
        length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        return head, await reader.readexactly(int(length))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    assert await reader.readexactly(2) == b"\r\n"
    return head, body


async def ask(streams: Streams, request: bytes) -> tuple[bytes, bytes]:
    reader, writer = streams
    writer.write(request.replace(b"\n", b"\r\n"))
    return await read_reply(reader)


def test_the_app_gets_the_whole_request_and_its_reply_is_sent() -> None:
    async def scenario(connect: Connect) -> None:
        streams = await connect()
        head, body = await ask(
            streams,
            b"POST /echo/?a=1 HTTP/1.1\nHost: h\nX-Own: Mine\nX-Forwarded-For: 192.0.2.7\n"
            b"Content-Length: 3\n\nabc",
        )
        assert head.startswith(b"HTTP/1.1 201 Created\r\n")
        assert b"content-type: text/plain\r\n" in head
        # Pages of other sites may read replies of the collector, but none of the app.
        assert b"access-control" not in head
        assert b"never" not in head
        method, path, query, headers, client, sent = json.loads(body)
        assert (method, path, query, sent) == ("POST", "/echo", "b'a=1'", "abc")
        assert "(b'x-own', b'Mine')" in headers
        assert client == "('192.0.2.7', 0)"
        head, body = await ask(streams, b"GET / HTTP/1.1\nHost: h\n\n")
        assert json.loads(body)[:2] == ["GET", "/"]
        streams[1].close()

    assert serving(scenario).ended == ["/echo", "/"]


def test_one_connection_serves_both_the_collector_and_the_app() -> None:
    async def scenario(connect: Connect) -> None:
        streams = await connect()
        for _ in range(2):
            head, body = await ask(streams, b"GET /health HTTP/1.1\nHost: h\n\n")
            assert body == b'{"status":"ok"}'
            head, _ = await ask(streams, b"GET /echo HTTP/1.1\nHost: h\n\n")
            assert b" 201 " in head
            head, body = await ask(
                streams, b"POST /v1/track HTTP/1.1\nHost: h\nContent-Length: 2\n\n{}"
            )
            assert (b" 401 " in head, b"access-control-allow-origin: *" in head) == (True, True)
        streams[1].close()

    serving(scenario)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(
            b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\nGET /health HTTP/1.1\r\nhost: h\r\n\r\n"
            b"GET /echo HTTP/1.1\r\nhost: h\r\n\r\n"
        )
        assert (await read_reply(reader))[1].startswith(b"onetwo[")
        assert (await read_reply(reader))[1] == b'{"status":"ok"}'
        assert b"/echo" in (await read_reply(reader))[1]
        writer.close()

    serving(scenario)


def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"GET /stream HTTP/1.0\r\nhost: h\r\n\r\n")
        reply = await reader.read()
        assert b"chunked" not in reply
        assert reply.split(b"\r\n\r\n")[1].startswith(b"onetwo[")
        writer.close()

    serving(scenario)


def test_head_has_no_body() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"HEAD /echo HTTP/1.1\r\nhost: h\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: " in head
        head, body = await ask((reader, writer), b"GET /health HTTP/1.1\nHost: h\n\n")
        assert body == b'{"status":"ok"}'
        writer.close()

    serving(scenario)


def test_a_large_reply_waits_for_a_slow_client() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n")
        await asyncio.sleep(0.3)
        _, body = await read_reply(reader)
        assert len(body) == LARGE
        writer.close()

    assert serving(scenario).ended == ["/large"]


@pytest.mark.parametrize("path", ["large", "endless"])
def test_a_client_that_reads_nothing_is_disconnected(path: str) -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        reader._limit = 1  # type: ignore[attr-defined]  # the client's side buffers nothing
        writer.write(f"GET /{path} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
        await asyncio.sleep(1.5)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(LARGE + 1)
        writer.close()

    assert serving(scenario).ended == [f"/{path}"]


def test_an_endless_reply_ends_when_the_client_goes() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"GET /endless HTTP/1.1\r\nhost: h\r\n\r\n")
        await reader.readexactly(100_000)
        writer.transport.abort()
        await asyncio.sleep(0.5)

    assert serving(scenario).ended == ["/endless"]


def test_an_app_that_ends_without_a_reply_is_an_internal_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def scenario(connect: Connect) -> None:
        streams = await connect()
        head, _ = await ask(streams, b"GET /dead HTTP/1.1\nHost: h\n\n")
        assert b" 500 " in head
        streams[1].close()

    serving(scenario)
    assert "did not reply" in capsys.readouterr().err


def test_the_description_that_an_unknown_path_names_is_the_collectors() -> None:
    async def scenario(connect: Connect) -> None:
        streams = await connect()
        _, body = await ask(streams, b"GET /v1/nothing HTTP/1.1\nHost: h\n\n")
        assert b"see /openapi.json" in body
        head, body = await ask(streams, b"GET /openapi.json HTTP/1.1\nHost: h\n\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"/v1/track" in body
        streams[1].close()

    serving(scenario)
