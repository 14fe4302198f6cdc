"""Replies as HTTP/1.1 bytes."""

from http import HTTPStatus

from eventlake.collect.request import Reply

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NO_CONTENT = 204
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
