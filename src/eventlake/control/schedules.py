"""The schedules of sources: change, enable, disable.

Every change considers all slots up to now as done: none is run later for it. A sync takes all that
is new, so what came while the source was disabled lands with its first sync.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.connections import not_connected
from eventlake.control.database import Session, update_version
from eventlake.control.schedule import Schedule, Timetable
from eventlake.control.sources import get_source
from eventlake.control.tables import schedules, sources
from eventlake.model.values import FrozenModel


class SourceSchedule(FrozenModel):
    """The schedule of a source."""

    source: str
    schedule: Schedule
    enabled_at: datetime | None
    """When it was enabled last; None if it is disabled."""
    next_slot: datetime | None
    """When the next sync is due; None if it is disabled or manual."""
    version: int


def get_schedule(session: Session, source: str) -> SourceSchedule:
    """The schedule of a source; raises NotFound for a source without a connection."""
    found = get_source(session, source)
    row = session.execute(sa.select(schedules).where(schedules.c.source_id == found.id)).first()
    if row is None:
        raise not_connected(found.slug)
    return _to_value(found.slug, row)


def list_schedules(session: Session) -> list[SourceSchedule]:
    """The schedules of all sources that are connected, by slug."""
    rows = session.execute(
        sa.select(schedules, sources.c.slug)
        .join(sources, sources.c.id == schedules.c.source_id)
        .where(sources.c.removed_at.is_(None))
        .order_by(sources.c.slug)
    )
    return [_to_value(row.slug, row) for row in rows]


def set_schedule(
    session: Session, source: str, schedule: Schedule, now: datetime, version: int
) -> SourceSchedule:
    """Change when a source is synced; raises Changed if `version` is no longer the schedule's."""
    enabled_at = get_schedule(session, source).enabled_at
    return _store(session, source, schedule, enabled_at, now, version)


def enable(session: Session, source: str, now: datetime) -> SourceSchedule:
    """Sync a source by its schedule from now on; one that is enabled stays as it is."""
    before = get_schedule(session, source)
    if before.enabled_at:
        return before
    return _store(session, source, before.schedule, now, now, before.version)


def disable(session: Session, source: str, now: datetime) -> SourceSchedule:
    """Do not sync a source by its schedule any more; a run that is active goes on."""
    before = get_schedule(session, source)
    return _store(session, source, before.schedule, None, now, before.version)


def _to_value(slug: str, row: sa.Row[Any]) -> SourceSchedule:
    return SourceSchedule(
        source=slug,
        schedule=Schedule.model_validate(row.rule),
        enabled_at=row.enabled_at,
        next_slot=row.next_slot,
        version=row.version,
    )


def _store(
    session: Session,
    source: str,
    schedule: Schedule,
    enabled_at: datetime | None,
    now: datetime,
    version: int,
) -> SourceSchedule:
    identity = get_source(session, source).id
    next_slot = enabled_at and Timetable(schedule, enabled_at, identity).next_slot(now)
    update_version(
        session,
        schedules,
        schedules.c.source_id == identity,
        version,
        rule=schedule.model_dump(mode="json"),
        enabled_at=enabled_at,
        considered_to=now,
        changed_at=now,
        next_slot=next_slot,
    )
    return get_schedule(session, source)
