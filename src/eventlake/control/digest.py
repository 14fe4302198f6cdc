"""The digest of schema changes: new tables, new columns and rescued values, at most one a day."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.monitor_tables import settings
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.tables import run_tables, runs, schema_log, sources

EVERY = timedelta(days=1)
MAX_NAMES = 20
_KEY = "digest/"


def write_digests(session: Session, now: datetime) -> None:
    """Write the digest of each source that has changes and had no digest for a day."""
    for source_id, cursor in _read_cursors(session).items():
        at = cursor.get("at")
        if at and now - datetime.fromisoformat(at) < EVERY:
            continue
        changes = session.execute(
            sa.select(schema_log)
            .where(schema_log.c.source_id == source_id, schema_log.c.id > cursor.get("log", 0))
            .order_by(schema_log.c.id)
        ).all()
        run, rescued = _sum_rescued(session, source_id, cursor.get("run", 0))
        if not changes and not rescued:
            continue
        log = changes[-1].id if changes else cursor.get("log", 0)
        new = {"at": now.isoformat(), "log": log, "run": run}
        _store_cursor(session, source_id, new)
        key = f"schema/{source_id}/{log}/{run}"
        data = {**_summarize(changes), "rescued": rescued}
        write_notices(session, [make_notice("schema_changed", key, source_id, data, now)])


def _summarize(changes: Any) -> dict[str, Any]:
    """The names of new tables and columns, a few of each, and how many there are."""
    tables = [row.table for row in changes if row.change == "new_table"]
    columns = [f"{row.table}.{row.column}" for row in changes if row.change == "new_column"]
    return {
        "tables": tables[:MAX_NAMES],
        "table_count": len(tables),
        "columns": columns[:MAX_NAMES],
        "column_count": len(columns),
    }


def _sum_rescued(session: Session, source_id: str, after: int) -> tuple[int, int]:
    """The last run of a source that landed something, and the values that runs rescued."""
    row = session.execute(
        sa.select(sa.func.max(runs.c.id), sa.func.sum(run_tables.c.rescued))
        .join(run_tables, sa.and_(run_tables.c.run_id == runs.c.id, run_tables.c.table == ""))
        .where(runs.c.source_id == source_id, runs.c.id > after, runs.c.lane == "sync")
    ).one()
    return row[0] or after, int(row[1] or 0)


def _read_cursors(session: Session) -> dict[str, dict[str, Any]]:
    rows = session.execute(
        sa.select(sources.c.id, settings.c.value)
        .outerjoin(settings, settings.c.key == _KEY + sources.c.id)
        .where(sources.c.removed_at.is_(None))
        .order_by(sources.c.id)
    )
    return {row.id: row.value or {} for row in rows}


def _store_cursor(session: Session, source_id: str, value: dict[str, Any]) -> None:
    key = _KEY + source_id
    if not insert_if_absent(session, settings, [{"key": key, "value": value}]):
        session.execute(settings.update().where(settings.c.key == key).values(value=value))
