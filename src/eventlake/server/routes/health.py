"""The state of each source: at a glance, its freshness, its days."""

from typing import Annotated

from fastapi import APIRouter, Query

from eventlake.control.audit import Change
from eventlake.control.freshness import Limits, SourceFreshness, read_freshness, set_limits
from eventlake.control.health import SourceHealth, list_health
from eventlake.control.rollups import MAX_DAYS, Daily, read_daily
from eventlake.server.access import Admin, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import After, Limit, Name, Page, make_page

router = APIRouter(tags=["health"])


@router.get("/health")
def show_health(
    _: Viewer, context: Context, after: After = None, limit: Limit = 100
) -> Page[SourceHealth]:
    """List the state of each source, by slug."""
    with context.database.read() as session:
        return make_page(list_health(session), lambda one: one.source, after, limit)


@router.get("/sources/{source}/freshness")
def show_freshness(source: Name, _: Viewer, context: Context) -> SourceFreshness:
    """Show how old the newest rows of a source and its tables are, and what that means."""
    with context.database.read() as session:
        return read_freshness(session, source, context.clock.now())


@router.put("/sources/{source}/freshness")
def change_limits(source: Name, body: Limits, caller: Admin, context: Context) -> SourceFreshness:
    """Set when a source counts as stale or silent; null for the limits of the workspace."""
    with context.database.write() as session:
        before = read_freshness(session, source, context.clock.now())
        set_limits(session, source, body)
        change = Change("freshness.change", f"source:{before.source}", before.limits, body)
        caller.record(session, change)
        return read_freshness(session, source, context.clock.now())


@router.get("/sources/{source}/daily")
def show_daily(
    source: Name,
    _: Viewer,
    context: Context,
    days: Annotated[int, Query(ge=1, le=MAX_DAYS, description="How many days.")] = 30,
    table: Annotated[
        str,
        Query(
            pattern=r"^[!-~]{0,254}$",
            description="Of one table; `*` for each table; without it, of all as one.",
        ),
    ] = "",
) -> Daily:
    """Show what the syncs of a source landed each day, in UTC, newest first."""
    with context.database.read() as session:
        now = context.clock.now()
        return read_daily(session, source, now, days=days, table=None if table == "*" else table)
