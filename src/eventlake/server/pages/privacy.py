"""The page of privacy: suppress users, forget users, receipts."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.connections import list_connections
from eventlake.control.lakes import list_lakes
from eventlake.control.roles import Role
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import (
    AdminPage,
    Form,
    Renderer,
    ViewerPage,
    go,
    once,
    read_id,
)
from eventlake.server.requests import Number
from eventlake.server.routes import privacy as routes

router = APIRouter()
PAGE_USERS = 100
PAGE_ERASURES = 50
CONFIRMATION = "forget"

Lake = Annotated[str, Query(pattern=r"^[!-~]{0,254}$")]


class Entered(NamedTuple):
    """What was entered in a form that is refused, so that it can be corrected."""

    suppressed: str = ""
    forgotten: str = ""
    source: str = ""
    also_anonymous: bool = False


@router.get("/privacy")
def show_privacy(
    page: ViewerPage, lake: Lake = "", after: Annotated[str, Query(max_length=1024)] = ""
) -> HTMLResponse:
    """Show the suppressed users of a lake, and the erasures."""
    return _render(page, lake, after)


@router.post("/privacy/suppress")
def send_suppression(page: AdminPage, form: Form) -> Response:
    """Suppress users, or suppress them no more."""
    lake = form.get("lake", "")
    try:
        values = {"users": _read_users(form), "lake": lake}
        body = validate_settings(routes.SuppressionRequest, values)
        act = routes.unsuppress if form.get("remove") else routes.suppress
        act(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _render(page, lake, entered=Entered(form.get("users", "")), problem=problem)
    return go(f"/privacy?lake={lake}", "removed" if form.get("remove") else "suppressed")


@router.post("/privacy/forget")
def send_erasure(page: AdminPage, form: Form) -> Response:
    """Forget users after a typed confirmation, or look for their events."""
    lake, source = form.get("lake", ""), form.get("source", "")
    also_anonymous = bool(form.get("also_anonymous"))
    try:
        if not form.get("dry_run") and form.get("confirm", "").strip() != CONFIRMATION:
            raise InvalidSettings(f"type {CONFIRMATION} to confirm: it cannot be undone")
        values = {
            "users": _read_users(form),
            "lake": lake,
            "source": source,
            "also_anonymous": also_anonymous,
            "dry_run": bool(form.get("dry_run")),
        }
        body = validate_settings(routes.NewErasure, values)
        reply = routes.create_erasure(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        entered = Entered("", form.get("users", ""), source, also_anonymous)
        return _render(page, lake, entered=entered, problem=problem)
    return go(f"/privacy/erasures/{read_id(reply)}", "started")


@router.get("/privacy/erasures/{erasure}")
def show_erasure(page: AdminPage, erasure: Number) -> HTMLResponse:
    """Show an erasure."""
    found = routes.show_erasure(erasure, page.caller, page.context)
    return page.render("erasure.html", erasure=found)


@router.post("/privacy/erasures/{erasure}/cancel")
def send_cancel(page: AdminPage, erasure: Number) -> Response:
    """Cancel the runs of an erasure that have not committed."""
    routes.stop_erasure(erasure, page.caller, page.context)
    return go(f"/privacy/erasures/{erasure}", "cancelled")


def _read_users(form: Form) -> list[str]:
    """One id a line."""
    return [line.strip() for line in form.get("users", "").splitlines() if line.strip()]


def _render(
    page: Renderer,
    lake: str,
    after: str = "",
    entered: Entered = Entered(),  # noqa: B008 - it is frozen
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    """The page of a lake. Of several lakes, none is shown until the reader has chosen it."""
    if not page.caller.role.may(Role.ADMIN):
        return page.render("privacy.html", is_allowed=False)
    with page.context.database.read() as session:
        lakes = [one.slug for one in list_lakes(session)]
        connections = list_connections(session)
    chosen = lake or (lakes[0] if len(lakes) == 1 else "")
    listed = routes.SuppressedPage(lake=chosen, items=(), next=None, hashed=0)
    try:
        if chosen:
            listed = routes.show_suppressions(page.caller, page.context, chosen, after, PAGE_USERS)
    except EventLakeError as error:
        problem = problem or error
    erasures = routes.show_erasures(page.caller, page.context, None, PAGE_ERASURES)
    return page.render(
        "privacy.html",
        problem,
        is_allowed=True,
        lakes=lakes,
        lake=listed.lake,
        sources=[one.source for one in connections if one.lake == listed.lake],
        entered=entered,
        users=listed.items,
        older=listed.next,
        hashed=listed.hashed,
        erasures=erasures.items,
    )
