"""Group commit: the requests that wait while the disk works go to it together."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from time import time
from typing import Protocol

from eventlake.collect.refusal import unavailable
from eventlake.collect.spool import Spool

TICK = 0.25


@dataclass
class Waiting:
    """A request's lines and who waits for them."""

    day: int
    lines: list[bytes]
    done: "asyncio.Future[None]"


class Told(Protocol):
    """Who hears how the disk does."""

    def synced(self, seconds: float) -> None: ...
    def trouble(self, message: str) -> None: ...


class Writer:
    """The one writer of a spool."""

    def __init__(self, spool: Spool, backlog: Callable[[], int], told: Told) -> None:
        self._spool, self._backlog, self._told = spool, backlog, told
        self._waiting: list[Waiting] = []
        self._wake = asyncio.Event()
        # A single thread: the spool is never touched by two.
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._task = asyncio.create_task(self._run())
        self._closing = False

    async def append(self, day: int, lines: list[bytes]) -> None:
        """Return when the lines are on disk; refuse when they could not be put there."""
        if self._closing or self._backlog() > self._spool.limits.backlog_bytes:
            raise unavailable()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(day, lines, done))
        self._wake.set()
        await done

    async def close(self) -> None:
        """Write what waits, complete the segment and end."""
        self._closing = True
        self._wake.set()
        await self._task
        self._disk.shutdown()

    async def _run(self) -> None:
        while self._waiting or not self._closing:
            if not self._waiting:
                await self._woken()
            batch, self._waiting = self._waiting, []
            for day, group in groupby(batch, key=lambda one: one.day):
                await self._commit(day, list(group))
            if self._is_due(time()):
                await self._rotate()
        await self._rotate()

    async def _woken(self) -> None:
        try:
            async with asyncio.timeout(TICK):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _commit(self, day: int, group: Sequence[Waiting]) -> None:
        lines = [line for one in group for line in one.lines]
        loop = asyncio.get_running_loop()
        try:
            seconds = await loop.run_in_executor(self._disk, self._spool.append, day, lines)
        except Exception as problem:  # whatever it is, nobody may wait for ever
            self._told.trouble(f"could not write: {problem}")
            _answer(group, refused=True)
        else:
            self._told.synced(seconds)
            _answer(group, refused=False)

    def _is_due(self, now: float) -> bool:
        began = self._spool.began
        return began is not None and began + self._spool.limits.seal_seconds <= now

    async def _rotate(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._disk, self._spool.rotate)
        except Exception as problem:  # the writer goes on: who would answer the next request?
            self._told.trouble(f"could not complete a segment: {problem}")


def _answer(group: Sequence[Waiting], *, refused: bool) -> None:
    for one in group:
        if one.done.done():  # the client went away
            continue
        if refused:
            one.done.set_exception(unavailable())
        else:
            one.done.set_result(None)
