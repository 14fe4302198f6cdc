"""The pages of a source's schedule and settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from eventlake.control.schedule import Schedule
from eventlake.errors import Changed, EventLakeError
from eventlake.model.settings import FIXED, SourceSettings, validate_settings
from eventlake.server.pages.base import (
    MESSAGES,
    AdminPage,
    Form,
    Renderer,
    ViewerPage,
    go,
    read_version,
)
from eventlake.server.pages.forms import Field, list_fields, read_fields
from eventlake.server.pages.sources import SourceView, read_source, render_source
from eventlake.server.requests import Name
from eventlake.server.routes import connections as connection_routes
from eventlake.server.routes import schedules as schedule_routes

router = APIRouter()
_NOT_SHOWN = ("source", "source_id", "workspace", "ledger_folder")
"""What is of the source itself, and what users do not set."""
_WHY_FIXED = "It cannot change while the source has tables: rebuild them with a replay of all."


@router.get("/sources/{source}/schedule")
def show_schedule(page: ViewerPage, source: Name) -> HTMLResponse:
    """Show the schedule of a source and the next times."""
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    rule = view.schedule.schedule if view.schedule else Schedule()
    return _render_schedule(page, view, rule.model_dump(), rule)


@router.post("/sources/{source}/schedule")
def send_schedule(page: AdminPage, source: Name, form: Form) -> Response:
    """Change the schedule, or show the next times that it would have."""
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    entered = read_fields(form, list_fields(Schedule, {}))
    values = {name: value for name, value in entered.items() if value is not None}
    try:
        version, rule = read_version(form), validate_settings(Schedule, values)
        if form.get("preview"):
            return _render_schedule(page, view, values, rule, preview_of=version)
        schedule_routes.change_schedule(
            source, rule, page.caller, version, page.context, Response()
        )
    except EventLakeError as problem:
        old = view.schedule.schedule if view.schedule else Schedule()
        shown = old.model_dump() if isinstance(problem, Changed) else values
        return _render_schedule(page, view, shown, old, problem=problem)
    return go(f"/sources/{source}/schedule", "saved")


@router.get("/sources/{source}/settings")
def show_settings(page: ViewerPage, source: Name) -> HTMLResponse:
    """Show the settings of a source's connection."""
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    return _render_settings(page, view, view.connection.settings if view.connection else {})


@router.post("/sources/{source}/settings")
def send_settings(page: AdminPage, source: Name, form: Form) -> Response:
    """Change the settings of a source's connection."""
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    entered = read_fields(form, _settings_fields(view, {}), "set.")
    before = view.connection.settings if view.connection else {}
    changes = {
        name: value
        for name, value in entered.items()
        if value != before.get(name) and not _is_default(name, value, before)
    }
    try:
        body = validate_settings(connection_routes.ConnectionChange, {"settings": changes})
        version = read_version(form)
        after = connection_routes.update_connection(
            source, body, page.caller, version, page.context, Response()
        )
    except EventLakeError as problem:
        shown = before if isinstance(problem, Changed) else {**before, **entered}
        return _render_settings(page, view, shown, problem=problem)
    if after.notes:
        with page.context.database.read() as session:
            view = read_source(session, page, source)
        notes = (MESSAGES["saved"], *after.notes)
        return _render_settings(page, view, after.settings, notes=notes)
    return go(f"/sources/{source}/settings", "saved")


def _is_default(name: str, value: Any, before: Mapping[str, Any]) -> bool:
    """Whether a value that was not set before is what it is anyway."""
    default = SourceSettings.model_fields[name].default
    shown = list(default) if isinstance(default, tuple) else default
    return name not in before and (value is None or value == shown)


class Slot(NamedTuple):
    """A time of a sync, and a note if the clocks change before it."""

    at: datetime
    change: str


def _render_schedule(
    page: Renderer,
    view: SourceView,
    values: Mapping[str, Any],
    rule: Schedule,
    *,
    preview_of: int | None = None,
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    """Show a schedule; a preview keeps the version that it is a change of, so that it cannot be
    saved over what somebody else has saved meanwhile.
    """
    current = view.schedule.version if view.schedule else 0
    times: tuple[datetime, ...] = ()
    if view.connection:
        source = view.source.slug
        times = schedule_routes.preview_schedule(source, rule, page.caller, page.context, 5).slots
    return render_source(
        page,
        view,
        "schedule.html",
        "Schedule",
        fields=list_fields(Schedule, values),
        slots=_mark_clock_changes(times, rule.zone, page.context.clock.now()),
        is_preview=preview_of is not None,
        version=current if preview_of is None else preview_of,
        problem=problem,
    )


def _mark_clock_changes(times: tuple[datetime, ...], zone: str, now: datetime) -> list[Slot]:
    slots, before = [], now.astimezone(ZoneInfo(zone)).utcoffset()
    for time in times:
        offset = time.astimezone(ZoneInfo(zone)).utcoffset()
        slots.append(Slot(time, "" if offset == before else f"after a clock change in {zone}"))
        before = offset
    return slots


def _settings_fields(view: SourceView, values: Mapping[str, Any]) -> list[Field]:
    has_tables = bool(view.overview.last_success)
    fixed = dict.fromkeys(FIXED, _WHY_FIXED) if has_tables else {}
    return list_fields(SourceSettings, values, leave_out=_NOT_SHOWN, fixed=fixed)


def _render_settings(
    page: Renderer,
    view: SourceView,
    values: Mapping[str, Any],
    *,
    notes: tuple[str, ...] = (),
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    return render_source(
        page,
        view,
        "settings.html",
        "Settings",
        fields=_settings_fields(view, values),
        version=view.connection.version if view.connection else 0,
        notes=notes,
        problem=problem,
    )
