"""Refuses requests of other sites, and adds security headers to every reply.

A page of another site can have a browser send requests here, with cookies, and by a name of its own
that resolves to this machine (DNS rebinding). So the Host header must be a name of this server, and
what browsers say about the origin must be this server.
"""

import secrets
import sys
import traceback
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlake.server.context import ServerContext
from eventlake.server.problems import describe_bug, make_problem

_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_OPEN_PATHS = frozenset(("/ready", "/metrics"))
"""Asked by probes, which use any name for the server."""


class Guard:
    """Wraps the app; every exception that the app does not handle becomes a problem."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        address = context.address
        self._app, self._names = app, address.names
        self._clock, self._metrics = context.clock, context.metrics
        self._headers: Mapping[str, str] = _HEADERS
        if address.is_https:
            self._headers = {**_HEADERS, "strict-transport-security": "max-age=31536000"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        has_started, status, begun = False, 500, self._clock.monotonic()

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started, status
            if message["type"] == "http.response.start":
                has_started, status = True, message["status"]
                headers = MutableHeaders(scope=message)
                headers.setdefault("cache-control", "no-store")
                headers["x-request-id"] = request_id
                headers.update(self._headers)
            await send(message)

        try:
            app = self._refuse(scope) or self._app
            await app(scope, receive, send_with_headers)
        except OSError:
            raise  # the client has gone
        except Exception:
            sys.stderr.write(f"warning: request {request_id} failed\n{traceback.format_exc()}")
            if not has_started:
                await describe_bug(request_id)(scope, receive, send_with_headers)
        finally:
            seconds = self._clock.monotonic() - begun
            self._metrics.count_request(_route_of(scope), status, seconds)

    def _refuse(self, scope: Scope) -> Response | None:
        """The reply to a request that may come from another site; None if it does not."""
        headers = Headers(scope=scope)
        if scope["path"] in _OPEN_PATHS and scope["method"] == "GET":
            return None
        if _host_name(headers.get("host", "")) not in self._names:
            return make_problem(
                421,
                "EventLake.WrongHost",
                "this server has another name: use it, or start the server with --public-url",
            )
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            is_own = site in ("same-origin", "none") or _is_visit(scope, headers)
        else:
            is_own = origin is None or urlsplit(origin).netloc == headers.get("host")
        if is_own:
            return None
        return make_problem(403, "EventLake.CrossSite", "requests of other sites are refused")


def _route_of(scope: Scope) -> str:
    """The pattern of the path that answered; paths themselves would be too many."""
    path: str = getattr(scope.get("route"), "path", "other")
    is_api = scope["path"].startswith("/api/v1/") and not path.startswith("/api/")
    return f"/api/v1{path}" if is_api and path != "other" else path


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """A link on another site to a page here; the API is not for visits."""
    return (
        scope["method"] == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and not scope["path"].startswith("/api/")
    )


def _host_name(host: str) -> str:
    """The name in a Host header, without its port; empty if it is invalid."""
    try:
        return "" if "@" in host else urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
