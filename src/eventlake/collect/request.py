"""A request and its reply."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httptools

from eventlake.collect.refusal import Refusal, not_http
from eventlake.collect.source import Source

Headers = dict[bytes, bytes]

USED_HEADERS = frozenset(
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
"""The headers that are stored, in lower case; others are counted and dropped."""
_LIST_HEADERS = frozenset((b"connection", b"x-forwarded-for"))


@dataclass(slots=True, eq=False)
class Request:
    """One request, whose body grows as it arrives."""

    method: str = ""
    path: str = ""
    query: bytes = b""
    headers: Headers = field(default_factory=dict)
    """Those that the collector uses."""
    all_headers: list[tuple[bytes, bytes]] | None = None
    """Every header, if the request may be for the mounted app."""
    is_mounted: bool = False
    """Whether the mounted app answers it."""
    body: bytearray = field(default_factory=bytearray)
    peer: str | None = None
    """The address of the other end of the connection, which may be a proxy."""
    stores_body: bool = False
    """Whether the body is stored; otherwise it is read and dropped."""
    source: Source | None = None
    """The source of its write key, once that is known."""
    keep_alive: bool = True
    header_bytes: int = 0
    reserved_bytes: int = 0
    """Its reservation in the `Budget`."""
    refusal: Refusal | None = None
    """The error to answer with once its body has been read."""

    def add_header(self, name: bytes, value: bytes) -> None:
        """Store a header under its name in lower case, unless it is one that is not used.

        If repeated, the last value counts; those of a list are joined.
        """
        name = name.lower()
        if self.all_headers is not None:
            self.all_headers.append((name, value))
        if name in USED_HEADERS:
            if name in _LIST_HEADERS and name in self.headers:
                value = self.headers[name] + b", " + value
            self.headers[name] = value

    def set_url(self, url: bytes) -> None:
        """Set `path`, with escapes decoded, and `query`; an invalid URL raises a 400 `Refusal`."""
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise not_http() from None
        path = (parsed.path or b"").decode("latin-1")
        self.path = unquote(path) if "%" in path else path
        self.query = parsed.query or b""


@dataclass
class Reply:
    """The reply to a request."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    parts: AsyncGenerator[bytes, None] | None = None
    """The body of the mounted app's reply, whose headers are all in `headers`."""
    close: bool = False
    """Close the connection afterwards, without reading the rest of the request."""


def make_parser(callbacks: Any) -> httptools.HttpRequestParser:
    """Make a parser of requests that calls the `on_…` methods of a connection."""
    parser = httptools.HttpRequestParser(callbacks)
    # Bytes after a request with `Connection: close` do not make that request invalid.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
