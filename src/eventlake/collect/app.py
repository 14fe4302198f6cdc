"""The tracking API: its paths, and the steps from a request to its reply."""

import binascii
import sys
import traceback
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import msgspec

from eventlake.clock import Clock
from eventlake.collect.bodies import decode_body
from eventlake.collect.budget import Budget
from eventlake.collect.intake import (
    IntakeResult,
    decode_string,
    parse_batch,
    parse_single,
    process_batch,
    process_single,
    replace_lone_surrogates,
)
from eventlake.collect.keys import SourceKeys, parse_basic_user
from eventlake.collect.limits import DEFAULTS, MAX_BODY_BYTES, Limits
from eventlake.collect.metrics import Metrics
from eventlake.collect.mount import Mount
from eventlake.collect.openapi import DESCRIPTION
from eventlake.collect.proxies import TrustedProxies
from eventlake.collect.refusal import Refusal, too_large
from eventlake.collect.request import Headers, Reply, Request
from eventlake.collect.source import Source
from eventlake.collect.stamp import Arrival
from eventlake.model.naming import Call

_CALLS = [call.value for call in Call]
CALLS_BY_PATH = {f"/v1/{call}": call for call in _CALLS} | {
    f"/v1/{call[0]}": call for call in _CALLS
}
BATCH_PATHS = frozenset(("/v1/batch", "/v1/import", "/v1/b"))
_EVENT_PATHS = BATCH_PATHS | CALLS_BY_PATH.keys()
# analytics.js reports its own metrics here, without a key; they are not used.
_OWN_PREFIX = "/v1/"
SDK_METRICS_PATH = "/v1/m"
PIXEL_PREFIX = "/v1/pixel/"
GIF = binascii.unhexlify(
    b"47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)


_SUCCESS = b'{"success":true}'
_PREFLIGHT_HEADERS = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-max-age", b"86400"),
)
_DEFAULT_ALLOWED_HEADERS = b"authorization, content-type, content-encoding, x-retry-count"
_MAX_ALLOWED_HEADERS_BYTES = 4096
_MAX_QUERY_FIELDS = 100

OWN_PATHS = ("/health", "/openapi.json")
"""Paths that a mounted app does not answer; the second describes the tracking API."""
NO_COLLECTOR = "this server does not collect events (--only): send them to one that does"


