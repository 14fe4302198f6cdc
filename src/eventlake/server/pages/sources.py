"""The pages of a source: overview, history, keys, schedule, settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.audit import AuditEntry, list_audit
from eventlake.control.connections import Connection, list_connections
from eventlake.control.database import Session
from eventlake.control.history import RunFilter, list_history, list_schema_changes
from eventlake.control.incidents import list_incidents
from eventlake.control.lakes import list_lakes
from eventlake.control.overview import SourceOverview, list_overview
from eventlake.control.rollups import DailyRows, read_daily
from eventlake.control.run_kinds import LANES
from eventlake.control.runs import Run, RunState, get_run
from eventlake.control.schedules import SourceSchedule, get_schedule
from eventlake.control.sources import Source, get_source
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.settings import validate_settings
from eventlake.server.collected import CollectedEvents
from eventlake.server.pages.base import (
    AdminPage,
    Form,
    OperatorPage,
    Renderer,
    ViewerPage,
    go,
    once,
    read_id,
)
from eventlake.server.pages.charts import draw_bars
from eventlake.server.pages.home import Badge, describe_source, make_curl
from eventlake.server.requests import Name
from eventlake.server.routes import connections as connection_routes
from eventlake.server.routes import runs as run_routes
from eventlake.server.routes import schedules as schedule_routes
from eventlake.server.routes import sources as source_routes

router = APIRouter()
DAYS = 30
PAGE_RUNS = 50
MAX_CHANGES = 500
NEW_TABLE = "new_table"

Day = Annotated[str, Query(pattern=r"^(\d{4}-\d\d-\d\d)?$")]
Word = Annotated[str, Query(pattern=r"^[a-z_]{0,20}$")]
After = Annotated[int | None, Query(ge=1, le=2**53)]


class SourceView(NamedTuple):
    """What the head of all pages of a source shows."""

    source: Source
    overview: SourceOverview
    connection: Connection | None
    schedule: SourceSchedule | None
    active: Run | None
    word: Badge


def read_source(session: Session, page: Renderer, slug: str) -> SourceView:
    """A source with its connection, schedule and active sync; raises NotFound."""
    source = get_source(session, slug)
    overviews = list_overview(session, page.context.clock.now())
    overview = next(one for one in overviews if one.health.source == source.slug)
    found = [one for one in list_connections(session) if one.source == source.slug]
    connection = found[0] if found else None
    schedule = get_schedule(session, source.slug) if connection else None
    active = get_run(session, overview.active_sync) if overview.active_sync else None
    word = describe_source(overview)
    return SourceView(source, overview, connection, schedule, active, word)


class TimelineEntry(NamedTuple):
    """A change of settings or schema."""

    at: datetime
    text: str
    by: str
    run: int | None


@router.get("/sources/new")
def show_new_source(page: ViewerPage) -> HTMLResponse:
    """Show the form to add a source."""
    return _render_new(page, {})


@router.post("/sources/new")
def send_new_source(page: AdminPage, form: Form) -> Response:
    """Add a source."""
    names = ("slug", "source_id", "write_key", "lake")
    try:
        values = {name: form.get(name, "").strip() for name in names}
        body = validate_settings(source_routes.NewSource, values)
        source_routes.create_source(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _render_new(page, form, problem)
    has_others = form.get("source_id") or not form.get("lake")
    return go(f"/sources/{body.slug}" if has_others else "/", "added")


@router.get("/sources/{source}")
def show_source(page: ViewerPage, source: Name, day: Day = "") -> HTMLResponse:
    """Show the rows of 30 days, the lag and the last runs."""
    now = page.context.clock.now()
    with page.context.database.read() as session:
        view = read_source(session, page, source)
        days = read_daily(session, source, now, days=DAYS).rows
        by_table = read_daily(session, source, now, days=DAYS, table=None).rows if day else ()
        values = {
            "history": list_history(session, source, limit=5),
            "incidents": list_incidents(session, source, is_open=True),
            "lakes": list_lakes(session),
        }
    counts = {one.day: one for one in days}
    all_days = [f"{now - timedelta(days=n):%Y-%m-%d}" for n in reversed(range(DAYS))]
    bars = [
        (d[5:], counts[d].rows if d in counts else 0, f"/sources/{view.source.slug}?day={d}#day")
        for d in all_days
    ]
    return render_source(
        page,
        view,
        "source.html",
        "Overview",
        chart=draw_bars(bars),
        days=days,
        totals=_sum_days(days, all_days[-1]),
        day=day,
        day_tables=sorted(
            (one for one in by_table if one.day == day and one.table), key=lambda one: -one.rows
        ),
        day_rows=counts[day].rows if day in counts else 0,
        collected=page.context.read_collected().get(view.source.slug, CollectedEvents()),
        next_if_on=_next_if_on(page, view),
        **values,
    )


@router.get("/sources/{source}/history")
def show_history(
    page: ViewerPage,
    source: Name,
    state: Word = "",
    trigger: Word = "",
    kind: Word = "",
    after: After = None,
) -> HTMLResponse:
    """Show the runs of a source, and the changes of its settings and tables."""
    wanted = RunFilter(state=state, trigger=trigger, kind=kind)
    with page.context.database.read() as session:
        view = read_source(session, page, source)
        found = list_history(session, source, wanted, before=after, limit=PAGE_RUNS + 1)
        changes = _read_timeline(session, view.source)
    return render_source(
        page,
        view,
        "history.html",
        "History",
        wanted=wanted,
        states=[one.value for one in RunState],
        kinds=list(LANES),
        history=found[:PAGE_RUNS],
        older=found[PAGE_RUNS - 1].run.id if len(found) > PAGE_RUNS else None,
        paged=after is not None,
        timeline=changes,
    )


@router.get("/sources/{source}/keys")
def show_keys(page: ViewerPage, source: Name) -> HTMLResponse:
    """Show the write keys of a source."""
    return _render_keys(page, source)


@router.post("/sources/{source}/keys")
def send_key(page: AdminPage, source: Name, form: Form) -> Response:
    """Add a write key."""
    try:
        values = {"write_key": form.get("write_key", "").strip()}
        body = validate_settings(source_routes.NewKey, values)
        source_routes.create_key(source, body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _render_keys(page, source, problem)
    return go(f"/sources/{source}/keys", "key-added")


@router.post("/sources/{source}/keys/revoke")
def send_revocation(page: AdminPage, source: Name, form: Form) -> Response:
    """Revoke a write key."""
    source_routes.revoke_key(source, form.get("key", ""), page.caller, page.context)
    return go(f"/sources/{source}/keys", "key-revoked")


@router.post("/sources/{source}/accept")
def send_accept(page: AdminPage, source: Name) -> Response:
    """Have the collector accept the source's events."""
    change = source_routes.SourceChange(enabled=True)
    source_routes.change_source(source, change, page.caller, page.context)
    return go(f"/sources/{source}/keys", "source-on")


