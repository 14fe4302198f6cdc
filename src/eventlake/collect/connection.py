"""One client's connection: HTTP/1.1 requests in, answers out, each byte counted as it arrives."""

import asyncio
from collections import deque
from math import inf
from time import monotonic
from typing import cast
from urllib.parse import unquote

import httptools

from eventlake.collect.app import App
from eventlake.collect.limits import MAX_BODY, MAX_HEADER, MAX_HEADER_FIELDS
from eventlake.collect.pool import Pool
from eventlake.collect.refusal import (
    Refusal,
    header_too_large,
    not_http,
    too_large,
    too_slow,
    url_too_long,
)
from eventlake.collect.replies import CONTINUE, encode_reply
from eventlake.collect.request import HEADERS, Reply, Request

HEADER_END = b"\r\n\r\n"
CHUNK_BYTES = 16
"""What the frame of a chunk may take; more than this is an extension."""
SMALL_HEADER = 8 << 10
"""A request without a body and with no more header than this is answered also when overloaded."""
LINGER_SECONDS = 2.0
"""How long a refused client may go on sending, so that it gets to read its answer."""
WRITE_BUFFER = 16 << 10
"""Bytes of answers that a client may leave unread."""
_LISTS = frozenset((b"connection", b"x-forwarded-for"))


