"""Who calls: by token, by session, or anybody on this machine while nobody has been added."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from eventlake.clock import Clock
from eventlake.control.audit import Actor, Change, record
from eventlake.control.database import Session
from eventlake.control.roles import Role
from eventlake.control.sessions import find_session_user
from eventlake.control.tokens import find_token
from eventlake.control.users import User, has_people
from eventlake.server.context import Context, ServerContext
from eventlake.server.problems import RequestProblem

LOCAL = "local"


@dataclass(frozen=True)
class Caller:
    """Who calls, and what they may do."""

    actor: Actor
    role: Role
    clock: Clock
    user: User | None = None

    def record(self, session: Session, change: Change) -> None:
        """Add a change by this caller to the audit log."""
        record(session, self.actor, change, self.clock.now())


class Needs:
    """A dependency that gives the caller; raises a 401 or 403 problem."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __call__(self, request: Request, context: Context) -> Caller:
        caller = identify(request, context)
        if not caller.role.may(self.role):
            raise RequestProblem(
                403,
                "Forbidden",
                f"this needs the role {self.role}, and {caller.actor.name} is {caller.role}: ask "
                "an admin",
            )
        return caller


class NeedsNobody:
    """Marks a route that anybody may call; it gives the address of the client."""

    def __call__(self, request: Request) -> str:
        return request.client.host if request.client else ""


Viewer = Annotated[Caller, Depends(Needs(Role.VIEWER))]
Operator = Annotated[Caller, Depends(Needs(Role.OPERATOR))]
Admin = Annotated[Caller, Depends(Needs(Role.ADMIN))]
Anybody = Annotated[str, Depends(NeedsNobody())]


def cookie_name(context: ServerContext) -> str:
    """The name of the session's cookie; under https, browsers keep others from setting it."""
    return "__Host-eventlake" if context.address.is_https else "eventlake"


def identify(request: Request, context: ServerContext) -> Caller:
    """Who calls; raises a 401 problem for a wrong token, or without a login where one is needed."""
    now, clock = context.clock.now(), context.clock
    if context.trusted:
        return Caller(make_actor(request, context.trusted), Role.ADMIN, clock)
    if header := request.headers.get("authorization"):
        scheme, _, secret = header.partition(" ")
        token = find_token(context.database, secret, now) if scheme.lower() == "bearer" else None
        if token is None:
            raise _not_authenticated("the token is wrong or has expired")
        return Caller(make_actor(request, f"token:{token.name}"), token.scope.role, clock)
    if identity := request.cookies.get(cookie_name(context)):
        user = find_session_user(context.database, identity, now)
        if user is not None:
            return Caller(make_actor(request, f"user:{user.email}"), user.role, clock, user)
    if is_open(context):
        return Caller(make_actor(request, LOCAL), Role.ADMIN, clock)
    raise _not_authenticated("log in, or send a token as `Authorization: Bearer el_…`")


def is_open(context: ServerContext) -> bool:
    """Return whether no login is needed: on this machine only, until somebody is added."""
    if not context.address.is_local:
        return False
    with context.database.read() as session:
        return not has_people(session)


def make_actor(request: Request, name: str) -> Actor:
    """A person or program, with the client's address and the request's id."""
    address = request.client.host if request.client else ""
    return Actor(name, address, request.scope.get("state", {}).get("request_id", ""))


def _not_authenticated(message: str) -> RequestProblem:
    return RequestProblem(401, "NotAuthenticated", message, www_authenticate="Bearer")
