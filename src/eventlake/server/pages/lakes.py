"""The pages of lakes: settings made from the models of each kind, with a live check beside them."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.connections import list_connections
from eventlake.control.lakes import RegisteredLake, get_lake, list_lakes
from eventlake.errors import Changed, EventLakeError
from eventlake.lakes.kinds import KINDS, settings_model
from eventlake.model.settings import validate_settings
from eventlake.server.checks import CheckedLake
from eventlake.server.pages.base import (
    AdminPage,
    Form,
    OperatorPage,
    Renderer,
    ViewerPage,
    go,
    once,
    read_version,
)
from eventlake.server.pages.forms import Field, list_fields, read_fields, secret_field
from eventlake.server.requests import Name
from eventlake.server.routes import lakes as routes

router = APIRouter()
_WHY_FIXED = "It cannot change while sources are connected: their tables are there."

Kind = Annotated[str, Query(pattern=r"^[a-z]{0,20}$")]


@router.get("/lakes")
def show_lakes(page: ViewerPage) -> HTMLResponse:
    """Show all lakes, and the kinds that can be added."""
    with page.context.database.read() as session:
        lakes, connections = list_lakes(session), list_connections(session)
    used = {
        lake.slug: [one.source for one in connections if one.lake == lake.slug] for lake in lakes
    }
    return page.render("lakes.html", lakes=lakes, used=used, kinds=list(KINDS))


@router.get("/lakes/new")
def show_new_lake(page: AdminPage, kind: Kind = "local") -> HTMLResponse:
    """Show the form to add a lake of a kind."""
    return _render_new(page, kind, "", {})


@router.post("/lakes/new")
def send_new_lake(page: AdminPage, form: Form) -> Response:
    """Add a lake."""
    kind, slug = form.get("kind", ""), form.get("slug", "").strip()
    entered = read_fields(form, _list_fields(kind, {}, {}), "set.")
    values = {name: value for name, value in entered.items() if value is not None}
    try:
        body = validate_settings(routes.NewLake, {"slug": slug, "kind": kind, "settings": values})
        routes.create_lake(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _render_new(page, kind, slug, values, problem)
    return go(f"/lakes/{slug}", "added")


@router.get("/lakes/{lake}")
def show_lake(page: ViewerPage, lake: Name) -> HTMLResponse:
    """Show the settings of a lake."""
    return _render_lake(page, lake)


@router.post("/lakes/{lake}")
def send_lake(page: AdminPage, lake: Name, form: Form) -> Response:
    """Change the settings and secrets of a lake."""
    with page.context.database.read() as session:
        found = get_lake(session, lake)
    fields = _list_fields(found.kind, {}, found.secrets)
    entered = read_fields(form, fields, "set.")
    changes = {name: value for name, value in entered.items() if value != found.settings.get(name)}
    try:
        body = validate_settings(routes.LakeChange, {"settings": changes})
        version = read_version(form)
        routes.update_lake(lake, body, page.caller, version, page.context, Response())
    except EventLakeError as problem:
        shown = {} if isinstance(problem, Changed) else entered
        return _render_lake(page, lake, values=shown, problem=problem)
    return go(f"/lakes/{found.slug}", "saved")


@router.post("/lakes/{lake}/check")
def send_check(page: OperatorPage, lake: Name) -> HTMLResponse:
    """Check a lake and show all results at once, for browsers without the script."""
    checked = routes.try_lake(lake, page.caller, page.context)
    return _render_lake(page, lake, checked=checked)


def _list_fields(
    kind: str, values: Mapping[str, Any], secrets: Mapping[str, str], fixed: str = ""
) -> list[Field]:
    model = settings_model(kind)
    why = {model.chosen_by: fixed} if fixed else {}
    shown = list_fields(model, values, fixed=why)
    return shown + [secret_field(name, secrets.get(name, "")) for name in model.secrets]


def _render_new(
    page: Renderer,
    kind: str,
    slug: str,
    values: Mapping[str, Any],
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    return page.render(
        "lake_new.html",
        problem,
        kind=kind,
        kinds=list(KINDS),
        slug=slug,
        fields=_list_fields(kind, values, {}),
        checked=None,
    )


def _render_lake(
    page: Renderer,
    slug: str,
    *,
    values: Mapping[str, Any] | None = None,
    checked: CheckedLake | None = None,
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    with page.context.database.read() as session:
        lake: RegisteredLake = get_lake(session, slug)
        used = [one.source for one in list_connections(session) if one.lake == lake.slug]
    shown = {**lake.settings, **(values or {})}
    return page.render(
        "lake.html",
        problem,
        lake=lake,
        used=used,
        fields=_list_fields(lake.kind, shown, lake.secrets, _WHY_FIXED if used else ""),
        checked=checked,
    )
