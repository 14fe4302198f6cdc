"""Glue as strict as the real one: moto's own, behind a server that keeps the rules moto does not.

Batches have a limit, lists come in pages, an update of an older version is refused, and columns
are left out when asked. It also keeps what was asked, and lets others act in between.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from eventlake.catalogs.glue import GlueCatalog
from tests.aws.moto import Aws, aws, entered

__all__ = ["aws", "glue"]

Body = dict[str, Any]
Answer = tuple[int, Body]

LIMITS = {"PartitionInputList": 100, "Entries": 100, "PartitionsToGet": 1000}
PAGED = {"GetDatabases": "DatabaseList", "GetTables": "TableList", "GetPartitions": "Partitions"}
PAGE = 40
"""Small, so that every list has several pages."""


@dataclass
class Glue:
    """A Glue, and what was asked of it."""

    aws: Aws
    """Moto itself, for others who look at the catalog or change it."""
    http: httpx.Client
    url: str = ""
    asked: list[tuple[str, Body]] = field(default_factory=list)
    _once: defaultdict[str, list[Callable[[], Answer | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _one_at_a_time: threading.RLock = field(default_factory=threading.RLock)

    def catalog(self, **changes: Any) -> GlueCatalog:
        """Ours."""
        return GlueCatalog(self.aws.access(), f"s3://{self.aws.bucket}", **changes)

    @cached_property
    def client(self) -> Any:
        """Somebody else's."""
        return self.aws.client("glue")

    def of(self, action: str) -> list[Body]:
        """The requests of an action."""
        return [body for name, body in self.asked if name == action]

    def before(self, action: str, work: Callable[[], object]) -> None:
        """Someone does something just before the next request of an action."""

        def done() -> None:
            work()

        self._once[action].append(done)

    def instead(self, action: str, answer: Answer) -> None:
        """The next request of an action gets this answer."""
        self._once[action].append(lambda: answer)

    def lost(self, action: str) -> None:
        """The next request of an action is carried out, and its answer is lost."""
        self._once[f"{action} answer"].append(lambda: refusal("InternalServiceException", 500))

    def answer(self, headers: dict[str, str], sent: bytes) -> Answer:
        action, body = headers["x-amz-target"].partition(".")[2], json.loads(sent)
        with self._one_at_a_time:
            self.asked.append((action, body))
            return self._happens(action) or self._broken(action, body) or self._moto(headers, body)

    def _happens(self, when: str) -> Answer | None:
        waiting = self._once[when]
        return waiting.pop(0)() if waiting else None

    def _broken(self, action: str, body: Body) -> Answer | None:
        for name, limit in LIMITS.items():
            if len(body.get(name, ())) > limit:
                return refusal("ValidationException")
        if action == "UpdateTable" and body.get("VersionId", "") != self._version(body):
            return refusal("ConcurrentModificationException")
        return None

    def _version(self, body: Body) -> str:
        found = self.client.get_table(
            DatabaseName=body["DatabaseName"], Name=body["TableInput"]["Name"]
        )
        return str(found["Table"]["VersionId"])

    def _moto(self, headers: dict[str, str], body: Body) -> Answer:
        action = headers["x-amz-target"].partition(".")[2]
        passed = {name: headers[name] for name in ("x-amz-target", "content-type", "authorization")}
        given = self.http.post(f"{self.aws.url}/", content=json.dumps(body), headers=passed)
        lost = self._happens(f"{action} answer")
        return lost or (given.status_code, _page(action, body, given.json()))


def _page(action: str, asked: Body, answer: Body) -> Body:
    name = PAGED.get(action)
    if name is None or name not in answer:
        return answer
    begin = int(asked.get("NextToken", "0"))
    items = answer[name][begin : begin + PAGE]
    if asked.get("ExcludeColumnSchema"):
        for item in items:
            item["StorageDescriptor"].pop("Columns", None)
    more = {"NextToken": str(begin + PAGE)} if begin + PAGE < len(answer[name]) else {}
    return {**answer, name: items, **more}


def refusal(name: str, status: int = 400, message: str = "as the test wants it") -> Answer:
    return status, {"__type": name, "Message": message}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answer = self.server.glue.answer(headers, sent)  # type: ignore[attr-defined]
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def strict(here: Aws) -> Iterator[Glue]:
    with httpx.Client(timeout=60) as http, closing_server() as server:
        found = Glue(here, http, f"http://127.0.0.1:{server.server_address[1]}")
        server.glue = found  # type: ignore[attr-defined]
        with entered(replace(here, url=found.url)):
            yield found


@contextmanager
def closing_server() -> Iterator[ThreadingHTTPServer]:
    with closing(_Server(("127.0.0.1", 0), _Handler)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client keeps its connection

    def close(self) -> None:
        self.server_close()


@pytest.fixture
def glue(aws: Aws) -> Iterator[Glue]:
    """An empty Glue that this process calls."""
    with strict(aws) as found:
        yield found
