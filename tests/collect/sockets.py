"""Raw socket clients, for requests that no HTTP library would send."""

import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from tests.collect.servers import KEY, Server

BASIC = b"authorization: Basic " + b64encode(f"{KEY}:".encode()) + b"\r\n"


def connect(server: Server, timeout: float = 10) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=timeout)


@contextmanager
def connections(server: Server, count: int) -> Iterator[list[socket.socket]]:
    """Open up to `count` connections; those that the collector refuses are omitted."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            with suppress(OSError):
                opened.append(stack.enter_context(connect(server)))
        yield opened


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/track", key: bytes = BASIC) -> bytes:
    """Return the bytes of a request."""
    lines = b"".join(header + b"\r\n" for header in headers)
    length = b"content-length: %d\r\n" % len(body)
    return b"POST %s HTTP/1.1\r\nhost: x\r\n%s%s%s\r\n%s" % (path, key, lines, length, body)


def ask(server: Server, *pieces: bytes, seconds: float = 10) -> bytes:
    """Send pieces on a new connection and return the reply, see `read_reply`."""
    with connect(server, seconds) as client:
        send(client, *pieces)
        return read_reply(client, seconds)


def send(client: socket.socket, *pieces: bytes) -> None:
    """Send pieces; stop quietly when the connection is closed."""
    with suppress(OSError):
        for piece in pieces:
            client.sendall(piece)


def read_reply(client: socket.socket, seconds: float = 10) -> bytes:
    """Return one reply, or a part of it when the connection is closed or time is up."""
    answer, until = b"", time.monotonic() + seconds
    with suppress(OSError):
        while not is_complete(answer) and (remaining := until - time.monotonic()) > 0:
            client.settimeout(remaining)
            piece = client.recv(65_536)
            if not piece:
                break
            answer += piece
    return answer


def is_complete(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    if head.startswith(b"HTTP/1.1 100"):
        return is_complete(body)
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return not lengths or len(body) >= int(lengths[0].partition(b":")[2])


def status(answer: bytes) -> int:
    """Return the status of a reply; 0 when there is none."""
    first = answer.partition(b"\r\n")[0].split(b" ")
    return int(first[1]) if len(first) > 1 else 0


def is_closed(client: socket.socket, seconds: float) -> bool:
    """Return whether the collector closes a connection within a time."""
    client.settimeout(seconds)
    try:
        while client.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True
