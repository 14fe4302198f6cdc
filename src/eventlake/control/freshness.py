"""Freshness: how old the newest landed row of a source and of its tables is, and what that means.

It is judged apart from runs: a server that schedules nothing has no failures either.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import sqlalchemy as sa
from pydantic import Field

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.monitor_tables import freshness, settings
from eventlake.control.preferences import Preferences, read_preferences
from eventlake.control.schedule import Schedule, Timetable
from eventlake.control.sources import get_source
from eventlake.control.tables import schedules, sources
from eventlake.model.values import FrozenModel

LEAST_GRACE, MOST_GRACE = timedelta(minutes=15), timedelta(hours=2)
"""The bounds of how late a sync may succeed, unless a setting says it."""
_KEY = "freshness/"


class Freshness(StrEnum):
    """Whether a source's tables have what they should."""

    FRESH = "fresh"
    STALE = "stale"
    """No sync has succeeded although one was due."""
    SILENT = "silent"
    """Syncs succeed, and no event was received for a long time."""
    NEVER = "never"
    """Nothing has landed yet."""


class Limits(FrozenModel):
    """A source's own limits; None for those of the workspace."""

    late_after_seconds: Annotated[int, Field(ge=60, le=31 * 86400)] | None = None
    silent_after_seconds: Annotated[int, Field(ge=0, le=366 * 86400)] | None = None


class TableFreshness(FrozenModel):
    """A table's newest row."""

    table: str
    newest: datetime | None
    """When it was received."""
    age_seconds: float | None
    state: Freshness


class SourceFreshness(FrozenModel):
    """A source's state, its newest row, and its tables."""

    source: str
    state: Freshness
    since: datetime | None
    """Since when it is in this state, as far as it was judged."""
    newest: datetime | None
    age_seconds: float | None
    last_success: datetime | None
    """When a sync succeeded last."""
    due: datetime | None
    """The slot that the next success is for; None without a schedule."""
    limits: Limits
    tables: tuple[TableFreshness, ...] = ()


class Facts(NamedTuple):
    """What a source is judged by."""

    source_id: str
    slug: str
    state: Freshness | None
    """As it was judged last."""
    since: datetime | None
    newest: datetime | None
    succeeded_at: datetime | None
    timetable: Timetable | None
    """None if no sync is scheduled."""
    is_enabled: bool
    changed_at: datetime | None
    """When the schedule was changed last."""
    limits: Limits

    @property
    def due(self) -> datetime | None:
        """The first slot for which no sync has succeeded; it may be in the future."""
        if self.timetable is None:
            return None
        known = (self.succeeded_at, self.timetable.enabled_at, self.changed_at)
        return self.timetable.next_slot(max(filter(None, known)))


def judge(
    facts: Facts, general: Preferences, now: datetime, up_since: datetime | None
) -> Freshness:
    """The state of a source.

    `up_since` is when the server came back after it was away: what was due meanwhile gets its time
    from then on.
    """
    if due := facts.due:
        start = max(due, up_since) if up_since else due
        if now > start + find_grace(facts, general, due):
            return Freshness.STALE
    return judge_age(facts.newest, silent_after(facts.limits, general), now)


def judge_age(newest: datetime | None, after: timedelta, now: datetime) -> Freshness:
    """The state by the age of the newest row alone."""
    if newest is None:
        return Freshness.NEVER
    return Freshness.SILENT if after and now - newest > after else Freshness.FRESH


def find_grace(facts: Facts, general: Preferences, due: datetime) -> timedelta:
    """How long after its slot a sync may succeed: by default as long as slots are apart."""
    seconds = facts.limits.late_after_seconds or general.late_after_seconds
    if seconds:
        return timedelta(seconds=seconds)
    following = facts.timetable.next_slot(due) if facts.timetable else None
    apart = following - due if following else MOST_GRACE
    return min(max(apart, LEAST_GRACE), MOST_GRACE)


def silent_after(limits: Limits, general: Preferences) -> timedelta:
    """The age of the newest row at which a source is silent; zero for never."""
    own = limits.silent_after_seconds
    return timedelta(seconds=general.silent_after_seconds if own is None else own)


def read_freshness(session: Session, source: str, now: datetime) -> SourceFreshness:
    """The freshness of a source and of each of its tables."""
    found = get_source(session, source)
    [facts] = read_facts(session, found.id)
    general = read_preferences(session)
    state = facts.state or judge_age(facts.newest, silent_after(facts.limits, general), now)
    query = sa.select(freshness).where(freshness.c.source_id == found.id, freshness.c.table != "")
    after = silent_after(facts.limits, general)
    tables = [
        TableFreshness(
            table=row.table,
            newest=row.newest,
            age_seconds=_age(row.newest, now),
            state=state if state is Freshness.STALE else judge_age(row.newest, after, now),
        )
        for row in session.execute(query.order_by(freshness.c.table))
    ]
    return SourceFreshness(
        source=found.slug,
        state=state,
        since=facts.since,
        newest=facts.newest,
        age_seconds=_age(facts.newest, now),
        last_success=facts.succeeded_at,
        due=facts.due,
        limits=facts.limits,
        tables=tuple(tables),
    )


def set_limits(session: Session, source: str, limits: Limits) -> None:
    """Set a source's own limits."""
    key = _KEY + get_source(session, source).id
    value = limits.model_dump(mode="json", exclude_none=True)
    if not insert_if_absent(session, settings, [{"key": key, "value": value}]):
        session.execute(settings.update().where(settings.c.key == key).values(value=value))


def read_facts(session: Session, source_id: str = "") -> list[Facts]:
    """What the sources are judged by; of one if it is given."""
    rows = session.execute(
        sa.select(
            sources.c.id,
            sources.c.slug,
            schedules.c.rule,
            schedules.c.enabled_at,
            schedules.c.changed_at,
            freshness.c.newest,
            freshness.c.succeeded_at,
            freshness.c.state,
            freshness.c.since,
            settings.c.value.label("limits"),
        )
        .outerjoin(schedules, schedules.c.source_id == sources.c.id)
        .outerjoin(
            freshness,
            sa.and_(freshness.c.source_id == sources.c.id, freshness.c.table == ""),
        )
        .outerjoin(settings, settings.c.key == _KEY + sources.c.id)
        .where(
            sources.c.removed_at.is_(None), sources.c.id == source_id if source_id else sa.true()
        )
        .order_by(sources.c.slug)
    )
    return [_to_facts(row) for row in rows]


def _to_facts(row: Any) -> Facts:
    # The rule was validated when it was entered.
    is_enabled = row.enabled_at is not None
    rule = Schedule.model_construct(**row.rule) if is_enabled else None
    return Facts(
        source_id=row.id,
        slug=row.slug,
        state=Freshness(row.state) if row.state else None,
        since=row.since,
        newest=row.newest,
        succeeded_at=row.succeeded_at,
        timetable=Timetable(rule, row.enabled_at, row.id) if rule else None,
        is_enabled=is_enabled,
        changed_at=row.changed_at,
        limits=Limits.model_validate(row.limits or {}),
    )


def _age(newest: datetime | None, now: datetime) -> float | None:
    return max(0.0, (now - newest).total_seconds()) if newest else None
