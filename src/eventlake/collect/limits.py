"""How much is accepted, and how much is held before it is in the archive."""

import resource
from dataclasses import dataclass

MAX_EVENT = 32 << 10
MAX_BODY = 500 << 10
MAX_BATCH = 2_500
MAX_MESSAGE_ID = 100
MAX_SHARED = 4 * MAX_BODY
"""What a batch's context may come to once each event has it, so that small requests stay small."""
MAX_HEADER = 64 << 10
"""Bytes of a request line, its headers, its trailers and its chunk extensions together."""
MAX_HEADER_FIELDS = 128
MAX_CONNECTIONS = 2_048


@dataclass(frozen=True)
class Limits:
    """What a collector holds at most, and when it seals."""

    seal_bytes: int = 64 << 20
    seal_seconds: float = 60.0
    inflight_bytes: int = 32 << 20
    """Requests that are read or wait for the disk; more gets 429."""
    keyless_bytes: int = 16 << 20
    """The part of `inflight_bytes` that requests without a valid key may hold."""
    header_bytes: int = 8 << 20
    """Incomplete headers of all connections; over it the oldest connections are closed."""
    backlog_bytes: int = 1 << 30
    """Sealed-to-be segments that the lake's store has not taken; more gets 503."""
    header_seconds: float = 20.0
    """The time from a request's first byte, or from the connect, to the end of its header."""
    body_seconds: float = 20.0
    """A client that sends more slowly is cut off."""
    idle_seconds: float = 75.0
    """How long a connection may stay open between two requests."""
    drain_seconds: float = 20.0
    """How long a stopping collector waits for the store before it leaves the rest to the next."""


DEFAULTS = Limits()


def connection_limit() -> int:
    """Connections to keep open at once: three quarters of the process's file limit, or fewer."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, files * 3 // 4))
