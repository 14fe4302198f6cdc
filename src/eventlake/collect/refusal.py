"""A request that is answered with an error."""

NO_HEADERS: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """Status, code and message of an error, as the client gets them."""

    def __init__(self, status: int, code: str, message: str, *, unread: bool = False) -> None:
        self.status, self.code, self.message = status, code, message
        self.unread = unread
        super().__init__(f"{status} {code}: {message}")

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """What goes along: when to come back, how to sign in, not to go on sending."""
        along = _ALONG.get(self.status, NO_HEADERS)
        return (*along, (b"connection", b"close")) if self.unread else along


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
