"""Time limits and closing of connections, over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from eventlake.clock import SYSTEM_CLOCK
from eventlake.collect.connection import Connection
from eventlake.collect.limits import Limits
from eventlake.collect.pool import Pool
from tests.collect.parts.test_app import Harness, make_harness

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]
SHORT = Limits(header_seconds=0.3, body_seconds=0.3, idle_seconds=0.3)
START = b"POST /v1/t HTTP/1.1\r\nhost: x\r\n"


def serving(
    scenario: Callable[[Connect, Pool], Awaitable[None]],
    limits: Limits = SHORT,
    max_connections: int = 10,
) -> Harness:
    """Run a scenario against a server; return the app and its logs."""
    harness = make_harness(limits=limits)

    async def run() -> None:
        pool = Pool(limits, max_connections, SYSTEM_CLOCK)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(harness.app, pool), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        deadlines = asyncio.create_task(pool.enforce_deadlines())
        writers: list[asyncio.StreamWriter] = []

        async def connect() -> Streams:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        await asyncio.wait_for(scenario(connect, pool), 30)
        for writer in writers:
            writer.close()
        server.close()
        await pool.drain(1)
        deadlines.cancel()
        assert len(pool) == 0
        assert (harness.app.budget.used_bytes, harness.app.budget.keyless_bytes) == (0, 0)

    uvloop.run(run())
    return harness


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"POST /v1/t HT", b"HTTP/1.1 408"),
        (START + b"content-length: 5\r\n\r\n", b"HTTP/1.1 408"),
        (START + b"content-length: 5\r\n\r\n{", b"HTTP/1.1 408"),
        (b"GET /health HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"),
    ],
)
def test_a_client_that_stops_sending_is_disconnected(sent: bytes, answer: bytes) -> None:
    async def scenario(connect: Connect, _: Pool) -> None:
        reader, writer = await connect()
        writer.write(sent)
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(answer)

    harness = serving(scenario)
    slow = [code for code in harness.app.metrics.rejected if code.endswith("_too_slow")]
    assert len(slow) == (b"408" in answer)


def test_a_slow_header_is_408() -> None:
    async def scenario(connect: Connect, _: Pool) -> None:
        reader, writer = await connect()
        answer = asyncio.create_task(reader.read())
        while not answer.done():
            writer.write(b"P" if not answer.done() else b"")
            await asyncio.sleep(0.05)
        assert b"408" in answer.result() or b"400" in answer.result()

    serving(scenario)


def test_a_client_that_disconnects_is_not_an_error() -> None:
    async def scenario(connect: Connect, pool: Pool) -> None:
        for sent in (b"", b"POST", START, START + b"content-length: 9\r\n\r\n{"):
            _, writer = await connect()
            writer.write(sent)
            await writer.drain()
            writer.close()
        while len(pool):
            await asyncio.sleep(0.01)

    assert not serving(scenario).app.metrics.responses[500]


def test_a_half_closed_connection_gets_its_reply() -> None:
    async def scenario(connect: Connect, _: Pool) -> None:
        reader, writer = await connect()
        writer.write(b"GET /health HTTP/1.1\r\n\r\n")
        writer.write_eof()
        assert b'{"status":"ok"}' in await asyncio.wait_for(reader.read(), 10)

    serving(scenario)


def test_a_refused_client_that_goes_on_sending_gets_its_reply() -> None:
    async def scenario(connect: Connect, _: Pool) -> None:
        reader, writer = await connect()
        writer.write(START + b"content-length: 9999999\r\n\r\n")
        for _ in range(20):
            writer.write(b" " * 100_000)
            await asyncio.sleep(0.01)
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"request_too_large" in answer
        assert b"connection: close" in answer

    serving(scenario)


def test_a_connection_over_the_limit_closes_the_oldest_waiting_one() -> None:
    async def scenario(connect: Connect, pool: Pool) -> None:
        clients = [await connect() for _ in range(13)]
        await asyncio.sleep(0.1)
        assert len(pool) == 10
        for reader, _ in clients[:3]:
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        for reader, writer in clients[3:]:
            writer.write(b"GET /health HTTP/1.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    serving(scenario, Limits())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario(connect: Connect, _: Pool) -> None:
        reader, writer = await connect()
        paths = [b"/health", b"/nothing", b"/metrics", b"/v1/track", b"/health"] * 40
        writer.write(b"".join(b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path for path in paths))
        writer.write(b"not http\r\n\r\n")
        text = await asyncio.wait_for(reader.read(), 10)
        statuses = [int(part[:3]) for part in text.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [200, 404, 200, 405, 200] * 40 + [400]

    serving(scenario, Limits())


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_last_request_closes_the_connection(method: bytes, version: bytes) -> None:
    async def scenario(connect: Connect, _: Pool) -> None:
        reader, writer = await connect()
        writer.write(b"%s /health HTTP/%s\r\nconnection: close\r\n\r\n" % (method, version))
        answer: Any = await asyncio.wait_for(reader.read(), 10)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert bool(body) == (method == b"GET")

    serving(scenario, Limits())
