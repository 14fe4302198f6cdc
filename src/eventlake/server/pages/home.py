"""The first page: every source at a glance, open incidents, and the first steps."""

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from eventlake.control.freshness import Freshness
from eventlake.control.incidents import list_incidents
from eventlake.control.lakes import list_lakes
from eventlake.control.notify.deliveries import count_undelivered
from eventlake.control.overview import SourceOverview, list_overview
from eventlake.control.sources import Source, list_sources
from eventlake.server.pages.base import Renderer, ViewerPage

router = APIRouter()
Badge = tuple[str, str, str]
"""Tone, shape and word of a state."""


class FirstSteps(NamedTuple):
    """How far a new workspace is on its way to the first table."""

    lake: str
    source: str
    curl: str
    events: int
    has_events: bool
    run: int | None
    has_rows: bool


@router.get("/")
def show_home(page: ViewerPage) -> HTMLResponse:
    """Show all sources."""
    with page.context.database.read() as session:
        overviews = list_overview(session, page.context.clock.now())
        incidents = list_incidents(session, is_open=True)
        undelivered = count_undelivered(session)
        lake = next((one.slug for one in list_lakes(session)), "")
        sources = list_sources(session)
    return page.render(
        "home.html",
        sources=overviews,
        words={one.health.source: describe_source(one) for one in overviews},
        incidents=incidents,
        undelivered=undelivered,
        first_steps=_find_first_steps(page, overviews, sources, lake),
    )


def describe_source(one: SourceOverview) -> Badge:
    """The state of a source in a word, a shape and a colour: the first that applies."""
    health = one.health
    states = (
        (health.lake is None, ("warn", "▲", "Not connected")),
        (not health.accepts_events, ("warn", "▲", "Refuses events")),
        (one.is_retrying, ("bad", "✕", "Retrying")),
        (one.active_sync is not None, ("busy", "▶", "Syncing")),
        (health.failures > 0, ("bad", "✕", "Failing")),
        (health.freshness == Freshness.STALE, ("bad", "▲", "Stale")),
        (health.freshness == Freshness.SILENT, ("warn", "▲", "Silent")),
        (health.last_state == "partial", ("warn", "◐", "Partial")),
        (not health.syncs, ("idle", "○", "Syncs off")),
        (one.last_success is None, ("idle", "○", "No sync yet")),
    )
    return next((badge for applies, badge in states if applies), ("good", "●", "Fresh"))


def make_curl(page: Renderer, key: str) -> str:
    """A command that sends an event."""
    url = page.context.address.public_url.rstrip("/") or f"http://{page.request.headers['host']}"
    event = '{"userId":"u1","event":"Order Completed","properties":{"total":19.90}}'
    return f"curl -u {key}: -d '{event}' {url}/v1/track"


def _find_first_steps(
    page: Renderer,
    overviews: Sequence[SourceOverview],
    sources: Sequence[Source],
    lake: str,
) -> FirstSteps | None:
    """The first steps; None once a sync of any source has landed something."""
    if len(overviews) > 1 or any(one.last_success and one.rows_today for one in overviews):
        return None
    if not overviews:
        return FirstSteps(lake, "", "", 0, False, None, False)
    one, source = overviews[0], sources[0]
    if one.health.last_run and one.usual is not None:
        return None
    collected = page.context.read_collected().get(source.slug)
    events = collected.accepted if collected else 0
    curl = make_curl(page, source.write_keys[0]) if source.write_keys else ""
    has_events = bool(events or one.rows_today)
    has_rows = bool(one.rows_today)
    return FirstSteps(lake, source.slug, curl, events, has_events, one.active_sync, has_rows)
