"""Group commit: requests that arrive during an fsync share the next one."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from eventlake.collect.refusal import unavailable
from eventlake.collect.spool import Spool

POLL_SECONDS = 0.25


@dataclass
class PendingAppend:
    """A request's lines, and the future that is resolved when they are on disk."""

    day: int
    lines: list[bytes]
    done: "asyncio.Future[None]"


class DiskListener(Protocol):
    """Is notified of fsyncs and of failures."""

    def record_fsync(self, seconds: float) -> None:
        """Record the duration of an fsync."""

    def report_failure(self, message: str) -> None:
        """Note a failure to write lines or to complete a segment; `message` says which."""


class Writer:
    """The only writer of a spool: appends what requests wait for, and rotates old segments."""

    def __init__(
        self, spool: Spool, get_backlog_bytes: Callable[[], int], listener: DiskListener
    ) -> None:
        self._spool, self._get_backlog_bytes = spool, get_backlog_bytes
        self._listener = listener
        self._pending: list[PendingAppend] = []
        self._wake = asyncio.Event()
        # A single thread, since a spool is not thread-safe.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._task = asyncio.create_task(self._run())
        self._closing = False
        self._is_rotating = False

    def rotate_soon(self) -> None:
        """Have the open segment completed within `POLL_SECONDS`; any thread may call this."""
        self._is_rotating = True

    async def append(self, day: int, lines: list[bytes]) -> None:
        """Return when the lines are on disk; raises a 503 `Refusal` if they cannot be stored.

        Also if the writer is closing, or too many bytes wait for the lake's store.
        """
        if self._closing or self._get_backlog_bytes() > self._spool.limits.backlog_bytes:
            raise unavailable()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append(PendingAppend(day, lines, done))
        self._wake.set()
        await done

    async def close(self) -> None:
        """Write pending lines, complete the segment and stop; later appends get a 503 `Refusal`."""
        self._closing = True
        self._wake.set()
        await self._task
        self._executor.shutdown()

    async def _run(self) -> None:
        """Write pending lines, one fsync for each day, and complete old segments, until closed.

        At the end, completes the open segment.
        """
        while self._pending or not self._closing:
            if not self._pending:
                await self._wait_for_work()
            batch, self._pending = self._pending, []
            for day, group in groupby(batch, key=lambda append: append.day):
                await self._commit(day, list(group))
            if self._spool.is_due or self._is_rotating:
                self._is_rotating = False
                await self._rotate()
        await self._rotate()

    async def _wait_for_work(self) -> None:
        """Return when there is a request, and after `POLL_SECONDS` in any case."""
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _commit(self, day: int, group: Sequence[PendingAppend]) -> None:
        """Append the lines of a group with one fsync, and resolve its futures; never raises.

        If it fails, reports that and gives each future a 503 `Refusal`.
        """
        lines = [line for append in group for line in append.lines]
        loop = asyncio.get_running_loop()
        failed = False
        try:
            seconds = await loop.run_in_executor(self._executor, self._spool.append, day, lines)
        except Exception as problem:  # any failure must resolve the futures
            self._listener.report_failure(f"could not write: {problem}")
            failed = True
        else:
            self._listener.record_fsync(seconds)
        for append in group:
            if append.done.done():  # the client has disconnected
                continue
            if failed:
                append.done.set_exception(unavailable())
            else:
                append.done.set_result(None)

    async def _rotate(self) -> None:
        """Complete the open segment, due or not; a failure is reported and never raised."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, self._spool.rotate)
        except Exception as problem:  # the writer must go on, or later requests would hang
            self._listener.report_failure(f"could not complete a segment: {problem}")
