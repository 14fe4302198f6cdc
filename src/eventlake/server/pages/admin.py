"""The pages of admins: people, tokens, the audit log, and the server."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from secrets import token_hex
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.audit import list_audit
from eventlake.control.database import Session
from eventlake.control.replicas import list_replicas
from eventlake.control.roles import Role, Scope
from eventlake.control.tokens import Token, list_tokens
from eventlake.control.users import list_users
from eventlake.control.workspace import get_workspace
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import AdminPage, Form, Renderer, ViewerPage, go
from eventlake.server.pages.sources import After
from eventlake.server.requests import Name, Once
from eventlake.server.routes import people

router = APIRouter()
PAGE_ENTRIES = 100
MAX_DAYS = 3650


@router.get("/admin")
def show_people(page: ViewerPage) -> HTMLResponse:
    """Show the users."""
    return _render_people(page)


@router.post("/admin/users")
def send_user(page: AdminPage, form: Form) -> Response:
    """Add a user."""
    try:
        body = validate_settings(people.UserToAdd, form)
        people.create_user(body, page.caller, page.context)
    except EventLakeError as problem:
        return _render_people(page, problem, form.get("email", ""))
    return go("/admin", "added")


@router.post("/admin/users/{user}/role")
def send_role(page: AdminPage, user: Name, form: Form) -> Response:
    """Change a user's role."""
    try:
        body = validate_settings(people.UserChange, {"role": form.get("role", "")})
        people.update_user(user, body, page.caller, page.context)
    except EventLakeError as problem:
        return _render_people(page, problem)
    return go("/admin", "saved")


@router.post("/admin/users/{user}/remove")
def send_user_removal(page: AdminPage, user: Name) -> Response:
    """Remove a user."""
    try:
        people.delete_user(user, page.caller, page.context)
    except EventLakeError as problem:
        return _render_people(page, problem)
    return go("/admin", "removed")


@router.get("/admin/tokens")
def show_tokens(page: ViewerPage) -> HTMLResponse:
    """Show the tokens."""
    return _render_tokens(page)


@router.post("/admin/tokens")
def send_token(page: AdminPage, form: Form) -> Response:
    """Add a token, and show its secret once; a form that is sent again adds no second one."""
    try:
        days = _parse_days(form.get("days", "").strip())
        until = page.context.clock.now() + timedelta(days=days) if days else None
        values = {"name": form.get("name", ""), "scope": form.get("scope", ""), "expires_at": until}
        body = validate_settings(people.TokenToAdd, values)
        secret = _add_token_once(page, body, form)
    except EventLakeError as problem:
        return _render_tokens(page, problem=problem, form=form)
    return _render_tokens(page, secret=secret) if secret else go("/admin/tokens", "token-there")


@router.post("/admin/tokens/{token}/remove")
def send_token_removal(page: AdminPage, token: Name) -> Response:
    """Remove a token."""
    people.delete_token(token, page.caller, page.context)
    return go("/admin/tokens", "removed")


@router.get("/admin/audit")
def show_audit(
    page: ViewerPage, of: Annotated[str, Query(max_length=300)] = "", after: After = None
) -> HTMLResponse:
    """Show the audit log."""
    if not page.caller.role.may(Role.ADMIN):
        return page.render("admin_audit.html", entries=[], of=of, older=None, paged=False)
    with page.context.database.read() as session:
        found = list_audit(session, before_id=after, limit=PAGE_ENTRIES + 1, object_=of)
    older = found[PAGE_ENTRIES - 1].id if len(found) > PAGE_ENTRIES else None
    return page.render(
        "admin_audit.html",
        entries=found[:PAGE_ENTRIES],
        of=of,
        older=older,
        paged=after is not None,
    )


@router.get("/admin/server")
def show_server(page: ViewerPage) -> HTMLResponse:
    """Show the workspace and the servers."""
    with page.context.database.read() as session:
        workspace = get_workspace(session)
        replicas = list_replicas(page.context.database, session)
    return page.render("admin_server.html", workspace=workspace, replicas=replicas)


def _render_people(
    page: Renderer,
    problem: EventLakeError | None = None,
    email: str = "",
) -> HTMLResponse:
    users: Any = []
    if page.caller.role.may(Role.ADMIN):
        with page.context.database.read() as session:
            users = list_users(session)
    values = {"users": users, "roles": list(Role), "email": email}
    return page.render("admin_people.html", problem, **values)


def _parse_days(text: str) -> int:
    """The days that a token is valid; 0 for ever. Raises InvalidSettings."""
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if text and not 1 <= days <= MAX_DAYS:
        raise InvalidSettings(
            f"valid for days is {text!r}: write a whole number from 1 to {MAX_DAYS}, or nothing "
            "for a token that does not expire"
        )
    return days


def _add_token_once(page: Renderer, body: people.TokenToAdd, form: Mapping[str, str]) -> str:
    """Add a token and return its secret; an empty text if the same form has added it before.

    The stored answer is the token without its secret. All fields are in the key, so that a form
    that is changed and sent again adds another token.
    """
    secret = ""
    key = sha256(urlencode(form).encode()).hexdigest() if form.get("form") else None

    def act(session: Session) -> Token:
        nonlocal secret
        made = people.make_token(session, body, page.caller, page.context)
        secret = made.secret
        return made.token

    Once(page.request, b"", key).act(page.context, page.caller, act)
    return secret


def _render_tokens(
    page: Renderer,
    *,
    secret: str = "",
    problem: EventLakeError | None = None,
    form: Mapping[str, str] | None = None,
) -> HTMLResponse:
    tokens: Any = []
    if page.caller.role.may(Role.ADMIN):
        with page.context.database.read() as session:
            tokens = list_tokens(session)
    shown = {name: (form or {"days": "90"}).get(name, "") for name in ("name", "scope", "days")}
    values = {"tokens": tokens, "scopes": list(Scope), "secret": secret, "form": shown}
    values["form_id"] = token_hex(16)
    return page.render("admin_tokens.html", problem, **values)
