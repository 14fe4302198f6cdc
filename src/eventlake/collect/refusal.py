"""A request that is answered with an error."""

from eventlake.collect.limits import MAX_HEADER, MAX_HEADER_FIELDS

NO_HEADERS: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """Status, code and message of an error, as the client gets them.

    `unread` says that the rest of the request is not read: the connection is closed.
    """

    def __init__(self, status: int, code: str, message: str, *, unread: bool = False) -> None:
        self.status, self.code, self.message = status, code, message
        self.unread = unread
        super().__init__(f"{status} {code}: {message}")

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """What goes along: when to come back, how to sign in."""
        return _ALONG.get(self.status, NO_HEADERS)


_ALONG = {
    401: ((b"www-authenticate", b'Basic realm="write key"'),),
    405: ((b"allow", b"GET, POST, OPTIONS"),),
    429: ((b"retry-after", b"1"),),
    503: ((b"retry-after", b"2"),),
}


def overloaded() -> Refusal:
    message = "the collector is busy; send again in a second"
    return Refusal(429, "too_many_requests", message, unread=True)


def too_large(most: int) -> Refusal:
    message = f"a request may have {most:,} bytes"
    return Refusal(400, "request_too_large", message, unread=True)


def unavailable() -> Refusal:
    return Refusal(503, "unavailable", "the event could not be stored; send it again")


def header_too_large() -> Refusal:
    message = f"a header may have {MAX_HEADER:,} bytes and {MAX_HEADER_FIELDS} fields"
    return Refusal(431, "header_too_large", message, unread=True)


def url_too_long() -> Refusal:
    return Refusal(414, "url_too_long", f"a URL may have {MAX_HEADER:,} bytes", unread=True)


def not_http() -> Refusal:
    return Refusal(400, "not_http", "the request is not valid HTTP/1.1", unread=True)


def too_slow(part: str) -> Refusal:
    message = f"the {part} did not arrive in time"
    return Refusal(408, f"{part}_too_slow", message, unread=True)
