"""An ASGI application behind the collector's HTTP server, for the paths that are not its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from eventlake.collect.proxies import TrustedProxies
from eventlake.collect.request import Reply, Request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
_END: Message = {}
_OF_THE_CONNECTION = frozenset((b"connection", b"date", b"transfer-encoding"))


class Mount:
    """Has an ASGI application answer requests; it has no lifespan and no websockets."""

    def __init__(self, app: AsgiApp, proxies: TrustedProxies) -> None:
        self._app, self._proxies = app, proxies
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request) -> Reply:
        """Return the app's reply when it has begun; its body follows in parts.

        Raises RuntimeError if the app ends without a reply.
        """
        exchange = _Exchange(bytes(request.body))
        task = asyncio.create_task(self._run(request, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        start = await exchange.messages.get()
        if start is _END:
            raise RuntimeError("the mounted app did not reply")
        headers = tuple(
            (name.lower(), value)
            for name, value in start["headers"]
            if name.lower() not in _OF_THE_CONNECTION
        )
        first = await exchange.messages.get()
        parts = exchange.iterate_body(first, task, head_only=request.method == "HEAD")
        return Reply(start["status"], b"", headers=headers, parts=parts)

    async def _run(self, request: Request, exchange: "_Exchange") -> None:
        with suppress(OSError):  # the client has gone
            try:
                await self._app(self._make_scope(request), exchange.receive, exchange.send)
            finally:
                await exchange.messages.put(_END)

    def _make_scope(self, request: Request) -> dict[str, Any]:
        forwarded = request.headers.get(b"x-forwarded-for", b"")
        address = self._proxies.client_address(request.peer, forwarded)
        path = request.path or "/"
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "surrogateescape"),
            "query_string": request.query,
            "root_path": "",
            "headers": request.all_headers or [],
            "client": (address, 0) if address else None,
            "server": None,
            "state": {},
        }


class _Exchange:
    """The messages between the server and the app about one request."""

    def __init__(self, body: bytes) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue(1)
        self._body: bytes | None = body
        self._has_gone = asyncio.Event()

    async def receive(self) -> Message:
        """The request's body at first; after that, waits until the client has gone."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._has_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Hand a message to the server; waits until it has taken the one before."""
        if self._has_gone.is_set():
            raise OSError("the client has gone")
        await self.messages.put(message)

    async def iterate_body(
        self, message: Message, task: "asyncio.Task[None]", *, head_only: bool
    ) -> AsyncGenerator[bytes, None]:
        """The parts of the reply's body; the app is cancelled if they are not read to the end."""
        try:
            while message is not _END:
                if not head_only:
                    yield message.get("body", b"")
                if not message.get("more_body", False):
                    break
                message = await self.messages.get()
        finally:
            self._has_gone.set()
            if message.get("more_body", False):
                task.cancel()
            while not self.messages.empty():  # the app waits for room
                self.messages.get_nowait()
