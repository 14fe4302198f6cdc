"""A request and its answer."""

from dataclasses import dataclass, field

from eventlake.collect.refusal import Refusal

Headers = dict[bytes, bytes]

HEADERS = frozenset(
    (
        b"access-control-request-headers",
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"origin",
        b"transfer-encoding",
        b"upgrade",
        b"x-forwarded-for",
    )
)
"""The headers that are kept; the others are counted and dropped."""


@dataclass(slots=True, eq=False)
class Request:
    """One request, whose body grows as it arrives."""

    method: str = ""
    path: str = ""
    query: bytes = b""
    headers: Headers = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    peer: str | None = None
    """The address at the other end of the connection, which may be a proxy's."""
    takes_body: bool = False
    """Whether the body is kept; that of other requests is read and dropped."""
    keyed: bool = False
    """Whether a valid write key has come with it."""
    keep_alive: bool = True
    header_bytes: int = 0
    held: int = 0
    """Its bytes of the collector's budget."""
    refusal: Refusal | None = None
    """Why it is refused once its body has been read."""


@dataclass
class Reply:
    """The answer to a request."""

    status: int
    body: bytes
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close: bool = False
    """Close the connection afterwards; the rest of the request stays unread."""
