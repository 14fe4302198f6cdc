"""An Azure that answers as it is told: what an emulator cannot refuse, and who asks for tokens."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest

TOKEN = "a-token-that-nobody-may-see"


@dataclass
class Refusing:
    """The blob service, Microsoft Entra and a machine's identity at one URL."""

    url: str
    status: int = 403
    code: str = "AuthorizationPermissionMismatch"
    entra: str = ""
    """Why Microsoft Entra gives no token."""
    tokens: list[dict[str, str]] = field(default_factory=list)
    """What was said by those who asked for one."""
    signed: list[str] = field(default_factory=list)
    """How requests to the blob service were signed."""

    def token(self, asked: dict[str, str]) -> tuple[int, bytes]:
        self.tokens.append(asked)
        if self.entra:
            refusal = {"error": "invalid_client", "error_description": f"{self.entra}: No."}
            return 401, json.dumps(refusal).encode()
        given = {"access_token": TOKEN, "token_type": "Bearer"}
        return 200, json.dumps({**given, "expires_in": 3600, "expires_on": "4102444800"}).encode()

    def blob(self, authorization: str) -> tuple[int, bytes]:
        self.signed.append(authorization)
        return self.status, (
            f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{self.code}</Code>'
            "<Message>This request is refused.</Message></Error>"
        ).encode()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Refusing]:
    """A server that ends with the test; this process knows of no other Azure."""
    told = Refusing("")

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            place = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if place.path.endswith("/token"):
                status, text = told.token(dict(parse_qsl(place.query or body.decode())))
            else:
                status, text = told.blob(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_HEAD = do_PUT = do_POST = answer  # noqa: N815 - the server's own names

        def log_message(self, *_: object) -> None:
            """A test says what it has to say."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", told.url)
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", told.url)
        yield told
        server.shutdown()
        thread.join()