@router.post("/sources/{source}/refuse")
def send_refuse(page: AdminPage, source: Name) -> Response:
    """Have the collector refuse the source's events."""
    change = source_routes.SourceChange(enabled=False)
    source_routes.change_source(source, change, page.caller, page.context)
    return go(f"/sources/{source}/keys", "source-off")


@router.post("/sources/{source}/enable")
def send_enable(page: OperatorPage, source: Name) -> Response:
    """Turn scheduled syncs on."""
    source_routes.enable_syncs(source, page.caller, page.context)
    return go(f"/sources/{source}", "enabled")


@router.post("/sources/{source}/disable")
def send_disable(page: OperatorPage, source: Name) -> Response:
    """Turn scheduled syncs off."""
    source_routes.disable_syncs(source, page.caller, page.context)
    return go(f"/sources/{source}", "disabled")


@router.post("/sources/{source}/connect")
def send_connection(page: AdminPage, source: Name, form: Form) -> Response:
    """Connect a source to a lake."""
    values = {"source": source, "lake": form.get("lake", "")}
    body = validate_settings(connection_routes.NewConnection, values)
    connection_routes.create_connection(body, page.caller, page.context, once(page.request))
    return go(f"/sources/{source}", "connected")


@router.post("/sources/{source}/sync")
def send_sync(page: OperatorPage, source: Name) -> Response:
    """Sync a source now and go to the run; a sync that is active already is shown instead."""
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    if view.active is None:
        body = run_routes.NewRun(source=source)
        reply = run_routes.start_run(body, page.caller, page.context, once(page.request))
        return go(f"/runs/{read_id(reply)}", "started")
    return go(f"/runs/{view.active.id}")


