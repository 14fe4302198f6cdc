"""Replies as HTTP/1.1 bytes."""

import asyncio
from contextlib import aclosing
from http import HTTPStatus

from eventlake.collect.pool import Pool
from eventlake.collect.request import Reply, Request

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NO_CONTENT = 204
PART_BYTES = 64 << 10
WRITE_BUFFER_BYTES = 16 << 10
"""Bytes of replies that a client may leave unread."""
WAIT_SECONDS = 0.01
_CORS = b"access-control-allow-origin: *\r\naccess-control-expose-headers: retry-after\r\n"
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


def encode_reply(reply: Reply, date: bytes, *, close: bool, head_only: bool) -> bytes:
    """Encode a reply, with headers that let pages of any origin read it.

    `date` is the value of the Date header. With `head_only`, the body is left out but its length is
    not. With `close`, says that the connection will be closed.
    """
    parts = [_STATUS_LINES[reply.status], b"date: ", date, b"\r\n", _CORS]
    if reply.status != NO_CONTENT:
        length = len(reply.body)
        parts.append(b"content-type: %s\r\ncontent-length: %d\r\n" % (reply.content_type, length))
    parts += [b"%s: %s\r\n" % header for header in reply.headers]
    if close:
        parts.append(b"connection: close\r\n")
    parts.append(b"\r\n")
    if not head_only:
        parts.append(reply.body)
    return b"".join(parts)


async def send_parts(
    transport: asyncio.Transport, reply: Reply, pool: Pool, request: Request, *, close: bool
) -> bool:
    """Send the mounted app's reply, its body as fast as the client reads it.

    Returns False if the client has gone, or reads nothing for as long as a body may take. A body of
    unknown length is sent in chunks, or until the end of the connection to a client that does not
    keep it alive, which may not know chunks.
    """
    has_length = any(name == b"content-length" for name, _ in reply.headers)
    is_chunked = not has_length and request.keep_alive and reply.status != NO_CONTENT
    transport.write(_encode_head(reply, pool.date, chunked=is_chunked, close=close))
    assert reply.parts is not None
    async with aclosing(reply.parts) as parts:
        async for part in parts:
            for at in range(0, len(part), PART_BYTES):
                piece = part[at : at + PART_BYTES]
                transport.write(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
                if not await _wait_for_client(transport, pool.limits.body_seconds):
                    return False
    if is_chunked and not transport.is_closing():
        transport.write(b"0\r\n\r\n")
    return not transport.is_closing()


def _encode_head(reply: Reply, date: bytes, *, chunked: bool, close: bool) -> bytes:
    parts = [_STATUS_LINES[reply.status], b"date: ", date, b"\r\n"]
    parts += [b"%s: %s\r\n" % header for header in reply.headers]
    parts += [b"transfer-encoding: chunked\r\n"] if chunked else []
    parts += [b"connection: close\r\n"] if close else []
    return b"".join((*parts, b"\r\n"))


async def _wait_for_client(transport: asyncio.Transport, seconds: float) -> bool:
    """Return True when the client has read nearly all; False if it has gone or stopped reading."""
    waited, left = 0.0, transport.get_write_buffer_size()
    while left > WRITE_BUFFER_BYTES and not transport.is_closing():
        await asyncio.sleep(WAIT_SECONDS)
        before, left = left, transport.get_write_buffer_size()
        waited = waited + WAIT_SECONDS if left == before else 0.0
        if waited > seconds:
            return False
    return not transport.is_closing()
