"""The page of one's own account: change the password, log out everywhere."""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from eventlake.errors import EventLakeError
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import Form, ViewerPage, go
from eventlake.server.routes import login

router = APIRouter()


@router.get("/account")
def show_account(page: ViewerPage) -> HTMLResponse:
    """Show who is logged in, and the forms."""
    return page.render("account.html")


@router.post("/account/password")
def send_password(page: ViewerPage, form: Form) -> Response:
    """Change the password of the caller, whose other sessions end."""
    reply = go("/account", "password-changed")
    try:
        values = {name: form.get(name, "") for name in ("current", "password")}
        body = validate_settings(login.PasswordChange, values)
        login.change_password(body, page.caller, page.context, reply)
    except EventLakeError as problem:
        return page.render("account.html", problem)
    return reply


@router.post("/account/logout")
def send_logout_everywhere(page: ViewerPage) -> RedirectResponse:
    """End all sessions of the caller."""
    reply = go("/login", "logged-out-everywhere")
    login.end(page.caller, page.context, page.request, reply, everywhere=True)
    return reply
