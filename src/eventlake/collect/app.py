"""The tracking API: paths, answers, and the order of things from a request to its 200."""

import binascii
import sys
import traceback
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from time import time
from typing import Protocol
from urllib.parse import parse_qs

import msgspec

from eventlake.collect.bodies import decode_body
from eventlake.collect.budget import Budget
from eventlake.collect.intake import (
    Taken,
    mended,
    open_batch,
    open_single,
    take_batch,
    take_single,
    text_of,
)
from eventlake.collect.keys import Gate, basic_user
from eventlake.collect.limits import DEFAULTS, MAX_BODY, Limits
from eventlake.collect.metrics import Metrics
from eventlake.collect.openapi import DESCRIPTION
from eventlake.collect.proxies import Proxies
from eventlake.collect.refusal import Refusal, too_large
from eventlake.collect.request import Headers, Reply, Request
from eventlake.collect.stamp import Arrival

_NAMES = ("track", "identify", "page", "screen", "group", "alias")
CALLS = {f"/v1/{name}": name for name in _NAMES} | {f"/v1/{name[0]}": name for name in _NAMES}
BATCHES = frozenset(("/v1/batch", "/v1/import", "/v1/b"))
_TAKE_BODY = BATCHES | CALLS.keys()
# What analytics.js says about itself; it sends no key with it and nobody reads it.
SELF_REPORT = "/v1/m"
PIXEL = "/v1/pixel/"
GIF = binascii.unhexlify(
    b"47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)


class Appends(Protocol):
    """Who puts lines on disk."""

    async def append(self, day: int, lines: list[bytes]) -> None: ...


_SUCCESS = b'{"success":true}'
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-max-age", b"86400"),
)
_USUAL_HEADERS = b"authorization, content-type, content-encoding, x-retry-count"
_MAX_ASKED = 4096
"""Bytes of header names that a preflight is answered with."""
_MAX_QUERY_FIELDS = 100


@dataclass
class App:
    """The tracking API of one source.

    `admit` looks at a request when its header is complete, `answer` when its body is.
    """

    project: str
    gate: Gate
    events: Appends
    rejects: Appends
    gauges: Callable[[], dict[str, float]]
    limits: Limits = DEFAULTS
    suppressed: Collection[str] = frozenset()
    proxies: Proxies = field(default_factory=Proxies)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.budget = Budget(self.limits)

    def admit(self, request: Request) -> None:
        """Check a request by its header, before its body is read; raises a `Refusal`."""
        request.path = request.path.rstrip("/")
        if request.method != "POST" or request.path not in _TAKE_BODY:
            return
        user = basic_user(request.headers.get(b"authorization", b""))
        if user:
            self.gate.admit(user)
            request.keyed = True
        length = request.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MAX_BODY:
            raise too_large(MAX_BODY)
        request.takes_body = True

    async def answer(self, request: Request) -> Reply:
        """The answer to a request whose body is complete; releases its share of the budget."""
        try:
            if request.refusal:
                raise request.refusal
            reply = await self._answer(request)
        except Refusal as refusal:
            return self.refused(refusal)
        except Exception:
            self.metrics.troubles += 1
            sys.stderr.write(f"warning: a request failed\n{traceback.format_exc()}")
            failure = "the request could not be handled; this is a bug"
            return self.refused(Refusal(500, "internal_error", failure))
        finally:
            self.budget.release(request)
        self.metrics.responses[reply.status] += 1
        return reply

    def refused(self, refusal: Refusal) -> Reply:
        """The answer to a request that is refused, counted."""
        self.metrics.rejected[refusal.code] += 1
        self.metrics.responses[refusal.status] += 1
        said = {"success": False, "code": refusal.code, "message": refusal.message}
        body = msgspec.json.encode(said)
        return Reply(refusal.status, body, headers=refusal.headers, close=refusal.unread)

    async def _answer(self, request: Request) -> Reply:
        path, method = request.path, request.method
        if method == "OPTIONS":
            return _preflight(request.headers)
        if path in _TAKE_BODY:
            _allow(method, "POST")
            return await self._collect(request)
        if path.startswith(PIXEL) and path.removeprefix(PIXEL) in CALLS.values():
            _allow(method, "GET")
            return await self._pixel(request)
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

    async def _collect(self, request: Request) -> Reply:
        body = decode_body(bytes(request.body), request.headers.get(b"content-encoding", b""))
        request.body.clear()
        self.budget.hold(request, len(body))
        taken = self._take(request, body)
        # Lines may be much longer than what they were made of.
        self.budget.hold(request, taken.size)
        await self._keep(taken, len(body))
        return Reply(200, _SUCCESS)

    def _take(self, request: Request, body: bytes) -> Taken:
        arrival = self._arrival(request)
        if request.path in BATCHES:
            envelope = open_batch(body)
            self._admit_key(request, text_of(envelope.writeKey))
            return take_batch(envelope, self.suppressed, arrival)
        head = open_single(body)
        self._admit_key(request, head.writeKey)
        head.type = CALLS[request.path]
        return take_single(head, body, self.suppressed, arrival)

    def _admit_key(self, request: Request, key: object) -> None:
        """Check the key of a body, unless a key came with the header."""
        if not request.keyed:
            self.gate.admit(key if isinstance(key, str) else None)
            self.budget.keyed(request)

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

    async def _pixel(self, request: Request) -> Reply:
        """Always the picture; what was wrong is only counted, as nobody would see an answer."""
        try:
            body = _pixel_data(request.query)
            self.budget.hold(request, len(body))
            head = open_single(body)
            self._admit_key(request, head.writeKey)
            head.type = request.path.removeprefix(PIXEL)
            request.headers[b"origin"] = b"pixel"
            arrival = self._arrival(request)
            await self._keep(take_single(head, body, self.suppressed, arrival), len(body))
        except Refusal as refusal:
            self.metrics.rejected[refusal.code] += 1
        return Reply(200, GIF, b"image/gif", ((b"cache-control", b"no-store"),))

    def _arrival(self, request: Request) -> Arrival:
        headers, received = request.headers, int(time() * 1000) * 1000
        if b"origin" in headers or headers.get(b"content-type", b"")[:10] == b"text/plain":
            forwarded = headers.get(b"x-forwarded-for", b"")
            return Arrival(received, self.project, self.proxies.client(request.peer, forwarded))
        return Arrival(received, self.project)


def _preflight(headers: Headers) -> Reply:
    """Leave to send what the page asks for: libraries add headers of their own, and users more."""
    asked = headers.get(b"access-control-request-headers", _USUAL_HEADERS)
    asked = asked if len(asked) <= _MAX_ASKED else _USUAL_HEADERS
    return Reply(204, b"", headers=(*_PREFLIGHT, (b"access-control-allow-headers", asked)))


def _allow(method: str, wanted: str) -> None:
    if method != wanted:
        raise Refusal(405, "method_not_allowed", f"this path takes {wanted}")


def _pixel_data(query: bytes) -> bytes:
    try:
        fields = parse_qs(query.decode("latin-1"), max_num_fields=_MAX_QUERY_FIELDS)
        data = fields.get("data", [""])[0]
        coded = data.replace(" ", "-").replace("+", "-").replace("/", "_").rstrip("=")
        return mended(urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
    except (binascii.Error, ValueError) as problem:
        raise Refusal(400, "not_base64", "data must be base64 of a JSON object") from problem
