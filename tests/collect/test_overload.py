"""More than a collector can hold: 429 before its memory grows, and 200 again afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from eventlake.collect.limits import DEFAULTS, MAX_BODY_BYTES
from tests.collect.servers import Server, event, serving
from tests.collect.sockets import BASIC, connections, send
from tests.collect.test_serve import wait_until

HEAD = b"POST /v1/b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%s\r\n" % (MAX_BODY_BYTES, BASIC)
CLIENTS = 4 * DEFAULTS.inflight_bytes // MAX_BODY_BYTES
"""As many as fill the budget four times."""


@contextmanager
def unfinished(server: Server) -> Iterator[None]:
    """Open many large requests with a key, and finish none of them."""
    with connections(server, CLIENTS) as clients:
        for client in clients:
            send(client, HEAD + b" " * (MAX_BODY_BYTES - 1))
        yield


def test_overload_is_429_and_memory_stays(tmp_path: Path) -> None:
    with serving(tmp_path / "lake") as server:
        assert server.post("/v1/track", event(0)).status_code == 200
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        with unfinished(server):
            wait_until(lambda: server.metrics().get('responses_total{status="429"}', 0) > 0)
            answer = server.post("/v1/track", event(1, properties={"a": "x" * 20_000}))
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            assert answer.json()["code"] == "too_many_requests"
            grown = process.memory_info().rss - before
        assert grown < 2 * DEFAULTS.inflight_bytes
        wait_until(lambda: server.post("/v1/track", event(2)).status_code == 200)
