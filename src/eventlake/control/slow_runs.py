"""Runs that take much longer than usual."""

from datetime import datetime
from statistics import median
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.runs import RunState
from eventlake.control.tables import IS_ACTIVE, runs

SLOW_FACTOR = 3
LEAST_SECONDS = 60.0
"""Shorter runs are never slow."""
RECENT, LEAST_RECENT = 20, 5
"""The runs that the median is of: at most, and at least."""
FIX = "Look at its progress and log. `max_seconds` of the schedule cancels runs that take too long."


def note_slow_runs(session: Session, now: datetime) -> None:
    """Write a notice for each run that has run for more than three times the median."""
    running = session.execute(
        sa.select(runs).where(IS_ACTIVE, runs.c.state == RunState.RUNNING)
    ).all()
    written = [_note(session, row, now) for row in running if _seconds(row, now) > LEAST_SECONDS]
    write_notices(session, [notice for notice in written if notice])


def _note(session: Session, row: sa.Row[Any], now: datetime) -> dict[str, Any] | None:
    usual = find_median(session, row.source_id, row.kind)
    seconds = _seconds(row, now)
    if usual is None or seconds <= SLOW_FACTOR * usual:
        return None
    data = {"run": row.id, "kind": row.kind, "seconds": seconds, "median": usual, "fix": FIX}
    return make_notice("run_slow", f"run/{row.id}/slow", row.source_id, data, now)


def find_median(session: Session, source_id: str, kind: str) -> float | None:
    """The median of the seconds of a source's last runs of a kind; None if there are too few."""
    rows = session.execute(
        sa.select(runs.c.started_at, runs.c.ended_at)
        .where(
            runs.c.source_id == source_id,
            runs.c.kind == kind,
            runs.c.state.in_((RunState.FINISHED, RunState.PARTIAL)),
            runs.c.started_at.is_not(None),
        )
        .order_by(runs.c.id.desc())
        .limit(RECENT)
    ).all()
    spans = [(row.ended_at - row.started_at).total_seconds() for row in rows]
    return median(spans) if len(spans) >= LEAST_RECENT else None


def _seconds(row: sa.Row[Any], now: datetime) -> float:
    return (now - row.started_at).total_seconds() if row.started_at else 0.0
