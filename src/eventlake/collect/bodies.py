"""A request's body: read within bounds of size, time and memory, and decompressed."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from eventlake.collect.intake import mended
from eventlake.collect.limits import MAX_BODY, Limits
from eventlake.collect.refusal import Refusal, overloaded, too_large

Headers = Mapping[bytes, bytes]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

GZIP = 31
LEAST = 4096
"""What a request costs beside its body."""


class Gone(Exception):
    """The client went away before its request was complete."""


class Budget:
    """The bytes that requests may hold together; who comes later is told to come again."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.used = 0

    @contextmanager
    def share(self, headers: Headers) -> Iterator[Callable[[int], None]]:
        """Hold a request's body until it is answered; the call tells how large it really is."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            more = LEAST + size - held
            if more > 0 and self.used + more > self._limits.inflight_bytes:
                raise overloaded()
            held, self.used = held + more, self.used + more

        try:
            hold(_declared(headers))
            yield hold
        finally:
            self.used -= held


def _declared(headers: Headers) -> int:
    """The body's size as announced; the most there may be when it is not."""
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        return MAX_BODY
    size = int(length)
    if size > MAX_BODY:
        raise too_large(MAX_BODY)
    return size


async def read_body(receive: Receive, headers: Headers, limits: Limits) -> bytes:
    """The whole body, decompressed."""
    try:
        # From the first byte on: who announces a body and sends none holds its share as well.
        async with asyncio.timeout(limits.body_seconds):
            body = await _whole(receive)
    except TimeoutError as problem:
        raise _too_slow() from problem
    return mended(_plain(body, headers.get(b"content-encoding", b"").strip().lower()))


def _too_slow() -> Refusal:
    return Refusal(408, "body_too_slow", "the body did not arrive in time", unread=True)


async def _whole(receive: Receive) -> bytes:
    message = await receive()
    if not message.get("more_body"):
        return _piece(message)
    body = bytearray(_piece(message))
    while message.get("more_body"):
        message = await receive()
        body += _piece(message)
        if len(body) > MAX_BODY:
            raise too_large(MAX_BODY)
    return bytes(body)


def _piece(message: MutableMapping[str, Any]) -> bytes:
    if message["type"] == "http.disconnect":
        raise Gone
    piece: bytes = message.get("body", b"")
    return piece


def _plain(body: bytes, encoding: bytes) -> bytes:
    if encoding == b"gzip":
        return _gunzipped(body)
    if encoding not in (b"", b"identity"):
        raise Refusal(400, "encoding_not_supported", "content-encoding may be gzip")
    if len(body) > MAX_BODY:
        raise too_large(MAX_BODY)
    return body


def _gunzipped(body: bytes) -> bytes:
    unzip = zlib.decompressobj(GZIP)
    try:
        plain = unzip.decompress(body, MAX_BODY + 1)
    except zlib.error as problem:
        raise Refusal(400, "not_gzip", "the body is not gzip") from problem
    if len(plain) > MAX_BODY:
        raise too_large(MAX_BODY)
    if not unzip.eof or unzip.unused_data:
        raise Refusal(400, "not_gzip", "the gzip body is cut short, or more than one")
    return plain
