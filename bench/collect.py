"""The collector under load: `make bench-collect`. Server and load generator share the machine."""

import asyncio
import gzip
import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import psutil
import uvloop

KEY = "bench"
FAST_SECONDS = 6.0
STEADY_SECONDS = 12.0
"""Long enough for segments to be sealed meanwhile."""
BATCH = 100
SENT = "2026-11-15T10:01:00.000Z"
TARGETS = {
    "single, as fast as it goes": ("events/s", 3_000),
    "batches of 100, as fast as it goes": ("events/s", 25_000),
    "single, half load": ("p99 ms", 50),
    "batches of 100, half load": ("p99 ms", 50),
}


def event(number: int) -> dict[str, Any]:
    """An event as an SDK sends it, about 700 bytes."""
    return {
        "type": "track",
        "messageId": f"bench-{number:032d}",
        "anonymousId": "9f3c2b1a-0d4e-4c55-8c8a-7b6a5f4e3d2c",
        "userId": f"user-{number % 9973}",
        "event": "Order Completed",
        "timestamp": f"2026-11-15T10:00:{number // 1000 % 60:02}.{number % 1000:03}Z",
        "properties": {
            "order_id": f"o-{number}",
            "total": 129.95,
            "currency": "EUR",
            "coupon": None,
            "products": [{"sku": "A-1", "price": 64.5, "quantity": 2}],
        },
        "context": {
            "library": {"name": "analytics-python", "version": "2.4.0"},
            "ip": "203.0.113.7",
            "locale": "de-AT",
            "userAgent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/150.0",
            "page": {"path": "/checkout", "referrer": "", "title": "Checkout"},
        },
        "integrations": {"All": True},
    }


def request(path: str, value: object) -> bytes:
    body = json.dumps(value, separators=(",", ":")).encode()
    key = b64encode(f"{KEY}:".encode()).decode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Basic {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Measured:
    """What a phase showed."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return 1000 * ordered[int(share * (len(ordered) - 1))]


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.answer: asyncio.Future[bytes] | None = None

    def data_received(self, data: bytes) -> None:
        self.seen += data
        if self.answer and self.seen.endswith(b"}"):  # the head and the body may come apart
            self.answer.set_result(self.seen)

    async def send(self, payload: bytes) -> bytes:
        self.answer, self.seen = asyncio.get_running_loop().create_future(), b""
        self.transport.write(payload)
        return await self.answer


@dataclass(frozen=True)
class Phase:
    """A load: so many connections, as fast as they go or at a steady rate of requests."""

    name: str
    payloads: list[bytes]
    events: int
    connections: int
    rate: float | None = None

    @property
    def seconds(self) -> float:
        return STEADY_SECONDS if self.rate else FAST_SECONDS


async def run_phase(phase: Phase, url: str) -> Measured:
    address, measured, loop = urlsplit(url), Measured(), asyncio.get_running_loop()
    opened = [
        await loop.create_connection(Connection, address.hostname or "", address.port or 0)
        for _ in range(phase.connections)
    ]
    began = perf_counter()
    senders = [
        _sender(connection, phase, began, number, measured)
        for number, (_, connection) in enumerate(opened)
    ]
    await asyncio.gather(*senders)
    measured.seconds = perf_counter() - began
    for transport, _ in opened:
        transport.close()
    return measured


async def _sender(
    connection: Connection, phase: Phase, began: float, number: int, measured: Measured
) -> None:
    gap = phase.connections / phase.rate if phase.rate else 0.0
    due, turn = began + gap * number / phase.connections, number
    while (now := perf_counter()) - began < phase.seconds:
        if gap and due > now:
            await asyncio.sleep(due - now)
        # A late start counts as waiting: the client would have sent at that moment.
        start = due if gap else now
        answer = await connection.send(phase.payloads[turn % len(phase.payloads)])
        measured.latencies.append(perf_counter() - start)
        measured.refused += not answer.startswith(b"HTTP/1.1 200")
        turn, due = turn + phase.connections, due + gap


@contextmanager
def server(lake: Path) -> Iterator[tuple[str, psutil.Process]]:
    command = [sys.executable, "-m", "eventlake.cli.main", "serve", "--lake", str(lake)]
    options = ["--source", "bench", "--port", "0", "--write-key", KEY]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[-1], psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


def phases() -> list[Phase]:
    single = [request("/v1/track", event(n)) for n in range(2_000)]
    batches = [
        request(
            "/v1/batch", {"batch": [event(n * BATCH + k) for k in range(BATCH)], "sentAt": SENT}
        )
        for n in range(100)
    ]
    names = list(TARGETS)
    return [
        Phase(names[0], single, 1, connections=64),
        Phase(names[1], batches, BATCH, connections=16),
        Phase(names[2], single, 1, connections=64, rate=1_500),
        Phase(names[3], batches, BATCH, connections=16, rate=125),
    ]


def main() -> None:
    heads = ("requests/s", "events/s", "p50 ms", "p99 ms", "refused", "MB")
    print(f"{'phase':36}" + "".join(f"{head:>11}" for head in heads) + "  target")
    folder = TemporaryDirectory(dir=".", prefix="bench-collect-")
    with folder as lake:
        sent = 0
        with server(Path(lake)) as (url, process):
            for phase in phases():
                measured = uvloop.run(run_phase(phase, url))
                show(phase, measured, process)
                sent += (len(measured.latencies) - measured.refused) * phase.events
        found = archived(Path(lake))
    print(f"{sent:,} events acknowledged, {found:,} archived")
    assert sent == found


def archived(lake: Path) -> int:
    files = lake.glob("segment-logs/bench/*/*.gz")
    return sum(gzip.decompress(file.read_bytes()).count(b"\n") for file in files)


def show(phase: Phase, measured: Measured, process: psutil.Process) -> None:
    rate = len(measured.latencies) / measured.seconds
    memory = process.memory_info().rss / 1e6
    p50, p99 = measured.percentile(0.5), measured.percentile(0.99)
    kind, aim = TARGETS[phase.name]
    met = rate * phase.events >= aim if kind == "events/s" else p99 <= aim
    print(
        f"{phase.name:36}{rate:11,.0f}{rate * phase.events:11,.0f}{p50:11.1f}{p99:11.1f}"
        f"{measured.refused:11}{memory:11.0f}  {aim:,} {kind}: {'met' if met else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
