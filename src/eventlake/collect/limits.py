"""The limits of requests, connections, memory and the spool."""

import resource
from dataclasses import dataclass

MAX_EVENT_BYTES = 32 << 10
MAX_BODY_BYTES = 500 << 10
MAX_BATCH_EVENTS = 2_500
MAX_MESSAGE_ID_CHARS = 100
MAX_SHARED_BYTES = 4 * MAX_BODY_BYTES
"""Size of a batch's context and integrations times its number of events."""
MAX_HEADER_BYTES = 64 << 10
"""Size of the request line, headers, trailers and chunk extensions together."""
MAX_HEADER_FIELDS = 128
CHUNK_FRAME_BYTES = 16
"""Framing of a chunk that is not counted as overhead; more than this is an extension."""
SMALL_HEADER_BYTES = 8 << 10
"""Requests without a body and with a header up to this size are answered under overload too."""
MAX_CONNECTIONS = 2_048


@dataclass(frozen=True)
class Limits:
    """The limits that a collector can be configured with."""

    seal_bytes: int = 64 << 20
    seal_seconds: float = 60.0
    inflight_bytes: int = 32 << 20
    """All requests that are being read or wait for the disk; above it, 429."""
    keyless_bytes: int = 16 << 20
    """The part of `inflight_bytes` for requests without a valid key."""
    header_bytes: int = 8 << 20
    """Incomplete headers of all connections; above it, the oldest connections are closed."""
    backlog_bytes: int = 1 << 30
    """Segments of one source that wait for the lake's store; above it, 503 for that source."""
    header_seconds: float = 20.0
    """Time from the connect, or a request's first byte, to the end of its header."""
    body_seconds: float = 20.0
    """Time from the end of a request's header to the end of its body."""
    idle_seconds: float = 75.0
    """Time that a connection may stay open between two requests."""
    drain_seconds: float = 20.0
    """Time that a stopping collector waits for the store."""

    def read_seconds(self, has_request: bool, has_header: bool) -> float:
        """Seconds that a client has for what it sends next: a request, its header or its body."""
        if not has_request:
            return self.idle_seconds
        return self.body_seconds if has_header else self.header_seconds


DEFAULTS = Limits()


def max_connections() -> int:
    """Return three quarters of the process's file limit, from 1 to `MAX_CONNECTIONS`."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, files * 3 // 4))
