"""The state of each source at a glance, by one query."""

from datetime import datetime

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.freshness import Freshness
from eventlake.control.incidents import SYNC
from eventlake.control.monitor_tables import freshness
from eventlake.control.tables import connections, incidents, lakes, runs, schedules, sources
from eventlake.model.values import FrozenModel


class SourceHealth(FrozenModel):
    """Whether a source's events are accepted and synced, and how its last run went."""

    source: str
    lake: str | None
    """None if it is not connected."""
    accepts_events: bool
    syncs: bool
    """Whether its schedule is enabled."""
    next_sync: datetime | None
    last_run: int | None
    last_state: str | None
    last_start: datetime | None
    last_error: str | None
    freshness: Freshness | None
    """None before the server has judged it."""
    newest: datetime | None
    """When the newest landed row was received."""
    failures: int
    """Syncs that failed in a row."""


def list_health(session: Session) -> list[SourceHealth]:
    """The state of all sources."""
    newest = (
        sa.select(sa.func.max(runs.c.id))
        .where(runs.c.source_id == sources.c.id)
        .correlate(sources)
        .scalar_subquery()
    )
    rows = session.execute(
        sa.select(
            sources.c.slug.label("source"),
            lakes.c.slug.label("lake"),
            sa.and_(sources.c.enabled, lakes.c.id.is_not(None)).label("accepts_events"),
            schedules.c.enabled_at.is_not(None).label("syncs"),
            schedules.c.next_slot.label("next_sync"),
            runs.c.id.label("last_run"),
            runs.c.state.label("last_state"),
            runs.c.started_at.label("last_start"),
            sa.func.nullif(runs.c.error, "").label("last_error"),
            sa.func.nullif(freshness.c.state, "").label("freshness"),
            freshness.c.newest,
            sa.func.coalesce(incidents.c.failures, 0).label("failures"),
        )
        .outerjoin(connections, connections.c.source_id == sources.c.id)
        .outerjoin(lakes, lakes.c.id == connections.c.lake_id)
        .outerjoin(schedules, schedules.c.source_id == sources.c.id)
        .outerjoin(runs, runs.c.id == newest)
        .outerjoin(
            freshness,
            sa.and_(freshness.c.source_id == sources.c.id, freshness.c.table == ""),
        )
        .outerjoin(
            incidents,
            sa.and_(
                incidents.c.source_id == sources.c.id,
                incidents.c.kind == SYNC,
                incidents.c.closed_at.is_(None),
            ),
        )
        .where(sources.c.removed_at.is_(None))
    )
    return [SourceHealth.model_validate(dict(row._mapping)) for row in rows]
