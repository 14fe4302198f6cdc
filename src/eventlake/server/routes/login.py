"""Log in and out, and make the first admin."""

from fastapi import APIRouter, Request, Response

from eventlake.control.audit import Change, record
from eventlake.control.sessions import (
    LIFETIME,
    end_session,
    find_by_password,
    find_session_user,
    log_in,
    start_session,
)
from eventlake.control.users import User, add_first_admin, change_user, end_sessions
from eventlake.errors import InvalidSettings
from eventlake.model.values import FrozenModel
from eventlake.server.access import Anybody, Viewer, cookie_name, make_actor
from eventlake.server.context import Context, ServerContext
from eventlake.server.problems import RequestProblem
from eventlake.server.requests import Text, Word

router = APIRouter(tags=["login"])


class Credentials(FrozenModel):
    """A user's e-mail address and password."""

    email: Word
    password: Text


class PasswordChange(FrozenModel):
    """The caller's current password and the new one."""

    current: Text
    password: Text


class FirstAdmin(FrozenModel):
    """The code of the link that the server printed, and the admin to make."""

    code: Word
    email: Word
    password: Text


@router.post("/session")
def start(
    body: Credentials, address: Anybody, context: Context, request: Request, response: Response
) -> User:
    """Log in: sets the cookie of a new session. Five attempts a minute and address."""
    context.logins.admit(address)
    now = context.clock.now()
    identity = log_in(context.database, body.email, body.password, now)
    user = find_session_user(context.database, identity, now) if identity else None
    if identity is None or user is None:
        raise RequestProblem(401, "NotAuthenticated", "wrong e-mail address or password")
    old = request.cookies.get(cookie_name(context))
    with context.database.write() as session:
        if old:
            end_session(session, old)
        actor = make_actor(request, f"user:{user.email}")
        record(session, actor, Change("session.start", f"user:{user.email}"), now)
    set_cookie(response, context, identity)
    return user


@router.delete("/session", status_code=204)
def end(
    caller: Viewer,
    context: Context,
    request: Request,
    response: Response,
    everywhere: bool = False,
) -> None:
    """Log out: this session ends, or with `everywhere` all sessions of the user."""
    name = cookie_name(context)
    with context.database.write() as session:
        if identity := request.cookies.get(name):
            end_session(session, identity)
        if everywhere and caller.user:
            end_sessions(session, caller.user.id)
        caller.record(session, Change("session.end", caller.actor.name))
    response.delete_cookie(name, secure=context.address.is_https, httponly=True, samesite="lax")


@router.put("/session/password")
def change_password(
    body: PasswordChange, caller: Viewer, context: Context, response: Response
) -> User:
    """Change the caller's own password: all sessions of the user end, and a new one starts.

    Five attempts a minute and address.
    """
    if caller.user is None:
        raise InvalidSettings("only a user has a password: log in")
    context.logins.admit(caller.actor.address)
    email, now = caller.user.email, context.clock.now()
    if find_by_password(context.database, email, body.current) is None:
        raise InvalidSettings("the current password is wrong")
    with context.database.write() as session:
        user = change_user(session, caller.user.id, password=body.password)
        identity = start_session(session, user.id, now)
        caller.record(session, Change("user.password", f"user:{email}", caller.user, user))
    set_cookie(response, context, identity)
    return user


@router.post("/setup", status_code=201)
def set_up(
    body: FirstAdmin, address: Anybody, context: Context, request: Request, response: Response
) -> User:
    """Make the first admin, with the code of the link that the server printed, and log in."""
    user, identity = make_first_admin(context, request, body, address)
    set_cookie(response, context, identity)
    return user


def make_first_admin(
    context: ServerContext, request: Request, body: FirstAdmin, address: str
) -> tuple[User, str]:
    """Make the first admin and start a session; return both. Raises a 403 for a wrong code."""
    context.logins.admit(address)
    now = context.clock.now()
    if context.setup is None or not context.setup.matches(body.code, now):
        raise RequestProblem(
            403, "Forbidden", "the link is wrong or older than 15 minutes: start the server again"
        )
    with context.database.write() as session:
        user = add_first_admin(session, body.email, body.password, now)
        identity = start_session(session, user.id, now)
        actor = make_actor(request, f"user:{user.email}")
        record(session, actor, Change("user.add", f"user:{user.email}", after=user), now)
    context.setup = None
    return user, identity


def set_cookie(response: Response, context: ServerContext, identity: str) -> None:
    """Send the cookie of a session, which scripts cannot read."""
    response.set_cookie(
        cookie_name(context),
        identity,
        max_age=int(LIFETIME.total_seconds()),
        path="/",
        secure=context.address.is_https,
        httponly=True,
        samesite="lax",
    )
