"""The HTTP side: paths, answers, and the order of things from a request to its 200."""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import time
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec

from eventlake.collect.bodies import Budget, Gone, Headers, Receive, read_body
from eventlake.collect.intake import (
    Taken,
    mended,
    open_batch,
    open_single,
    take_batch,
    take_single,
)
from eventlake.collect.keys import Gate, basic_user
from eventlake.collect.limits import DEFAULTS, Limits
from eventlake.collect.metrics import Metrics
from eventlake.collect.openapi import DESCRIPTION
from eventlake.collect.refusal import Refusal
from eventlake.collect.stamp import Arrival

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_NAMES = ("track", "identify", "page", "screen", "group", "alias")
CALLS = {f"/v1/{name}": name for name in _NAMES} | {f"/v1/{name[0]}": name for name in _NAMES}
BATCHES = frozenset(("/v1/batch", "/v1/import", "/v1/b"))
# What analytics.js says about itself; it sends no key with it and nobody reads it.
SELF_REPORT = "/v1/m"
PIXEL = "/v1/pixel/"
GIF = binascii.unhexlify(
    b"47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)


class Appends(Protocol):
    """Who puts lines on disk."""

    async def append(self, day: int, lines: list[bytes]) -> None: ...


@dataclass
class Reply:
    """What is sent back."""

    status: int
    body: bytes
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


_SUCCESS = b'{"success":true}'
_CORS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"retry-after"),
)
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-max-age", b"86400"),
)
_USUAL_HEADERS = b"authorization, content-type, content-encoding, x-retry-count"


@dataclass
class App:
    """The tracking API of one source, as an ASGI application."""

    project: str
    gate: Gate
    events: Appends
    rejects: Appends
    gauges: Callable[[], dict[str, float]]
    limits: Limits = DEFAULTS
    suppressed: Collection[str] = frozenset()
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self._budget = Budget(self.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._answer(scope, receive)
        except Refusal as refusal:
            reply = self._refused(refusal)
        except Gone:
            return
        self.metrics.responses[reply.status] += 1
        with suppress(RuntimeError):  # so uvloop says that the client has gone
            await _send(reply, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        path, method = scope["path"].rstrip("/"), scope["method"]
        if method == "OPTIONS":
            return _preflight(dict(scope["headers"]))
        if path in CALLS or path in BATCHES:
            _allow(method, "POST")
            return await self._collect(path, scope, receive)
        if path.startswith(PIXEL) and path.removeprefix(PIXEL) in CALLS.values():
            _allow(method, "GET")
            return await self._pixel(path.removeprefix(PIXEL), scope)
        return self._page(path, method)

    def _page(self, path: str, method: str) -> Reply:
        if path == SELF_REPORT:
            _allow(method, "POST")
            return Reply(200, _SUCCESS)
        if path not in ("/health", "/metrics", "/openapi.json"):
            raise Refusal(404, "not_found", "there is no such path; see /openapi.json")
        _allow(method, "GET")
        if path == "/metrics":
            text = self.metrics.text(self.gauges()).encode()
            return Reply(200, text, b"text/plain; version=0.0.4; charset=utf-8")
        return Reply(200, b'{"status":"ok"}' if path == "/health" else DESCRIPTION)

    async def _collect(self, path: str, scope: Scope, receive: Receive) -> Reply:
        headers = dict(scope["headers"])
        user = basic_user(headers.get(b"authorization", b""))
        if user:
            self.gate.admit(user)
        with self._budget.share(headers) as hold:
            body = await read_body(receive, headers, self.limits)
            hold(len(body))
            taken = self._take(path, body, user, self._arrival(scope, headers))
            await self._keep(taken, len(body))
        return Reply(200, _SUCCESS)

    def _take(self, path: str, body: bytes, user: str | None, arrival: Arrival) -> Taken:
        if path in BATCHES:
            envelope = open_batch(body)
            if not user:
                self.gate.admit(_text(envelope.writeKey))
            return take_batch(envelope, self.suppressed, arrival)
        head = open_single(body)
        if not user:
            self.gate.admit(_text(head.writeKey))
        head.type = CALLS[path]
        return take_single(head, body, self.suppressed, arrival)

    async def _keep(self, taken: Taken, size: int) -> None:
        """Return when everything of a request is on disk, and count it only then."""
        day = taken.arrival.day
        if taken.rejected:
            await self.rejects.append(day, taken.rejected)
        if taken.lines:
            await self.events.append(day, taken.lines)
        self.metrics.accepted += len(taken.lines)
        self.metrics.suppressed += taken.suppressed
        self.metrics.rejected += taken.reasons
        self.metrics.bytes += size

    async def _pixel(self, call: str, scope: Scope) -> Reply:
        """Always the picture; what was wrong is only counted, as nobody would see an answer."""
        try:
            body = _pixel_data(scope["query_string"])
            head = open_single(body)
            self.gate.admit(_text(head.writeKey))
            head.type = call
            arrival = self._arrival(scope, {b"origin": b"pixel"})
            with self._budget.share({b"content-length": b"%d" % len(body)}):
                await self._keep(take_single(head, body, self.suppressed, arrival), len(body))
        except Refusal as refusal:
            self.metrics.rejected[refusal.code] += 1
        return Reply(200, GIF, b"image/gif", ((b"cache-control", b"no-store"),))

    def _arrival(self, scope: Scope, headers: Headers) -> Arrival:
        browser = b"origin" in headers or headers.get(b"content-type", b"")[:10] == b"text/plain"
        client = scope.get("client") if browser else None
        return Arrival(int(time() * 1000) * 1000, self.project, client[0] if client else None)

    def _refused(self, refusal: Refusal) -> Reply:
        self.metrics.rejected[refusal.code] += 1
        said = {"success": False, "code": refusal.code, "message": refusal.message}
        return Reply(refusal.status, msgspec.json.encode(said), headers=refusal.headers)


def _preflight(headers: Headers) -> Reply:
    """Leave to send what the page asks for: libraries add headers of their own, and users more."""
    asked = headers.get(b"access-control-request-headers", _USUAL_HEADERS)
    return Reply(204, b"", headers=(*_PREFLIGHT, (b"access-control-allow-headers", asked)))


def _allow(method: str, wanted: str) -> None:
    if method != wanted:
        raise Refusal(405, "method_not_allowed", f"this path takes {wanted}")


def _text(given: object) -> str | None:
    return given if isinstance(given, str) else None


def _pixel_data(query: bytes) -> bytes:
    data = parse_qs(query.decode("latin-1")).get("data", [""])[0]
    coded = data.replace(" ", "-").replace("+", "-").replace("/", "_").rstrip("=")
    try:
        return mended(urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
    except (binascii.Error, ValueError) as problem:
        raise Refusal(400, "not_base64", "data must be base64 of a JSON object") from problem


async def _send(reply: Reply, send: Send) -> None:
    length = (b"content-length", b"%d" % len(reply.body))
    headers = ((b"content-type", reply.kind), length, *_CORS, *reply.headers)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
