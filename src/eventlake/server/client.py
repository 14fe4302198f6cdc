"""The client of commands: of a running server, or of the control database in this process."""

import asyncio
import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from eventlake.client import Client, Reply, Send
from eventlake.server.app import build_api
from eventlake.server.context import ServerContext
from eventlake.server.installation import open_installation


@contextmanager
def open_client(
    database: str, url: str = "", token: str = "", *, create: bool = False
) -> Iterator[Client]:
    """A client of the server at a URL, else of the database in this process, as admin.

    Raises InvalidSettings if there is no database; with `create`, one is made.
    """
    if url:
        with Client(url, token) as client:
            yield client
        return
    with open_installation(database, create=create) as installation:
        context = ServerContext(
            installation.database,
            installation.vault,
            clock=installation.clock,
            trusted=f"cli:{getpass.getuser()}",
        )
        try:
            yield Client(send=_send_within(build_api(context)))
        finally:
            context.readers.close()


def _send_within(app: ASGIApp) -> Send:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        return asyncio.run(_exchange(app, method, path, body, headers))

    return send


async def _exchange(
    app: ASGIApp, method: str, path: str, body: bytes, headers: dict[str, str]
) -> Reply:
    """Have the app answer one request in this process."""
    start: Message = {}
    parts: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    name, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(name),
        "raw_path": name.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        "client": None,
        "server": None,
        "state": {},
    }
    await app(scope, receive, send)
    shown = {key.decode(): value.decode() for key, value in start["headers"]}
    return Reply(start["status"], shown, b"".join(parts))
