"""All open connections: how many, how much they have sent unread, and which is closed first."""

import asyncio
from collections.abc import Coroutine
from email.utils import formatdate
from time import monotonic
from typing import Any, Protocol

from eventlake.collect.limits import Limits

TICK_SECONDS = 0.25


class Client(Protocol):
    """A connection, as the pool sees it."""

    deadline: float
    """When it is cut off, by `time.monotonic`."""
    unread: int
    """Bytes of an incomplete header."""

    def expire(self) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Pool:
    """Keeps the number of connections and the size of their incomplete headers within limits.

    When a new connection is one too many, the one that has kept us waiting longest is closed:
    silent, idle, with half a header or half a body.
    """

    def __init__(self, limits: Limits, most: int) -> None:
        self.limits, self.most = limits, most
        self.date = b""
        self._open: set[Client] = set()
        self._waiting: dict[Client, None] = {}
        self._unread = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, client: Client) -> None:
        """Count a new connection, and close an old one if there are too many."""
        self._open.add(client)
        self._waiting[client] = None
        if len(self._open) > self.most:
            self._close_first(next(iter(self._waiting)))

    def remove(self, client: Client) -> None:
        self.count_unread(client, 0)
        self._open.discard(client)
        self._waiting.pop(client, None)

    def wait_for(self, client: Client) -> None:
        """The client is to send something: from now on it may be closed to make room."""
        if client in self._open:
            self._waiting[client] = None

    def engage(self, client: Client) -> None:
        """The client has sent what entitles it to an answer: it is not closed to make room."""
        self._waiting.pop(client, None)

    def count_unread(self, client: Client, size: int) -> None:
        """Set the bytes of a connection's incomplete header; close others if there are too many."""
        self._unread += size - client.unread
        client.unread = size
        while self._unread > self.limits.header_bytes:
            oldest = next((one for one in self._waiting if one.unread), None)
            if oldest is None:
                return
            self._close_first(oldest)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run an answer to its end, also when its connection has gone."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def watch(self) -> None:
        """Cut off connections that are past their deadline, for ever."""
        while True:
            self.date = formatdate(usegmt=True).encode()
            now = monotonic()
            for client in [one for one in self._open if one.deadline <= now]:
                client.expire()
            await asyncio.sleep(TICK_SECONDS)

    async def drain(self, seconds: float) -> None:
        """Close what is idle, wait for the answers that are due, and close the rest."""
        for client in list(self._open):
            client.finish()
        until = monotonic() + seconds
        while (self._open or self._tasks) and monotonic() < until:
            await asyncio.sleep(0.02)
        for client in list(self._open):
            client.abort()

    def _close_first(self, client: Client) -> None:
        self.remove(client)
        client.abort()
