"""HTTP requests to the addresses of users: no redirects, and bounds on time and size."""

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Timer
from typing import NamedTuple

from eventlake.control.notify.targets import Target, resolve
from eventlake.errors import Unavailable

SECONDS = 10.0
"""The time-out of each read and write."""
TOTAL_SECONDS = 20.0
MAX_ANSWER_BYTES = 1024


class Reply(NamedTuple):
    """A status, and the beginning of the body if the status is an error."""

    status: int
    reason: str
    retry_after: str
    body: str


@contextmanager
def requesting(
    target: Target,
    method: str,
    body: bytes,
    headers: Mapping[str, str],
    seconds: float = TOTAL_SECONDS,
) -> Iterator[Reply]:
    """Send a request; give the reply as soon as it is known, before the connection is closed.

    Raises Unavailable if there is no reply in time, and for an address that is refused. The host
    is resolved once, and its name is in the certificate and in the Host header.
    """
    connection = http.client.HTTPConnection(target.host, target.port, timeout=SECONDS)
    if target.is_https:
        connection.default_port = 443  # or the Host header names the port
    try:
        with closing_after(lambda: connection.sock, seconds):
            _connect(connection, target)
            reply = _exchange(connection, target, method, body, headers)
        yield reply
    finally:
        connection.close()


@contextmanager
def closing_after(get_socket: Callable[[], socket.socket | None], seconds: float) -> Iterator[None]:
    """Shut a socket down after some time: a peer that sends a byte now and then keeps no thread."""
    timer = Timer(seconds, _shut_down, (get_socket,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Connect to an address of a host that is allowed; raises Unavailable."""
    reason = "it has no address"
    for address in resolve(host, port):
        try:
            return socket.create_connection((address, port), seconds)
        except OSError as problem:
            reason = problem.strerror or "no answer in time"
    raise Unavailable(f"cannot connect to {host} port {port}: {reason}")


def _connect(connection: http.client.HTTPConnection, target: Target) -> None:
    connection.sock = connect(target.host, target.port, SECONDS)
    if not target.is_https:
        return
    context = ssl.create_default_context()
    try:
        connection.sock = secured = context.wrap_socket(
            connection.sock, server_hostname=target.host, do_handshake_on_connect=False
        )
        secured.do_handshake()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "verify_message", "") or "no answer in time, or not TLS"
        raise Unavailable(f"no TLS with {target.host}: {reason}") from None


def _exchange(
    connection: http.client.HTTPConnection,
    target: Target,
    method: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Reply:
    try:
        connection.request(method, target.path, body or None, dict(headers))
        reply = connection.getresponse()
        text = b"" if reply.status < 300 else reply.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "no valid answer in time"
        raise Unavailable(f"{target.host} does not answer: {reason}") from None
    shown = text.decode("utf-8", "replace")
    return Reply(reply.status, reply.reason, reply.getheader("retry-after", ""), shown)


def _shut_down(get_socket: Callable[[], socket.socket | None]) -> None:
    with suppress(OSError):  # it is closed already
        if sock := get_socket():
            sock.shutdown(socket.SHUT_RDWR)
