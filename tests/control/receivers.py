"""Receivers of notices: a real SMTP server, and an HTTP server, that keep what they got."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

HOST = "127.0.0.1"


@dataclass
class MailServer:
    """Mails that arrived, and how the server answers."""

    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    was_secure: list[bool] = field(default_factory=list)
    answer: str = "250 OK, kept"
    arrived: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    async def handle_DATA(self, _: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.mails.append(message_from_bytes(envelope.content, policy=default))
            self.recipients.append(envelope.rcpt_tos)
            self.was_secure.append(session.ssl is not None)
            self.arrived.set()
        return self.answer

    def authenticate(self, *given: Any) -> AuthResult:
        data = given[-1]
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login.decode(), data.password.decode()))
        is_right = data.password == b"planted-smtp-password"
        return AuthResult(success=is_right, handled=is_right)


class _Controller(Controller):
    """Takes a free port."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server(
    tls: ssl.SSLContext | None = None, *, with_login: bool = False, implicit: bool = False
) -> Iterator[MailServer]:
    """A server on a free port; with a certificate it wants STARTTLS, or TLS from the beginning."""
    server = MailServer()
    options: dict[str, Any] = {}
    if implicit:
        options |= {"ssl_context": tls}
    elif tls:
        options |= {"tls_context": tls, "require_starttls": True}
    if with_login:
        has_tls = tls is not None
        options |= {"authenticator": server.authenticate}
        options |= {"auth_required": has_tls, "auth_require_tls": has_tls}
    controller = _Controller(server, hostname=HOST, port=0, **options)
    controller.start()
    server.port = controller.port
    try:
        yield server
    finally:
        controller.stop()


@dataclass(frozen=True)
class Posted:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookServer:
    """Requests that arrived, and how the server answers."""

    requests: list[Posted] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    reply: bytes = b"thanks"
    respond: Callable[[BaseHTTPRequestHandler], None] | None = None
    """Answers instead, if it is set."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def hook_server() -> Iterator[HookServer]:
    """An HTTP server on a free port."""
    hooks = HookServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            hooks.requests.append(Posted(self.command, self.path, headers, body))
            if hooks.respond:
                hooks.respond(self)
                return
            self.send_response(hooks.status)
            for name, value in {**hooks.headers, "content-length": str(len(hooks.reply))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(hooks.reply)

        do_POST = do_GET = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            return  # the client has gone

    server = Server((HOST, 0), Handler)
    server.daemon_threads = True
    hooks.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hooks
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
