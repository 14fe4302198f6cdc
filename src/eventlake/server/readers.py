"""Asks about the contents of lakes: each lake has a process that stays, a query one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import Any, NamedTuple, TypeVar

from eventlake import errors
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Session
from eventlake.control.lake_access import open_access, open_source_access
from eventlake.control.lakes import RegisteredLake
from eventlake.control.vault import Vault
from eventlake.errors import EventLakeError, LimitExceeded, Unavailable
from eventlake.model.contents import QueryRequest
from eventlake.model.values import FrozenModel

ANSWER_SECONDS = 60.0
IDLE_SECONDS = 600.0
MAX_READERS = 4
"""Processes that stay; the one that was idle longest ends for another lake."""
FAILED = 3
M = TypeVar("M", bound=FrozenModel)


class Place(NamedTuple):
    """A lake with its secrets, and the folder of a source in it."""

    lake: RegisteredLake
    secrets: Mapping[str, str]
    folder: str = ""


def find_place(session: Session, source: str, vault: Vault) -> Place:
    """The lake of a source; raises NotFound for one that is not connected."""
    found = open_source_access(session, source, vault)
    return Place(found.access.lake, found.access.variables, found.settings.folder)


def find_lake(session: Session, lake: str, vault: Vault) -> Place:
    """A lake by its name; the only one if the name is empty."""
    found = open_access(session, lake, vault)
    return Place(found.lake, found.variables)


@dataclass
class _Reader:
    """The process of a lake, and when it was asked last."""

    child: "subprocess.Popen[bytes]"
    lock: Lock = field(default_factory=Lock)
    used_at: float = 0.0

    def ask(self, line: bytes) -> bytes:
        """Send a question and return the answer; empty if the process has ended."""
        timer = Timer(ANSWER_SECONDS, self.child.kill)
        timer.start()
        try:
            assert self.child.stdin
            assert self.child.stdout
            self.child.stdin.write(line)
            self.child.stdin.flush()
            return self.child.stdout.readline()
        except OSError:
            return b""
        finally:
            timer.cancel()

    def stop(self) -> None:
        self.child.kill()
        self.child.communicate()


@dataclass
class Readers:
    """The processes of lakes. They end with the server, whose end closes their input."""

    clock: Clock = SYSTEM_CLOCK
    max_readers: int = MAX_READERS
    _by_lake: dict[tuple[str, int], _Reader] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def ask(self, place: Place, question: str, query: FrozenModel | None, kind: type[M]) -> M:
        """The answer to a question; raises the error that reading the lake raised.

        A process that has died is started again once.
        """
        values = query.model_dump(mode="json") if query else {}
        asked = {"question": question, "folder": place.folder, "query": values}
        line = json.dumps(asked).encode() + b"\n"
        for _ in range(2):
            reader = self._find(place)
            with reader.lock:
                answer = reader.ask(line)
            if answer:
                found = json.loads(answer)
                if "error" in found:
                    raise _to_error(found["error"])
                return kind.model_validate(found["answer"])
            self._forget(reader)
        raise Unavailable(f"the lake {place.lake.slug} did not answer: try again")

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            for reader in self._by_lake.values():
                reader.stop()
            self._by_lake.clear()

    def _find(self, place: Place) -> _Reader:
        """The process of a lake; a new one for other settings or secrets."""
        key, now = (place.lake.id, place.lake.version), self.clock.monotonic()
        with self._lock:
            self._end_unused(key, now)
            if key not in self._by_lake:
                self._by_lake[key] = _Reader(_start("eventlake.reader", place))
            reader = self._by_lake[key]
            reader.used_at = now
            return reader

    def _end_unused(self, key: tuple[str, int], now: float) -> None:
        by_age = sorted(self._by_lake.items(), key=lambda one: one[1].used_at)
        surplus = max(0, len(by_age) + (key not in self._by_lake) - self.max_readers)
        for number, (other, reader) in enumerate(by_age):
            is_old = other[0] == key[0] and other != key
            is_idle = now - reader.used_at > IDLE_SECONDS
            is_free = other != key and reader.lock.acquire(blocking=False)
            if is_free:
                reader.lock.release()
                if is_old or is_idle or number < surplus:
                    del self._by_lake[other]
                    reader.stop()

    def _forget(self, reader: _Reader) -> None:
        with self._lock:
            for key, one in list(self._by_lake.items()):
                if one is reader:
                    del self._by_lake[key]
        reader.stop()


def run_query(place: Place, request: QueryRequest) -> bytes:
    """The result of a query in the format that was asked for, by a process of its own.

    Raises InvalidSettings for a mistake in the SQL, and LimitExceeded if it needs more time or
    memory than the limits of the request.
    """
    with _start("eventlake.reader.query", place) as child:
        try:
            output, _ = child.communicate(request.to_json(), timeout=request.limits.seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            raise LimitExceeded(
                f"the query took longer than {request.limits.seconds:g} seconds: read fewer "
                "partitions, or use `eventlake query` or an engine of the lake"
            ) from None
    if child.returncode == FAILED:
        raise _to_error(json.loads(output)["error"])
    if child.returncode:
        raise LimitExceeded("the query needed more memory than it may have: read fewer rows")
    return output


def _start(module: str, place: Place) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *place.lake.model.to_words()],
        env={**os.environ, **place.secrets},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _to_error(problem: Mapping[str, Any]) -> EventLakeError:
    kind = getattr(errors, problem["kind"], None)
    is_ours = isinstance(kind, type) and issubclass(kind, EventLakeError)
    error = (kind if is_ours and kind else EventLakeError)(problem["detail"])
    error.code = problem["code"]
    return error