@dataclass
class App:
    """The tracking API of all sources of a collector.

    A connection calls `check_header` when a request's header is complete, and `answer` when its
    body is.
    """

    keys: SourceKeys
    """May be replaced at any time; a request belongs to the source that its key had."""
    clock: Clock
    limits: Limits = DEFAULTS
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    metrics: Metrics = field(default_factory=Metrics)
    mount: Mount | None = None
    """Answers all paths but `/v1/…` and `OWN_PATHS`, if there is one."""
    collects: bool = True
    """Whether events are accepted at all; if not, clients are asked to send them again later."""

    def __post_init__(self) -> None:
        self.budget = Budget(self.limits)

    def check_header(self, request: Request) -> None:
        """Check the key and the length of a request whose body is not read yet.

        Sets `source` and `stores_body` of a POST of events, and removes slashes at the end of any
        request's path. A key may also come in the body, so it may be missing here. Raises a 401
        `Refusal` for a wrong key, and a 400 one for a body that will be too large.
        """
        request.path = request.path.rstrip("/")
        is_own = request.path.startswith(_OWN_PREFIX) or request.path in OWN_PATHS
        if self.mount and not is_own:
            request.is_mounted = request.stores_body = True
            return
        if not self.collects and request.path.startswith(_OWN_PREFIX):
            raise Refusal(503, "no_collector", NO_COLLECTOR)
        if request.method != "POST" or request.path not in _EVENT_PATHS:
            return
        user = parse_basic_user(request.headers.get(b"authorization", b""))
        if user:
            request.source = self.keys.find(user)
        length = request.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        request.stores_body = True

    async def answer(self, request: Request) -> Reply:
        """Return the reply to a complete request, count it, and release its reservation.

        A `Refusal` becomes its error reply. Any other exception becomes a 500, counted and printed
        to stderr.
        """
        try:
            if request.refusal:
                raise request.refusal
            if self.mount and request.is_mounted:
                reply = await self.mount.answer(request)
            else:
                reply = await self._route(request)
        except Refusal as refusal:
            return self.make_error_reply(refusal, request.source)
        except Exception:
            self.metrics.troubles += 1
            sys.stderr.write(f"warning: a request failed\n{traceback.format_exc()}")
            message = "internal error: this is a bug in EventLake"
            return self.make_error_reply(Refusal(500, "internal_error", message), request.source)
        finally:
            self.budget.release(request)
        self.metrics.responses[reply.status] += 1
        return reply

    def may_mount(self, url: bytes) -> bool:
        """Return whether a request may be for the mounted app, by its URL as it was sent."""
        return self.mount is not None and not url.startswith(b"/v1/")

    def make_error_reply(self, refusal: Refusal, source: Source | None = None) -> Reply:
        """Return the reply to a refused request, and count it for its source, if that is known."""
        self._count_refusal(refusal, source)
        self.metrics.responses[refusal.status] += 1
        error = {"success": False, "code": refusal.code, "message": refusal.message}
        body = msgspec.json.encode(error)
        return Reply(refusal.status, body, headers=refusal.headers, close=refusal.close)

    def _count_refusal(self, refusal: Refusal, source: Source | None) -> None:
        """Count a refusal by its code, for the source or, without one, for the collector."""
        (source.counts if source else self.metrics).rejected[refusal.code] += 1

    async def _route(self, request: Request) -> Reply:
        """Do what a request's method and path ask for, and return the reply.

        Raises a `Refusal`: 404 for an unknown path, 405 for a wrong method, and those of
        `_collect`.
        """
        path, method = request.path, request.method
        if method == "OPTIONS":
            return _answer_preflight(request.headers)
        if path in _EVENT_PATHS:
            _require_method(method, "POST")
            return await self._collect(request)
        if path.startswith(PIXEL_PREFIX) and path.removeprefix(PIXEL_PREFIX) in _CALLS:
            _require_method(method, "GET")
            return await self._collect_pixel(request)
        if path == SDK_METRICS_PATH:
            _require_method(method, "POST")
            return Reply(200, _SUCCESS)
        if path not in ("/health", "/metrics", "/openapi.json"):
            raise Refusal(404, "not_found", "no such path; see /openapi.json")
        _require_method(method, "GET")
        if path == "/metrics":
            text = self.render_metrics().encode()
            return Reply(200, text, b"text/plain; version=0.0.4; charset=utf-8")
        return Reply(200, b'{"status":"ok"}' if path == "/health" else DESCRIPTION)

    def render_metrics(self) -> str:
        """The metrics of the collector and its sources, in the format of Prometheus."""
        sources = {one.name: (one.counts, one.get_gauges()) for one in self.keys.sources}
        return self.metrics.render(sources)

    async def _collect(self, request: Request) -> Reply:
        """Store the events of a request; frees its body and reserves memory for its lines.

        Returns a 200, also if events were rejected, once all are on disk. Raises a `Refusal` for a
        body that cannot be used, a wrong key, overload, or events that cannot be stored.
        """
        body = decode_body(bytes(request.body), request.headers.get(b"content-encoding", b""))
        request.body.clear()
        self.budget.reserve(request, len(body))
        source, result = self._process_body(request, body)
        # A batch's context is repeated in each line, so the lines may be larger than the body.
        self.budget.reserve(request, result.size)
        await _store(source, result, len(body))
        return Reply(200, _SUCCESS)

    def _process_body(self, request: Request, body: bytes) -> tuple[Source, IntakeResult]:
        """Return the source of a batch or an event, by its path, and the lines to store for it.

        Stores nothing. Raises a `Refusal` for a body that cannot be used or a wrong key.
        """
        if request.path in BATCH_PATHS:
            batch = parse_batch(body)
            source = self._find_source(request, decode_string(batch.writeKey))
            arrival = self._make_arrival(request, source)
            return source, process_batch(batch, source.suppressed, arrival)
        return self._process_single(request, body, CALLS_BY_PATH[request.path])

    def _process_single(
        self, request: Request, body: bytes, call: str
    ) -> tuple[Source, IntakeResult]:
        """Return the source of one event, and the line to store for it.

        Its type becomes `call`, whatever the body says. Raises as `_process_body` does.
        """
        head = parse_single(body)
        source = self._find_source(request, head.writeKey)
        head.type = call
        arrival = self._make_arrival(request, source)
        return source, process_single(head, body, source.suppressed, arrival)

    def _find_source(self, request: Request, key: object) -> Source:
        """Return the source of the key in the header, else of `key`, which was in the body.

        Sets the request's source. Raises a 401 `Refusal` if neither is valid.
        """
        if request.source is None:
            source = self.keys.find(key if isinstance(key, str) else None)
            self.budget.set_source(request, source)
            return source
        return request.source

    async def _collect_pixel(self, request: Request) -> Reply:
        """Store the event of a pixel; errors are only counted, as no one would see the reply.

        Always returns a 200 with a GIF.
        """
        try:
            body = _decode_pixel(request.query)
            self.budget.reserve(request, len(body))
            request.headers[b"origin"] = b"pixel"
            call = request.path.removeprefix(PIXEL_PREFIX)
            source, result = self._process_single(request, body, call)
            await _store(source, result, len(body))
        except Refusal as refusal:
            self._count_refusal(refusal, request.source)
        return Reply(200, GIF, b"image/gif", ((b"cache-control", b"no-store"),))

    def _make_arrival(self, request: Request, source: Source) -> Arrival:
        """Return the arrival of a request now; only those of browsers have the client's address.

        A browser's has an `Origin` header, or a body of text/plain.
        """
        headers, received = request.headers, self.clock.time_ns() // 10**6 * 1000
        if b"origin" in headers or headers.get(b"content-type", b"")[:10] == b"text/plain":
            forwarded = headers.get(b"x-forwarded-for", b"")
            address = self.proxies.client_address(request.peer, forwarded)
            return Arrival(received, source.project, address)
        return Arrival(received, source.project)


