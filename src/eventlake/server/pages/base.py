"""What all pages share: rendering, forms, redirects, and pages for errors."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Depends, FastAPI, Request, Response
from fastapi.datastructures import URL
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from eventlake.control.roles import Role
from eventlake.errors import EventLakeError, InvalidSettings, SourceBusy
from eventlake.server.access import Caller, Needs, identify
from eventlake.server.context import Context, ServerContext
from eventlake.server.pages import formats
from eventlake.server.pages.run_texts import describe_ending
from eventlake.server.problems import describe_error
from eventlake.server.requests import Once

STATIC = Path(__file__).parent / "static"
FILES = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir())}
STAMP = sha256(b"".join(FILES.values())).hexdigest()[:12]
"""In the addresses of static files, so that browsers may keep them for ever."""
ZONE_COOKIE, THEME_COOKIE = "zone", "theme"
MAX_FIELDS = 500

MESSAGES = {
    "added": "Added.",
    "cancelled": "The run was asked to stop.",
    "connected": "Connected.",
    "disabled": "Scheduled syncs are off. Events are still accepted and archived.",
    "enabled": "Scheduled syncs are on.",
    "key-added": "A write key was added. The collector accepts it within a second.",
    "key-revoked": "The key was revoked. The collector refuses it within a second.",
    "logged-out": "You are logged out.",
    "logged-out-early": "Nothing was sent: your session has ended. Log in, then send it again.",
    "logged-out-everywhere": "You are logged out, on all devices.",
    "password-changed": "The password was changed. Your other sessions have ended.",
    "redelivered": "It is sent again.",
    "removed": "Removed.",
    "replaced": "Saved in place of your earlier query of this name.",
    "saved": "Saved.",
    "skipped": "Switched off: from the next sync on, its events are counted but not stored.",
    "landing": "Switched on: its events land from the next sync on. A replay lands older ones.",
    "source-off": "The collector refuses this source's events now.",
    "source-on": "The collector accepts this source's events.",
    "started": "The run is queued.",
    "token-there": "The token was added before. Its secret was shown then, and cannot be again.",
    "suppressed": "Suppressed. Collectors refuse their events within a second.",
}
"""What a page says after a form was sent, by the word in its address."""


def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("eventlake.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "size", "share", "duration", "pretty", "micros"):
        environment.filters[name] = getattr(formats, name)
    environment.filters["path"] = lambda text: quote(str(text), safe="")
    environment.globals.update(
        look=formats.state_look,
        ending=describe_ending,
        stamp=STAMP,
        product=version("eventlake"),
        Role=Role,
    )
    return environment


ENVIRONMENT = _make_environment()


@dataclass(frozen=True)
class Renderer:
    """Renders templates for one request."""

    request: Request
    context: ServerContext
    known_caller: Caller | None = None
    """None on pages that need no login."""
    values: dict[str, Any] = field(default_factory=dict)
    """Values for all templates of the request."""

    @property
    def caller(self) -> Caller:
        """Who looks at a page that needs a role."""
        if self.known_caller is None:
            raise TypeError("this page needs no login")
        return self.known_caller

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.request.client.host if self.request.client else ""

    @property
    def zone(self) -> str:
        """The reader's time zone, which the script has stored in a cookie."""
        name = self.request.cookies.get(ZONE_COOKIE, "UTC").replace("%2F", "/")
        try:
            return name if len(name) < 64 and ZoneInfo(name) else "UTC"
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return "UTC"

    @property
    def theme(self) -> str:
        theme = self.request.cookies.get(THEME_COOKIE, "")
        return theme if theme in ("light", "dark") else ""

    def render(
        self, template: str, problem: EventLakeError | None = None, **values: Any
    ) -> HTMLResponse:
        """The page of a template; with the status and the message of a problem if there is one."""
        caller = self.known_caller
        now, zone = self.context.clock.now(), self.zone
        shared = {
            "request": self.request,
            "caller": caller,
            "may": caller.role.may if caller else lambda _: False,
            "zone": zone,
            "theme": self.theme,
            "now": now,
            "when": lambda moment: formats.local_time(moment, zone, now),
            "ago": lambda moment: formats.ago(moment, now),
            "message": MESSAGES.get(self.request.query_params.get("done", ""), ""),
            "error": " ".join(str(problem or "").split()),
            "busy_run": problem.run if isinstance(problem, SourceBusy) else None,
            "link": self._link,
        }
        text = ENVIRONMENT.get_template(template).render({**shared, **self.values, **values})
        return HTMLResponse(text, describe_error(problem).status_code if problem else 200)

    def _link(self, **changes: Any) -> str:
        """This page's address with other parameters; None removes one."""
        kept = {k: v for k, v in self.request.query_params.items() if k != "done"}
        merged = {k: v for k, v in {**kept, **changes}.items() if v not in (None, "")}
        return f"{self.request.url.path}?{urlencode(merged)}" if merged else self.request.url.path


