"""The page behind the link that the first start prints: it makes the first admin."""

from html import escape
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from eventlake.errors import EventLakeError
from eventlake.model.settings import validate_settings
from eventlake.server.access import Anybody
from eventlake.server.context import Context
from eventlake.server.problems import describe_error
from eventlake.server.routes.login import FirstAdmin, make_first_admin, set_cookie

router = APIRouter(include_in_schema=False)

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>EventLake: first admin</title></head>
<body><main><h1>Make the first admin</h1>{message}{form}</main></body></html>
"""
_FORM = """\
<form method="post" action="/setup">
<input type="hidden" name="code" value="{code}">
<p><label>E-mail address <input name="email" type="email" required autocomplete="username">
</label></p>
<p><label>Password, 10 characters or more <input name="password" type="password" minlength="10"
 required autocomplete="new-password"></label></p>
<p><button>Make admin</button></p>
</form>
"""


async def _read_form(request: Request) -> dict[str, str]:
    text = (await request.body()).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(text, max_num_fields=10).items()}


@router.get("/setup")
def show_setup(_: Anybody, code: Annotated[str, Query(max_length=100)] = "") -> HTMLResponse:
    """Show the form for the first admin."""
    return HTMLResponse(_render("", code))


@router.post("/setup")
def submit_setup(
    form: Annotated[dict[str, str], Depends(_read_form)],
    address: Anybody,
    context: Context,
    request: Request,
) -> HTMLResponse:
    """Make the first admin, and log in; on an error, show the form again."""
    try:
        body = validate_settings(FirstAdmin, form)
        user, identity = make_first_admin(context, request, body, address)
    except EventLakeError as problem:
        page = _render(f"Not done: {problem}.", form.get("code", ""))
        return HTMLResponse(page, describe_error(problem).status_code)
    page = _PAGE.format(message=f"<p>{escape(user.email)} is an admin, and logged in.</p>", form="")
    reply = HTMLResponse(page, 201)
    set_cookie(reply, context, identity)
    return reply


def _render(message: str, code: str) -> str:
    shown = f'<p role="alert">{escape(message)}</p>' if message else ""
    return _PAGE.format(message=shown, form=_FORM.format(code=escape(code, quote=True)))
