"""How much is accepted, and how much is held before it is in the archive."""

from dataclasses import dataclass

MAX_EVENT = 32 << 10
MAX_BODY = 500 << 10
MAX_BATCH = 2_500
MAX_MESSAGE_ID = 100
MAX_SHARED = 4 * MAX_BODY
"""What a batch's context may come to once each event has it, so that small requests stay small."""


@dataclass(frozen=True)
class Limits:
    """What a collector holds at most, and when it seals."""

    seal_bytes: int = 64 << 20
    seal_seconds: float = 60.0
    inflight_bytes: int = 32 << 20
    """Requests that are read or wait for the disk; more gets 429."""
    backlog_bytes: int = 1 << 30
    """Sealed-to-be segments that the lake's store has not taken; more gets 503."""
    body_seconds: float = 20.0
    """A client that sends more slowly is cut off."""
    drain_seconds: float = 20.0
    """How long a stopping collector waits for the store before it leaves the rest to the next."""


DEFAULTS = Limits()