class PageFor:
    """A dependency that gives a renderer to callers with a role, or to anybody."""

    def __init__(self, role: Role | None) -> None:
        self.role = role

    def __call__(self, request: Request, context: Context) -> Renderer:
        caller = Needs(self.role)(request, context) if self.role else None
        return Renderer(request, context, caller)


OpenPage = Annotated[Renderer, Depends(PageFor(None))]
ViewerPage = Annotated[Renderer, Depends(PageFor(Role.VIEWER))]
OperatorPage = Annotated[Renderer, Depends(PageFor(Role.OPERATOR))]
AdminPage = Annotated[Renderer, Depends(PageFor(Role.ADMIN))]


async def _read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of several values with one name, the last."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InvalidSettings(f"a form has at most {MAX_FIELDS} fields") from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


Form = Annotated[dict[str, str], Depends(_read_form)]


def go(path: str, done: str = "") -> RedirectResponse:
    """Send the browser to a page after a form, where it may say what was done."""
    mark = "&" if "?" in path else "?"
    return RedirectResponse(f"{path}{mark}done={done}" if done else path, 303)


def once(request: Request) -> Once:
    """For functions of the API that take an idempotency key: forms have none."""
    return Once(request, b"", None)


def read_id(reply: Response) -> int:
    """The id of what a function of the API has made."""
    return int(json.loads(bytes(reply.body))["id"])


def drop_empty(form: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The fields of a form with these names that are not empty."""
    return {name: form[name] for name in names if form.get(name)}


def add_handlers(app: FastAPI) -> None:
    """Have the app answer with pages where it raises."""

    @app.exception_handler(EventLakeError)
    def _handle_error(request: Request, problem: EventLakeError) -> Response:
        status = describe_error(problem).status_code
        if status == 401:
            return _ask_to_log_in(request)
        run = problem.run if isinstance(problem, SourceBusy) else None
        detail = " ".join(str(problem).split())
        return _show_problem(request, status, detail, problem.code, run)

    @app.exception_handler(Exception)  # it is raised again after the reply
    def _handle_bug(request: Request, _: Exception) -> Response:
        number = request.scope["state"].get("request_id", "")
        detail = f"this is a bug in EventLake; the server's log has it as request {number}"
        return _show_problem(request, 500, detail, "EventLake.Internal")

    @app.exception_handler(RequestValidationError)
    def _handle_invalid(request: Request, problem: RequestValidationError) -> Response:
        fields = ", ".join(str(one["loc"][-1]) for one in problem.errors())
        return _show_problem(request, 422, f"the address of the page is wrong: {fields}")

    @app.exception_handler(HTTPException)
    def _handle_http(request: Request, problem: HTTPException) -> Response:
        detail = "there is no such page" if problem.status_code == 404 else problem.detail
        return _show_problem(request, problem.status_code, detail)


def _ask_to_log_in(request: Request) -> Response:
    """Lead to the form to log in, and from there to the page that was asked for or left."""
    if request.method == "GET":
        return RedirectResponse(f"/login?{urlencode({'next': _path_and_query(request.url)})}", 303)
    query = {"next": find_page_left(request), "done": "logged-out-early"}
    return RedirectResponse(f"/login?{urlencode(query)}", 303)


def find_page_left(request: Request) -> str:
    """The path of the page that a form was sent from; the first page if it is not known."""
    with suppress(ValueError):  # not an address
        return _path_and_query(URL(request.headers.get("referer", "/")))
    return "/"


def _path_and_query(url: URL) -> str:
    return url.path + (f"?{url.query}" if url.query else "")


def read_version(form: Mapping[str, str]) -> int:
    """The version that a form is a change of; raises InvalidSettings."""
    text = form.get("version", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidSettings(f"version is {text!r}: load the page again")
    return int(text)


def _show_problem(
    request: Request, status: int, detail: str, code: str = "", busy_run: int | None = None
) -> Response:
    titles = {403: "Not allowed", 404: "Not found", 409: "Not now", 503: "Not available"}
    title = titles.get(status, "This did not work")
    context: ServerContext = request.app.state.context
    page = Renderer(request, context)
    with suppress(EventLakeError):
        page = Renderer(request, context, identify(request, context))
    reply = page.render("problem.html", title=title, detail=detail, code=code, busy_run=busy_run)
    reply.status_code = status
    return reply
