"""Retention: deletes the history of syncs and of notices that is older than the setting."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.notify.tables import IS_OPEN, deliveries
from eventlake.control.preferences import read_preferences
from eventlake.control.tables import incidents, notices, run_tables, runs, schema_log

BATCH = 1000


def prune(session: Session, now: datetime) -> int:
    """Delete a batch of old syncs, and of notices that are not on their way; return how many syncs.

    Replays and erasures stay, and so do the sums per day, the schema log, and of each source the
    last sync that landed something. Nothing is deleted unless the workspace says after how long.
    """
    days = read_preferences(session).keep_runs_days
    if days is None:
        return 0
    before = now - timedelta(days=days)
    _prune_notices(session, before)
    last = (
        sa.select(sa.func.max(runs.c.id))
        .where(runs.c.lake_run != "", runs.c.state.in_(("finished", "partial")))
        .group_by(runs.c.source_id)
    )
    old = list(
        session.execute(
            sa.select(runs.c.id)
            .where(runs.c.ended_at < before, runs.c.kind == "sync", runs.c.id.not_in(last))
            .order_by(runs.c.id)
            .limit(BATCH)
        ).scalars()
    )
    if old:
        for table, column in ((incidents, "last_run"), (runs, "met_run"), (schema_log, "run_id")):
            is_old = table.c[column].in_(old)
            session.execute(table.update().where(is_old).values({column: None}))
        session.execute(run_tables.delete().where(run_tables.c.run_id.in_(old)))
        session.execute(runs.delete().where(runs.c.id.in_(old)))
    return len(old)


def _prune_notices(session: Session, before: datetime) -> None:
    open_ones = sa.select(deliveries.c.notice_id).where(IS_OPEN)
    old = list(
        session.execute(
            sa.select(notices.c.id)
            .where(notices.c.created_at < before, notices.c.id.not_in(open_ones))
            .order_by(notices.c.id)
            .limit(BATCH)
        ).scalars()
    )
    if old:
        session.execute(deliveries.delete().where(deliveries.c.notice_id.in_(old)))
        session.execute(notices.delete().where(notices.c.id.in_(old)))