class Connection(asyncio.Protocol):
    """Parses requests and answers them one at a time.

    The parser cannot stop within what it is fed, so it is fed up to the end of a header at a
    time: at most two requests are parsed ahead, and what follows them waits as bytes.
    """

    def __init__(self, app: App, pool: Pool) -> None:
        self._app, self._pool = app, pool
        self._parser = _make_parser(self)
        self._transport: asyncio.Transport
        self.deadline = inf
        self.unread = 0
        self._peer: str | None = None
        # The request that is being read, and what its callbacks have counted.
        self._request: Request | None = None
        self._url = b""
        self._fields = 0
        self._header_done = False
        self._upgrade = False
        self._begun = False
        self._framed = 0
        self._overhead = 0
        # What has been read and is not answered.
        self._busy = False
        self._queue: deque[Request] = deque()
        self._refusal: Refusal | None = None
        self._rest = b""
        self._ahead = Request()
        # How it ends.
        self._paused = False
        self._eof = False
        self._deaf = False
        self._last = False

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else None
        self._allow(self._pool.limits.header_seconds)
        self._pool.add(self)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._busy:
            self._keep_for_later(data)
        else:
            self._feed(data)

    def eof_received(self) -> bool:
        """The client sends no more; it may still wait for answers."""
        self._eof = self._deaf = self._last = True
        return self._busy

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._deaf = self._last = True
        self._pool.remove(self)
        self._drop_unanswered()
        if self._request:
            self._app.budget.release(self._request)
            self._request = None

    # The pool's side

    def expire(self) -> None:
        """Cut the client off: it is past its deadline."""
        if self._deaf:
            self.abort()
        elif self._request and self._header_done:
            self._refuse(too_slow("body"))
        elif self._request:
            self._refuse(too_slow("header"))
        else:
            self._transport.close()
            self._deaf = True

    def finish(self) -> None:
        """Close after the request that is on its way, or now if there is none."""
        self._last = True
        if not self._busy and not self._request:
            self._transport.close()

    def abort(self) -> None:
        self._deaf = True
        self._transport.abort()

    # Feeding the parser

    def _feed(self, data: bytes) -> None:
        view, at = memoryview(data), 0
        while at < len(data) and not self._deaf:
            found = data.find(HEADER_END, at)
            end = len(data) if found < 0 else found + len(HEADER_END)
            end = min(end, at + MAX_HEADER)
            self._parse(view[at:end])
            at = end
            if self._busy:
                self._keep_for_later(data[at:])
                return
        if self._request and not self._header_done and not self._deaf:
            self._pool.count_unread(self, self.unread + len(data))

    def _parse(self, piece: memoryview) -> None:
        self._begun, self._framed = False, 0
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(piece[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(not_http())
        if not self._begun:
            self._overhead += len(piece) - self._framed
            if self._overhead > MAX_HEADER:
                self._refuse(header_too_large())

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Read the request as if it had not asked for another protocol."""
        self._upgrade = False
        request = self._request
        if request is None or self._deaf:
            return
        if request.method == "CONNECT":
            self._refuse(Refusal(405, "method_not_allowed", "this is no proxy", unread=True))
            return
        version = self._parser.get_http_version().encode()
        lines = [b"%s: %s" % pair for pair in request.headers.items() if pair[0] != b"upgrade"]
        head = [b"%s %s HTTP/%s" % (request.method.encode(), self._url, version), *lines]
        self._parser = _make_parser(self)
        self._parse(memoryview(b"\r\n".join(head) + HEADER_END))
        self._parse(rest)

    def _keep_for_later(self, data: bytes) -> None:
        """Keep what came after the request that is being answered, as far as there is room."""
        if not data and not self._request:
            return
        self._pause()
        try:
            # Of a request that has begun, the parser may hold a header.
            begun = MAX_HEADER if self._request and not self._header_done else 0
            self._app.budget.hold(self._ahead, len(self._rest) + len(data) + begun)
        except Refusal:  # answer what came before; the client sends the rest again
            self._rest, self._deaf, self._last = b"", True, True
        else:
            self._rest += data

    # The parser's side

    def on_message_begin(self) -> None:
        if not self._busy:
            self._allow(self._pool.limits.header_seconds)
        self._request = Request(peer=self._peer)
        self._url, self._fields = b"", 0
        self._header_done, self._begun, self._overhead = False, True, 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_header(len(url))
        if len(self._url) > MAX_HEADER:
            self._refuse(url_too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._count_header(len(name) + len(value) + 4)
        name = name.lower()
        request = self._request
        if name in HEADERS and request and not self._header_done:
            headers = request.headers
            if name in _LISTS and name in headers:
                value = headers[name] + b", " + value
            headers[name] = value

    def _count_header(self, size: int) -> None:
        if not self._request:
            return
        self._request.header_bytes += size
        if self._request.header_bytes > MAX_HEADER or self._fields > MAX_HEADER_FIELDS:
            self._refuse(url_too_long() if len(self._url) > MAX_HEADER else header_too_large())

    def on_headers_complete(self) -> None:
        request, parser = self._request, self._parser
        if self._deaf or not request:
            return
        request.method = parser.get_method().decode()
        self._upgrade = parser.should_upgrade()
        if self._upgrade:
            return
        self._header_done = True
        if self.unread:
            self._pool.count_unread(self, 0)
        # An HTTP/1.0 client is not told how to keep a connection.
        request.keep_alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        try:
            self._admit(request)
        except Refusal as refusal:
            request.takes_body, request.refusal = False, refusal
            if refusal.unread or b"expect" in request.headers:
                self._refuse(refusal)

    def _admit(self, request: Request) -> None:
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            raise not_http() from None
        path = (url.path or b"").decode("latin-1")
        request.path = unquote(path) if "%" in path else path
        request.query = url.query or b""
        self._app.admit(request)
        if request.takes_body or request.header_bytes > SMALL_HEADER:
            self._app.budget.hold(request, 0)
        if self._busy:
            return
        self._allow(self._pool.limits.body_seconds)
        if request.keyed:
            self._pool.engage(self)
        if request.headers.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._framed += len(body)
        request = self._request
        if self._deaf or not request or not request.takes_body:
            return
        size = len(request.body) + len(body)
        try:
            if size > MAX_BODY:
                raise too_large(MAX_BODY)
            self._app.budget.hold(request, size)
        except Refusal as refusal:
            self._refuse(refusal)
        else:
            request.body += body

    def on_chunk_header(self) -> None:
        self._framed += CHUNK_BYTES

    def on_message_complete(self) -> None:
        request = self._request
        if self._deaf or self._upgrade or not request:
            return
        self._request = None
        if self._busy:
            self._queue.append(request)
        else:
            self._start(request)

    # Answering

    def _start(self, request: Request) -> None:
        self._busy, self.deadline = True, inf
        self._pool.engage(self)
        self._pool.run(self._answer(request))

    async def _answer(self, request: Request) -> None:
        reply = await self._app.answer(request)
        self._busy = False
        if self._transport.is_closing():
            return
        self._write(reply, request)
        if not self._transport.is_closing():
            self._go_on()

    def _write(self, reply: Reply, request: Request | None) -> None:
        more = bool(self._queue or self._refusal)
        close = reply.close or not request or not request.keep_alive or (self._last and not more)
        head_only = request is not None and request.method == "HEAD"
        self._transport.write(
            encode_reply(reply, self._pool.date, close=close, head_only=head_only)
        )
        if close:
            self._close(linger=(reply.close or self._deaf) and not self._eof)

    def _close(self, *, linger: bool) -> None:
        self._deaf = self._last = True
        self._drop_unanswered()
        self._allow(LINGER_SECONDS)
        self._pool.wait_for(self)
        if linger and not self._transport.is_closing():
            # To close now would reset the connection under what the client still sends, and the
            # answer would be lost with it.
            self._transport.write_eof()
            self._resume()
        else:
            self._transport.close()

    def _go_on(self) -> None:
        """Take the next request, or wait for one."""
        if self._deaf and not (self._queue or self._refusal):
            return
        if self._queue:
            self._start(self._queue.popleft())
            return
        if self._refusal:
            self._write(self._app.refused(self._refusal), None)
            return
        self._pool.wait_for(self)
        self._allow(self._seconds_to_wait())
        rest, self._rest = self._rest, b""
        self._app.budget.release(self._ahead)
        if rest:
            self._feed(rest)
        if not self._busy and not self._deaf:
            self._resume()

    def _seconds_to_wait(self) -> float:
        limits = self._pool.limits
        if self._request is None:
            return limits.idle_seconds
        return limits.body_seconds if self._header_done else limits.header_seconds

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with an error after the answers that are due, and read no more."""
        if self._deaf:
            return
        self._deaf = True
        self._pool.count_unread(self, 0)
        if self._request:
            self._app.budget.release(self._request)
            self._request = None
        if self._busy:
            self._refusal = refusal
        else:
            self._write(self._app.refused(refusal), None)

    def _drop_unanswered(self) -> None:
        self._rest = b""
        self._app.budget.release(self._ahead)
        while self._queue:
            self._app.budget.release(self._queue.popleft())

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _allow(self, seconds: float) -> None:
        self.deadline = monotonic() + seconds


def _make_parser(connection: Connection) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(connection)
    # What follows a request with `Connection: close` is no fault of that request.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