async def _store(source: Source, result: IntakeResult, body_bytes: int) -> None:
    """Return when all lines, also the rejected ones, are on disk, and count them only then.

    Raises a 503 `Refusal`, and counts nothing, if they cannot be stored; a part may be on disk.
    """
    day, counts = result.arrival.day, source.counts
    if result.rejected:
        await source.rejects.append(day, result.rejected)
    if result.lines:
        await source.events.append(day, result.lines)
    counts.accepted += len(result.lines)
    counts.suppressed += result.suppressed
    counts.rejected += result.reasons
    counts.bytes += body_bytes


def _answer_preflight(headers: Headers) -> Reply:
    """Allow every header that the page asks for, as SDKs add their own; a default if too long."""
    allowed = headers.get(b"access-control-request-headers", _DEFAULT_ALLOWED_HEADERS)
    if len(allowed) > _MAX_ALLOWED_HEADERS_BYTES:
        allowed = _DEFAULT_ALLOWED_HEADERS
    allow_headers = (b"access-control-allow-headers", allowed)
    return Reply(204, b"", headers=(*_PREFLIGHT_HEADERS, allow_headers))


def _require_method(method: str, expected: str) -> None:
    """Raise a 405 `Refusal` if the method is not the expected one."""
    if method != expected:
        raise Refusal(405, "method_not_allowed", f"use {expected} for this path")


def _decode_pixel(query: bytes) -> bytes:
    """Return the bytes of the base64 in the query parameter `data`; b"" without one.

    Accepts both alphabets, with or without padding. Raises a 400 `Refusal` if it is not base64;
    whether it is JSON is not checked.
    """
    try:
        fields = parse_qs(query.decode("latin-1"), max_num_fields=_MAX_QUERY_FIELDS)
        data = fields.get("data", [""])[0]
        coded = data.replace(" ", "-").replace("+", "-").replace("/", "_").rstrip("=")
        return replace_lone_surrogates(urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
    except (binascii.Error, ValueError) as problem:
        raise Refusal(400, "not_base64", "data must be base64 of a JSON object") from problem
