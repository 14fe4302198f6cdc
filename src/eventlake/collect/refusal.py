"""The error replies."""

from eventlake.collect.limits import MAX_HEADER_BYTES, MAX_HEADER_FIELDS

NO_HEADERS: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """Status, code and message of an error reply.

    With `close`, the rest of the request is not read and the connection is closed.
    """

    def __init__(self, status: int, code: str, message: str, *, close: bool = False) -> None:
        self.status, self.code, self.message = status, code, message
        self.close = close
        super().__init__(f"{status} {code}: {message}")

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The extra headers of a reply with this status, such as Retry-After."""
        return _HEADERS_BY_STATUS.get(self.status, NO_HEADERS)


_HEADERS_BY_STATUS = {
    401: ((b"www-authenticate", b'Basic realm="write key"'),),
    405: ((b"allow", b"GET, POST, OPTIONS"),),
    429: ((b"retry-after", b"1"),),
    503: ((b"retry-after", b"2"),),
}


def overloaded() -> Refusal:
    """The 429 for a request that would exceed the memory limit; closes the connection."""
    message = "the collector is busy; send again in a second"
    return Refusal(429, "too_many_requests", message, close=True)


def too_large(max_bytes: int) -> Refusal:
    """The 400 for a body of more than `max_bytes`; closes the connection."""
    message = f"the request is too large: the limit is {max_bytes:,} bytes"
    return Refusal(400, "request_too_large", message, close=True)


def unavailable() -> Refusal:
    """The 503 for events that could not be stored; the connection stays open."""
    return Refusal(503, "unavailable", "the event could not be stored; send it again")


def header_too_large() -> Refusal:
    """The 431 for a header with too many bytes or fields; closes the connection."""
    limits = f"{MAX_HEADER_BYTES:,} bytes and {MAX_HEADER_FIELDS} fields"
    message = f"the header is too large: the limit is {limits}"
    return Refusal(431, "header_too_large", message, close=True)


def url_too_long() -> Refusal:
    """The 414 for a URL that alone exceeds the header limit; closes the connection."""
    message = f"the URL is too long: the limit is {MAX_HEADER_BYTES:,} bytes"
    return Refusal(414, "url_too_long", message, close=True)


def not_http() -> Refusal:
    """The 400 for bytes that are not a valid request; closes the connection."""
    return Refusal(400, "not_http", "the request is not valid HTTP/1.1", close=True)


def too_slow(part: str) -> Refusal:
    """The 408 for a "header" or "body" that did not arrive in time; closes the connection."""
    message = f"the {part} did not arrive in time"
    return Refusal(408, f"{part}_too_slow", message, close=True)
