"""Asks the API: of a running server, or in this process on the control database itself."""

import asyncio
import getpass
import json
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message

from eventlake import errors
from eventlake.errors import EventLakeError, InvalidSettings, NotFound, Unavailable
from eventlake.server.app import PREFIX, build_api
from eventlake.server.context import ServerContext
from eventlake.server.installation import open_installation

SECONDS = 130.0
"""Longer than the checks of a lake may take."""


class Answer(NamedTuple):
    """A reply of the API."""

    status: int
    headers: MutableMapping[str, str]
    body: bytes


Send = Callable[[str, str, bytes, dict[str, str]], Answer]


class Client:
    """Asks below `/api/v1`; raises the error that the reply has."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the JSON of the reply; None if it has none."""
        return _parse(self._ask(method, path, body, headers))

    def change(self, method: str, path: str, body: Any) -> Any:
        """Change what is at a path now, whoever changed it last."""
        seen = self._ask("GET", path, None, {})
        _parse(seen)
        return self.ask(method, path, body, **{"if-match": seen.headers["etag"]})

    def list_all(self, path: str) -> list[Any]:
        """The items of all pages of a list."""
        items, after = list[Any](), ""
        while True:
            page = self.ask("GET", f"{path}?limit=500{after}")
            items += page["items"]
            if page["next"] is None:
                return items
            after = f"&after={page['next']}"

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        content = b"" if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"content-type": "application/json"}
        return self._send(method, PREFIX + path, content, {**kind, **headers})


@contextmanager
def open_client(database: str, url: str = "", token: str = "") -> Iterator[Client]:
    """A client of the server at a URL, else of the database in this process, as admin."""
    if url:
        yield Client(_send_to(url, token))
        return
    with open_installation(database) as installation:
        context = ServerContext(
            installation.database,
            installation.vault,
            clock=installation.clock,
            trusted=f"cli:{getpass.getuser()}",
        )
        yield Client(_send_within(build_api(context)))


def _parse(answer: Answer) -> Any:
    try:
        value = json.loads(answer.body or b"null")
    except ValueError:
        raise Unavailable(f"the server answered {answer.status} without JSON") from None
    if answer.status < 400:
        return value
    value = value or {}
    code, detail = value.get("code", ""), value.get("detail", "")
    if answer.status == 404:
        raise NotFound(detail)
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    found = [one for one in kinds if issubclass(one, EventLakeError) and one.code == code]
    problem = (found[0] if found else EventLakeError)(detail)
    problem.code = code
    raise problem


def _send_to(url: str, token: str) -> Send:
    parsed = urlsplit(url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise InvalidSettings(f"EVENTLAKE_URL is {url!r}: give a URL such as http://127.0.0.1:8400")
    kind = HTTPSConnection if parsed.scheme == "https" else HTTPConnection
    own = {"authorization": f"Bearer {token}"} if token else {}

    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = kind(parsed.hostname or "", parsed.port, timeout=SECONDS)
        try:
            connection.request(method, path, body, {**own, **headers})
            reply = connection.getresponse()
            shown = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, shown, reply.read())
        except (OSError, HTTPException) as problem:
            raise Unavailable(f"{url} does not answer: {problem}") from problem
        finally:
            connection.close()

    return send


def _send_within(app: ASGIApp) -> Send:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return asyncio.run(_exchange(app, method, path, body, headers))

    return send


async def _exchange(
    app: ASGIApp, method: str, path: str, body: bytes, headers: dict[str, str]
) -> Answer:
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
    return Answer(start["status"], shown, b"".join(parts))
