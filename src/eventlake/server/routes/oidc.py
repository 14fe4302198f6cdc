"""The login with an OpenID provider: to it, and back."""

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from eventlake.control.audit import Change, record
from eventlake.control.oidc_users import admit
from eventlake.control.sessions import start_session
from eventlake.control.vault import SEALED
from eventlake.errors import InvalidSettings, NotFound
from eventlake.server.access import Anybody, make_actor
from eventlake.server.context import Context, ServerContext
from eventlake.server.problems import RequestProblem
from eventlake.server.routes.login import set_cookie

if TYPE_CHECKING:
    from eventlake.server.oidc import OidcProvider

router = APIRouter(include_in_schema=False)


@router.get("/login/oidc")
def go_to_provider(address: Anybody, context: Context, request: Request) -> Response:
    """Send the browser to the OpenID provider."""
    from eventlake.server.oidc import CALLBACK, TIME_TO_LOG_IN  # noqa: PLC0415 - an extra

    provider = _get_provider(context)
    context.logins.admit(address)
    url, attempt = provider.begin(_base_url(context, request) + CALLBACK)
    reply = RedirectResponse(url, 303)
    reply.set_cookie(
        _cookie(context),
        context.vault.store(attempt.model_dump_json()),
        max_age=int(TIME_TO_LOG_IN.total_seconds()),
        secure=context.address.is_https,
        httponly=True,
        samesite="lax",  # it is sent when the provider sends the browser back
    )
    return reply


@router.get("/login/oidc/callback")
def come_back(_: Anybody, context: Context, request: Request) -> Response:
    """Start a session for whom the provider says that the browser's user is."""
    from eventlake.server.oidc import CALLBACK, Attempt  # noqa: PLC0415 - an extra

    provider = _get_provider(context)
    sealed = request.cookies.get(_cookie(context), "")
    try:
        if not sealed.startswith(SEALED):  # else it would name a file of this machine
            raise InvalidSettings("it is not sealed")
        attempt = Attempt.model_validate_json(context.vault.resolve("login", sealed))
    except (InvalidSettings, ValidationError):
        raise RequestProblem(403, "Forbidden", "no login has begun here: try again") from None
    callback = _base_url(context, request) + CALLBACK
    identity, role = provider.finish(callback, attempt, request.query_params)
    now = context.clock.now()
    with context.database.write() as session:
        user = admit(session, identity, role, now)
        if user:
            cookie = start_session(session, user.id, now)
            actor = make_actor(request, f"user:{user.email}")
            record(session, actor, Change("session.start", f"user:{user.email}"), now)
    if user is None:
        settings = provider.settings
        raise RequestProblem(
            403,
            "Forbidden",
            f"{identity.email or identity.subject} has no role here: the claim "
            f"{settings.role_claim} must have one of {', '.join(settings.roles)}",
        )
    reply = RedirectResponse("/", 303)
    reply.delete_cookie(_cookie(context), secure=context.address.is_https, httponly=True)
    set_cookie(reply, context, cookie)
    return reply


def _get_provider(context: ServerContext) -> "OidcProvider":
    if context.oidc is None:
        raise NotFound("no OpenID provider is set up: see docs/up.md")
    return context.oidc


def _cookie(context: ServerContext) -> str:
    return "__Host-eventlake-oidc" if context.address.is_https else "eventlake-oidc"


def _base_url(context: ServerContext, request: Request) -> str:
    """The URL of this server; the guard has checked the name in Host."""
    return context.address.public_url.rstrip("/") or f"http://{request.headers['host']}"
