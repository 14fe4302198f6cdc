"""Every source at a glance, for the first page: health, today's rows, and the last day's runs."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.health import SourceHealth, list_health
from eventlake.control.history import WHOLE_RUN, latest_runs
from eventlake.control.runs import RunState
from eventlake.control.tables import ACTIVE, daily, runs, sources
from eventlake.model.values import FrozenModel

USUAL_DAYS = 7
"""Days whose average is a source's usual number of rows."""
DAY = timedelta(days=1)


class RunMark(FrozenModel):
    """A run in the strip of the last 24 hours; begin and end as parts of the day."""

    id: int
    state: str
    begin: float
    end: float


class SourceOverview(FrozenModel):
    """A source's line on the first page."""

    health: SourceHealth
    rows_today: int
    usual: float | None
    """The rows that other days had by this time; None without other days."""
    last_success: datetime | None
    """The end of the last sync that landed everything or some tables."""
    active_sync: int | None
    is_retrying: bool
    """Whether the active sync has failed and waits for its next attempt."""
    strip: tuple[RunMark, ...]


def list_overview(session: Session, now: datetime) -> list[SourceOverview]:
    """Every source at a glance, by slug."""
    ids = {row.slug: row.id for row in session.execute(sa.select(sources.c.slug, sources.c.id))}
    strips = latest_runs(session, now - DAY)
    rows = _sum_rows(session, now)
    successes = _last_successes(session)
    found = []
    for health in sorted(list_health(session), key=lambda one: one.source):
        identity = ids[health.source]
        today, usual = rows.get(identity, (0, None))
        recent = strips.get(identity, ())
        # A replay goes on beside syncs, and is none.
        active = [one for one in recent if one.state in ACTIVE and one.lane == "sync"]
        found.append(
            SourceOverview(
                health=health,
                rows_today=today,
                usual=usual,
                last_success=successes.get(identity),
                active_sync=active[-1].id if active else None,
                is_retrying=any(one.state == RunState.QUEUED and one.attempt > 1 for one in active),
                strip=tuple(_mark(one, now) for one in recent if one.started_at),
            )
        )
    return found


def _mark(run: Any, now: datetime) -> RunMark:
    begin = 1 - (now - run.started_at) / DAY
    end = 1 - (now - (run.ended_at or now)) / DAY
    return RunMark(id=run.id, state=run.state, begin=max(0.0, begin), end=min(1.0, end))


def _sum_rows(session: Session, now: datetime) -> dict[str, tuple[int, float | None]]:
    """By source id, the rows of today, and the average of other days by this time of the day."""
    today, first = f"{now:%Y-%m-%d}", f"{now - USUAL_DAYS * DAY:%Y-%m-%d}"
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    passed = (now - midnight) / DAY
    query = sa.select(daily.c.source_id, daily.c.day, daily.c.rows).where(
        daily.c.table == WHOLE_RUN, daily.c.day >= first
    )
    days: dict[str, dict[str, int]] = {}
    for row in session.execute(query):
        days.setdefault(row.source_id, {})[row.day] = row.rows
    return {
        source: (
            found.get(today, 0),
            passed * sum(others) / len(others)
            if (others := [rows for day, rows in found.items() if day != today])
            else None,
        )
        for source, found in days.items()
    }


def _last_successes(session: Session) -> dict[str, datetime]:
    newest = (
        sa.select(sa.func.max(runs.c.id))
        .where(
            runs.c.source_id == sources.c.id,
            runs.c.kind == "sync",
            runs.c.state.in_((RunState.FINISHED, RunState.PARTIAL)),
        )
        .correlate(sources)
        .scalar_subquery()
    )
    query = sa.select(sources.c.id, runs.c.ended_at).join(runs, runs.c.id == newest)
    return {row.id: row.ended_at for row in session.execute(query) if row.ended_at}