@router.post("/sources/{source}/remove")
def send_removal(page: AdminPage, source: Name, form: Form) -> Response:
    """Remove a source whose name was typed."""
    if form.get("confirm", "").strip() != source:
        raise InvalidSettings(f"type {source} to confirm that the source is removed")
    source_routes.delete_source(source, page.caller, page.context)
    return go("/", "removed")


def render_source(
    page: Renderer, view: SourceView, template: str, tab: str, **values: Any
) -> HTMLResponse:
    problem = values.pop("problem", None)
    shared = {**view._asdict(), "tab": tab, **values}
    return page.render(template, problem, **shared)


def _render_new(
    page: Renderer,
    form: Mapping[str, str],
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    with page.context.database.read() as session:
        lakes = list_lakes(session)
    names = ("slug", "lake", "source_id", "write_key")
    shown = {name: form.get(name, "") for name in names}
    return page.render("source_new.html", problem, lakes=lakes, form=shown)


def _render_keys(
    page: Renderer,
    source: str,
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    key = view.source.write_keys[0] if view.source.write_keys else ""
    curl = make_curl(page, key)
    return render_source(page, view, "keys.html", "Keys", curl=curl, problem=problem)


def _next_if_on(page: Renderer, view: SourceView) -> datetime | None:
    if view.schedule is None or view.schedule.enabled_at:
        return None
    rule = view.schedule.schedule
    slots = schedule_routes.preview_schedule(
        view.source.slug, rule, page.caller, page.context, 1
    ).slots
    return slots[0] if slots else None


def _sum_days(days: Sequence[DailyRows], today: str) -> dict[str, int]:
    total = Counter[str]()
    for one in days:
        total["all"] += one.rows
        total["today"] += one.rows if one.day == today else 0
        total["duplicates"] += one.duplicates
        total["quarantined"] += one.quarantined
    return {name: total[name] for name in ("all", "today", "duplicates", "quarantined")}


def _read_timeline(session: Session, source: Source) -> list[TimelineEntry]:
    """The last changes of a source's settings and of its tables, newest first.

    The new tables of a run are one entry: those of the first sync would push out all others.
    """
    entries: list[AuditEntry] = []
    for kind in ("source", "connection"):
        name = f"{kind}:{source.slug}"
        entries += list_audit(session, before_id=None, limit=20, object_=name)
    found = [TimelineEntry(one.at, _describe_change(one), one.actor, None) for one in entries]
    changes = list_schema_changes(session, source.slug, limit=MAX_CHANGES)
    new_tables: dict[int | None, list[str]] = {}
    for change in changes:
        if change.change == NEW_TABLE:
            new_tables.setdefault(change.run_id, []).append(change.table)
    for change in changes:
        if change.change != NEW_TABLE:
            column = f".{change.column} {change.type}" if change.column else ""
            text = f"{change.change.replace('_', ' ')} {change.table}{column}"
        elif names := new_tables.pop(change.run_id, []):
            text = f"new table{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}"
        else:
            continue  # it is in the entry of its run
        found.append(TimelineEntry(change.created_at, _short(text, 400), "", change.run_id))
    return sorted(found, key=lambda one: one.at, reverse=True)[:50]


def _describe_change(entry: AuditEntry) -> str:
    """An entry of the audit log with the fields that changed."""
    before, after = (one if isinstance(one, dict) else {} for one in (entry.before, entry.after))
    left_out = {"version", "resolved", "notes", "next_slot", "enabled_at"}
    changed = [
        f"{name}: {_short(before[name])} → {_short(after[name])}"
        for name in before
        if name in after and before[name] != after[name] and name not in left_out
    ]
    return entry.action + (f" ({'; '.join(changed)})" if changed else "")


def _short(value: Any, most: int = 100) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 3]}…"
