"""A client's HTTP/1.1 connection; bytes are counted as they arrive."""

import asyncio
from collections import deque
from math import inf
from typing import cast

import httptools

from eventlake.collect.app import App
from eventlake.collect.limits import (
    CHUNK_FRAME_BYTES,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADER_FIELDS,
    SMALL_HEADER_BYTES,
)
from eventlake.collect.pool import Pool
from eventlake.collect.refusal import (
    Refusal,
    header_too_large,
    not_http,
    too_large,
    too_slow,
    url_too_long,
)
from eventlake.collect.replies import CONTINUE, WRITE_BUFFER_BYTES, encode_reply, send_parts
from eventlake.collect.request import Reply, Request, make_parser

HEADER_END = b"\r\n\r\n"
LINGER_SECONDS = 2.0
"""How long a refused client may go on sending, so that it can read its reply."""


class Connection(asyncio.Protocol):
    """Parses requests and answers them one at a time.

    The parser cannot stop within the bytes that it gets, so it gets them up to the end of a
    header at a time: at most two requests are parsed ahead, and later bytes are buffered.
    """

    def __init__(self, app: App, pool: Pool) -> None:
        self._app, self._pool = app, pool
        self._parser = make_parser(self)
        self._transport: asyncio.Transport
        self.deadline = inf
        self.partial_header_bytes = 0
        self._peer: str | None = None
        # The request that is being read, and the counters of its callbacks.
        self._request: Request | None = None
        self._url = b""
        self._field_count = 0
        self._header_done = False
        self._upgrade = False
        self._message_began = False
        self._body_bytes = 0
        self._overhead_bytes = 0
        # Requests and bytes that are received and not answered.
        self._answering = self._sends_parts = False
        self._queue: deque[Request] = deque()
        self._refusal: Refusal | None = None
        self._unparsed = b""
        self._unparsed_reservation = Request()
        # How the connection ends.
        self._reading_paused = False
        self._eof = False
        self._ignores_input = False
        self._closes_next = False

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add the connection to the pool, which may close another; the first header is due soon."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else None
        self._set_deadline(self._pool.limits.header_seconds)
        self._pool.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, or buffer them while a request is being answered."""
        if self._ignores_input:
            return
        if self._answering:
            self._buffer(data)
        else:
            self._feed(data)

    def eof_received(self) -> bool:
        """Keep the connection open for pending replies: the client only stopped sending."""
        self._eof = self._ignores_input = self._closes_next = True
        return self._answering

    def pause_writing(self) -> None:
        """Abort: the client does not read its replies, none of which is sent in parts."""
        if not self._sends_parts:
            self.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """Leave the pool and release all reservations but that of the request being answered."""
        self._ignores_input = self._closes_next = True
        self._pool.remove(self)
        self._drop_unanswered()
        if self._request:
            self._app.budget.release(self._request)
            self._request = None

    # Called by the pool

    def expire(self) -> None:
        """Refuse an unfinished request with 408; close without one, or when closing already."""
        if self._ignores_input:
            self.abort()
        elif self._request:
            self._refuse(too_slow("body" if self._header_done else "header"))
        else:
            self._transport.close()
            self._ignores_input = True

    def close_when_idle(self) -> None:
        """Close after the request that is being read or answered, or now if there is none."""
        self._closes_next = True
        if not self._answering and not self._request:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; replies that are not sent are lost."""
        self._ignores_input = True
        self._transport.abort()

    def _feed(self, data: bytes) -> None:
        """Parse bytes up to the end of a request, and buffer the rest."""
        view, at = memoryview(data), 0
        while at < len(data) and not self._ignores_input:
            header_end = data.find(HEADER_END, at)
            end = len(data) if header_end < 0 else header_end + len(HEADER_END)
            end = min(end, at + MAX_HEADER_BYTES)
            self._parse(view[at:end])
            at = end
            if self._answering:
                self._buffer(data[at:])
                return
        if self._request and not self._header_done and not self._ignores_input:
            self._pool.set_partial_header(self, self.partial_header_bytes + len(data))

    def _parse(self, piece: memoryview) -> None:
        """Run the parser; refuse invalid HTTP, and too many bytes outside of bodies."""
        self._message_began, self._body_bytes = False, 0
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(piece[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(not_http())
        if not self._message_began:
            self._overhead_bytes += len(piece) - self._body_bytes
            if self._overhead_bytes > MAX_HEADER_BYTES:
                self._refuse(header_too_large())

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Parse the request again without its Upgrade header; CONNECT is refused."""
        self._upgrade = False
        request = self._request
        if request is None or self._ignores_input:
            return
        if request.method == "CONNECT":
            self._refuse(Refusal(405, "method_not_allowed", "this is not a proxy", close=True))
            return
        version = self._parser.get_http_version().encode()
        lines = [b"%s: %s" % pair for pair in request.headers.items() if pair[0] != b"upgrade"]
        head = [b"%s %s HTTP/%s" % (request.method.encode(), self._url, version), *lines]
        self._parser = make_parser(self)
        self._parse(memoryview(b"\r\n".join(head) + HEADER_END))
        self._parse(rest)

    def _buffer(self, data: bytes) -> None:
        """Buffer bytes of later requests and stop reading; without room for them, close."""
        if not data and not self._request:
            return
        self._pause_reading()
        try:
            size = len(self._unparsed) + len(data)
            if self._request and not self._header_done:
                size += MAX_HEADER_BYTES  # the parser may hold that much of a header
            self._app.budget.reserve(self._unparsed_reservation, size)
        except Refusal:  # answer the earlier requests; the client sends the rest again
            self._unparsed, self._ignores_input, self._closes_next = b"", True, True
        else:
            self._unparsed += data

    # Called by the parser

    def on_message_begin(self) -> None:
        """Start a new request and its counters."""
        if not self._answering:
            self._set_deadline(self._pool.limits.header_seconds)
        self._request = Request(peer=self._peer)
        self._url, self._field_count = b"", 0
        self._header_done, self._message_began, self._overhead_bytes = False, True, 0

    def on_url(self, url: bytes) -> None:
        """Add a piece of the URL, which may come in several."""
        self._url += url
        self._limit_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header if it is used; trailers, which come after the body, only count."""
        self._field_count += 1
        self._limit_header(len(name) + len(value) + 4)
        if self._request and not self._header_done:
            if self._field_count == 1 and self._app.may_mount(self._url):
                self._request.all_headers = []
            self._request.add_header(name, value)

    def _limit_header(self, size: int) -> None:
        """Add to the header's size; over the limits, refuse with 431, or 414 for a long URL."""
        if not self._request:
            return
        self._request.header_bytes += size
        if self._request.header_bytes > MAX_HEADER_BYTES or self._field_count > MAX_HEADER_FIELDS:
            is_url = len(self._url) > MAX_HEADER_BYTES
            self._refuse(url_too_long() if is_url else header_too_large())

    def on_headers_complete(self) -> None:
        """Check the header; a refusal waits for the body, unless it closes or the client waits."""
        request, parser = self._request, self._parser
        if self._ignores_input or not request:
            return
        request.method = parser.get_method().decode()
        self._upgrade = parser.should_upgrade()
        if self._upgrade:
            return
        self._header_done = True
        if self.partial_header_bytes:
            self._pool.set_partial_header(self, 0)
        # Replies have no `Connection: keep-alive` header, which HTTP/1.0 clients would need.
        request.keep_alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        try:
            self._check_header(request)
        except Refusal as refusal:
            request.stores_body, request.refusal = False, refusal
            if refusal.close or b"expect" in request.headers:
                self._refuse(refusal)

    def _check_header(self, request: Request) -> None:
        """Set path and query, check key and length, reserve memory, set the body's deadline.

        Raises a `Refusal`. Sends `100 Continue` if asked to, unless an earlier reply is pending.
        """
        request.set_url(self._url)
        self._app.check_header(request)
        if request.stores_body or request.header_bytes > SMALL_HEADER_BYTES:
            self._app.budget.reserve(request, 0)
        if self._answering:
            return
        self._set_deadline(self._pool.limits.body_seconds)
        if request.source:
            self._pool.mark_busy(self)
        if request.headers.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """Count a piece of the body, store it if asked to; 400 if too large, 429 if no memory."""
        self._body_bytes += len(body)
        request = self._request
        if self._ignores_input or not request or not request.stores_body:
            return
        size = len(request.body) + len(body)
        try:
            if size > MAX_BODY_BYTES:
                raise too_large(MAX_BODY_BYTES)
            self._app.budget.reserve(request, size)
        except Refusal as refusal:
            self._refuse(refusal)
        else:
            request.body += body

    def on_chunk_header(self) -> None:
        """Count a chunk's framing as body, so that only its extensions count as header."""
        self._body_bytes += CHUNK_FRAME_BYTES

    def on_message_complete(self) -> None:
        """Answer the request, or queue it if another is being answered."""
        request = self._request
        if self._ignores_input or self._upgrade or not request:
            return
        self._request = None
        if self._answering:
            self._queue.append(request)
        else:
            self._start_answer(request)

    def _start_answer(self, request: Request) -> None:
        """Start a task that answers the request; meanwhile there is no deadline."""
        self._answering, self.deadline = True, inf
        self._pool.mark_busy(self)
        self._pool.run_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        """Answer one request; send the reply if the client is still there, and continue."""
        reply = await self._app.answer(request)
        if reply.parts:
            await self._write_parts(reply, request)
        elif not self._transport.is_closing():
            self._write(reply, request)
        self._answering = False
        if not self._transport.is_closing():
            self._continue()

    def _write(self, reply: Reply, request: Request | None) -> None:
        """Send a reply; close the connection if the reply or the request asks for it."""
        is_last = self._closes_next and not (self._queue or self._refusal)
        close = reply.close or not request or not request.keep_alive or is_last
        head_only = request is not None and request.method == "HEAD"
        data = encode_reply(reply, self._pool.date, close=close, head_only=head_only)
        self._transport.write(data)
        if close:
            self._close(linger=(reply.close or self._ignores_input) and not self._eof)

    async def _write_parts(self, reply: Reply, request: Request) -> None:
        """Send the mounted app's reply; abort if the client does not read it."""
        self._sends_parts = True
        close = self._closes_next or not request.keep_alive
        is_sent = await send_parts(self._transport, reply, self._pool, request, close=close)
        self._sends_parts = False
        if not is_sent:
            self.abort()
        elif close:
            self._close(linger=self._ignores_input and not self._eof)

    def _close(self, *, linger: bool) -> None:
        """Drop unanswered input and close: now, or with `linger` when the client has sent all."""
        self._ignores_input = self._closes_next = True
        self._drop_unanswered()
        self._set_deadline(LINGER_SECONDS)
        self._pool.mark_waiting(self)
        if linger and not self._transport.is_closing():
            # Closing now would reset the connection while the client sends, and lose the reply.
            self._transport.write_eof()
            self._resume_reading()
        else:
            self._transport.close()

    def _continue(self) -> None:
        """Answer the next request, send the refusal that ended the input, or read on."""
        if self._ignores_input and not (self._queue or self._refusal):
            return
        if self._queue:
            self._start_answer(self._queue.popleft())
            return
        if self._refusal:
            self._write(self._app.make_error_reply(self._refusal), None)
            return
        self._pool.mark_waiting(self)
        has_request, limits = self._request is not None, self._pool.limits
        self._set_deadline(limits.read_seconds(has_request, self._header_done))
        rest, self._unparsed = self._unparsed, b""
        self._app.budget.release(self._unparsed_reservation)
        if rest:
            self._feed(rest)
        if not self._answering and not self._ignores_input:
            self._resume_reading()

    def _refuse(self, refusal: Refusal) -> None:
        """Send an error after the pending replies, and ignore further input."""
        if self._ignores_input:
            return
        self._ignores_input = True
        self._pool.set_partial_header(self, 0)
        if self._request:
            self._app.budget.release(self._request)
            self._request = None
        if self._answering:
            self._refusal = refusal
        else:
            self._write(self._app.make_error_reply(refusal), None)

    def _drop_unanswered(self) -> None:
        """Drop buffered bytes and queued requests, and release their reservations."""
        self._unparsed = b""
        self._app.budget.release(self._unparsed_reservation)
        while self._queue:
            self._app.budget.release(self._queue.popleft())

    def _pause_reading(self) -> None:
        """Stop reading from the socket; does nothing if that is so, or the connection closes."""
        if not self._reading_paused and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def _set_deadline(self, seconds: float) -> None:
        """Let the pool call `expire` after `seconds`, unless another deadline is set."""
        self.deadline = self._pool.clock.monotonic() + seconds
