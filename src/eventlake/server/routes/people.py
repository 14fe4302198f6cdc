"""Users, tokens and the audit log."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from eventlake.control.audit import AuditEntry, Change, list_audit
from eventlake.control.database import Session
from eventlake.control.roles import Role, Scope
from eventlake.control.tokens import (
    NewToken,
    Token,
    add_token,
    get_token,
    list_tokens,
    remove_token,
)
from eventlake.control.users import (
    User,
    add_user,
    change_user,
    get_user,
    list_users,
    remove_user,
)
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Caller
from eventlake.server.context import Context, ServerContext
from eventlake.server.requests import After, AfterNumber, Limit, Name, Page, Text, Word, make_page

router = APIRouter(tags=["people"])


class UserToAdd(FrozenModel):
    """A user to add."""

    email: Word
    password: Text
    role: Role = Role.VIEWER


class UserChange(FrozenModel):
    """A user's new role or password; all sessions of the user end."""

    role: Role | None = None
    password: Text | None = None


class TokenToAdd(FrozenModel):
    """A token to add."""

    name: Text
    scope: Scope = Scope.READ
    expires_at: Annotated[datetime, AwareDatetime] | None = None


@router.get("/users")
def show_users(_: Admin, context: Context, after: After = None, limit: Limit = 100) -> Page[User]:
    """List the users by e-mail address."""
    with context.database.read() as session:
        return make_page(list_users(session), lambda one: one.email, after, limit)


@router.post("/users", status_code=201)
def create_user(body: UserToAdd, caller: Admin, context: Context) -> User:
    """Add a user."""
    with context.database.write() as session:
        now = context.clock.now()
        user = add_user(session, body.email, body.password, body.role, now)
        caller.record(session, Change("user.add", f"user:{user.email}", after=user))
    return user


@router.patch("/users/{user}")
def update_user(user: Name, body: UserChange, caller: Admin, context: Context) -> User:
    """Change a user's role or password."""
    with context.database.write() as session:
        before = get_user(session, user)
        after = change_user(session, before.id, role=body.role, password=body.password)
        action = "user.change" if body.password is None else "user.password"
        caller.record(session, Change(action, f"user:{after.email}", before, after))
    return after


@router.delete("/users/{user}", status_code=204)
def delete_user(user: Name, caller: Admin, context: Context) -> None:
    """Remove a user and end the user's sessions."""
    with context.database.write() as session:
        before = get_user(session, user)
        remove_user(session, before.id)
        caller.record(session, Change("user.remove", f"user:{before.email}", before))


@router.get("/tokens")
def show_tokens(_: Admin, context: Context, after: After = None, limit: Limit = 100) -> Page[Token]:
    """List the tokens by id, without their secrets."""
    with context.database.read() as session:
        return make_page(list_tokens(session), lambda one: one.id, after, limit)


@router.post("/tokens", status_code=201)
def create_token(body: TokenToAdd, caller: Admin, context: Context) -> NewToken:
    """Add a token. Its secret is in this reply and cannot be read again."""
    with context.database.write() as session:
        return make_token(session, body, caller, context)


def make_token(
    session: Session, body: TokenToAdd, caller: Caller, context: ServerContext
) -> NewToken:
    """Add a token, with an entry in the audit log."""
    made = add_token(session, body.name, body.scope, context.clock.now(), body.expires_at)
    caller.record(session, Change("token.add", f"token:{made.token.id}", after=made.token))
    return made


@router.delete("/tokens/{token}", status_code=204)
def delete_token(token: Name, caller: Admin, context: Context) -> None:
    """Remove a token: it is refused from now on."""
    with context.database.write() as session:
        before = get_token(session, token)
        remove_token(session, token)
        caller.record(session, Change("token.remove", f"token:{token}", before))


@router.get("/audit")
def show_audit(
    _: Admin,
    context: Context,
    after: AfterNumber = None,
    limit: Limit = 100,
    object_: Annotated[
        str,
        Query(alias="object", pattern=r"^[!-~]{0,300}$", description="Such as `source:web`."),
    ] = "",
) -> Page[AuditEntry]:
    """List changes, newest first; of one object if it is given."""
    with context.database.read() as session:
        found = list_audit(session, before_id=after, limit=limit + 1, object_=object_)
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))
