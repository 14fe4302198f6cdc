"""The open connections: their number, deadlines and incomplete headers."""

import asyncio
from collections.abc import Coroutine
from email.utils import formatdate
from typing import Any, Protocol

from eventlake.clock import Clock
from eventlake.collect.limits import Limits

TICK_SECONDS = 0.25


class PooledConnection(Protocol):
    """What the pool needs of a connection."""

    deadline: float
    """When to call `expire`, by the pool's clock."""
    partial_header_bytes: int
    """Size of its incomplete header; set by the pool."""

    def expire(self) -> None:
        """End what is past its deadline: refuse the request, or close."""

    def close_when_idle(self) -> None:
        """Close after the request that is being read or answered, or now if there is none."""

    def abort(self) -> None:
        """Close at once; replies that are not sent are lost."""


class Pool:
    """Limits the number of connections and the size of their incomplete headers.

    A connection over the limit closes the one that has waited longest for its client: silent,
    idle, or with an unfinished header or body.
    """

    def __init__(self, limits: Limits, max_connections: int, clock: Clock) -> None:
        self.limits, self.max_connections, self.clock = limits, max_connections, clock
        self.date = b""
        """The value of the Date header, renewed by `enforce_deadlines`."""
        self._open: set[PooledConnection] = set()
        self._waiting: dict[PooledConnection, None] = {}
        self._partial_header_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: PooledConnection) -> None:
        """Add a new connection, as waiting for its client.

        If there are then too many, aborts the one that has waited longest.
        """
        self._open.add(connection)
        self._waiting[connection] = None
        if len(self._open) > self.max_connections:
            self._evict(next(iter(self._waiting)))

    def remove(self, connection: PooledConnection) -> None:
        """Forget a connection and its incomplete header; does not close it, and may be repeated."""
        self.set_partial_header(connection, 0)
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def mark_waiting(self, connection: PooledConnection) -> None:
        """Note that the client has to send something: the connection may be closed for others."""
        if connection in self._open:
            self._waiting[connection] = None

    def mark_busy(self, connection: PooledConnection) -> None:
        """Note that the client is owed a reply: the connection is not closed for others."""
        self._waiting.pop(connection, None)

    def set_partial_header(self, connection: PooledConnection, size: int) -> None:
        """Set the size of a connection's incomplete header, 0 once it is complete.

        While all of them together are over the limit, aborts the connection that has waited longest
        among those with one.
        """
        self._partial_header_bytes += size - connection.partial_header_bytes
        connection.partial_header_bytes = size
        while self._partial_header_bytes > self.limits.header_bytes:
            oldest = next((c for c in self._waiting if c.partial_header_bytes), None)
            if oldest is None:
                return
            self._evict(oldest)

    def run_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine, which runs to its end even if its connection is closed before."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def enforce_deadlines(self) -> None:
        """Expire connections past their deadline, and renew `date`, until cancelled."""
        while True:
            self.date = formatdate(self.clock.now().timestamp(), usegmt=True).encode()
            now = self.clock.monotonic()
            for connection in [c for c in self._open if c.deadline <= now]:
                connection.expire()
            await asyncio.sleep(TICK_SECONDS)

    async def drain(self, seconds: float) -> None:
        """Close idle connections, wait up to `seconds` for pending replies, abort the rest."""
        for connection in list(self._open):
            connection.close_when_idle()
        until = self.clock.monotonic() + seconds
        while (self._open or self._tasks) and self.clock.monotonic() < until:
            await asyncio.sleep(0.02)
        for connection in list(self._open):
            connection.abort()

    def _evict(self, connection: PooledConnection) -> None:
        """Forget a connection and abort it, without a reply."""
        self.remove(connection)
        connection.abort()
