"""Log in and out, make the first admin, and switch the theme."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from eventlake.errors import EventLakeError
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import (
    THEME_COOKIE,
    Form,
    OpenPage,
    Renderer,
    ViewerPage,
    find_page_left,
    go,
)
from eventlake.server.routes import login

router = APIRouter()
YEAR = 365 * 86400


@router.get("/login")
def show_login(
    page: OpenPage,
    next: Annotated[str, Query(max_length=2000)] = "/",  # noqa: A002
) -> HTMLResponse:
    """Show the form to log in."""
    return page.render("login.html", next=_own_path(next), email="", oidc=_oidc_path(page))


@router.post("/login")
def send_login(page: OpenPage, form: Form) -> Response:
    """Log in and go on to the page that was asked for; on an error, show the form again."""
    target = _own_path(form.get("next", "/"))
    reply = go(target)
    try:
        wanted = {name: form.get(name, "") for name in ("email", "password")}
        body = validate_settings(login.Credentials, wanted)
        login.start(body, page.address, page.context, page.request, reply)
    except EventLakeError as problem:
        values = {"next": target, "email": form.get("email", ""), "oidc": _oidc_path(page)}
        return page.render("login.html", problem, **values)
    return reply


@router.post("/logout")
def send_logout(page: ViewerPage) -> RedirectResponse:
    """Log out."""
    reply = go("/login", "logged-out")
    login.end(page.caller, page.context, page.request, reply)
    return reply


@router.get("/setup")
def show_setup(page: OpenPage, code: Annotated[str, Query(max_length=100)] = "") -> HTMLResponse:
    """Show the form for the first admin."""
    return page.render("setup.html", code=code, email="")


@router.post("/setup")
def send_setup(page: OpenPage, form: Form) -> Response:
    """Make the first admin, and log in; on an error, show the form again."""
    reply = go("/")
    try:
        body = validate_settings(login.FirstAdmin, form)
        login.set_up(body, page.address, page.context, page.request, reply)
    except EventLakeError as problem:
        values = {"code": form.get("code", ""), "email": form.get("email", "")}
        return page.render("setup.html", problem, **values)
    return reply


@router.post("/theme")
def switch_theme(page: OpenPage) -> RedirectResponse:
    """Switch between light and dark without the script; the first switch is to dark."""
    reply = go(_own_path(find_page_left(page.request)))
    theme = "light" if page.theme == "dark" else "dark"
    reply.set_cookie(THEME_COOKIE, theme, max_age=YEAR, samesite="lax")
    return reply


def _oidc_path(page: Renderer) -> str:
    """Where the login with an OpenID provider begins; empty without one."""
    return "/login/oidc" if page.context.oidc else ""


def _own_path(target: str) -> str:
    """A path of this server; `//host` would be another."""
    is_own = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if is_own and target.isprintable() else "/"
