"""What runs did, for people who look back: runs with their counts, tables, days, schema changes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.results import TableResult
from eventlake.control.runs import Run, to_run
from eventlake.control.sources import get_source
from eventlake.control.tables import COUNTS, run_tables, runs, schema_log, sources
from eventlake.model.values import FrozenModel

WHOLE_RUN = ""
"""The name of the table that stands for all tables of a run or day."""


class RunSummary(FrozenModel):
    """A run with its source's slug and its counts; None if it has no report."""

    source: str
    run: Run
    counts: TableResult | None


class RunFilter(FrozenModel):
    """Which runs to list; empty fields match all."""

    state: str = ""
    kind: str = ""
    trigger: str = ""


class SchemaChange(FrozenModel):
    """A change of a table's schema, and the run that made it."""

    id: int
    run_id: int
    table: str
    column: str
    change: str
    """`new_table`, `new_column` or another kind of change."""
    type: str
    created_at: datetime


def list_history(
    session: Session,
    source: str = "",
    wanted: RunFilter | None = None,
    *,
    before: int | None = None,
    limit: int = 50,
) -> list[RunSummary]:
    """The newest runs of a source, or of all, with their counts."""
    query = (
        _SUMMARIES.order_by(runs.c.id.desc())
        .limit(limit)
        .where(*[runs.c[name] == value for name, value in (wanted or RunFilter()) if value])
    )
    if source:
        query = query.where(runs.c.source_id == get_source(session, source).id)
    if before is not None:
        query = query.where(runs.c.id < before)
    return [_to_summary(row) for row in session.execute(query)]


def get_summary(session: Session, run_id: int) -> RunSummary | None:
    """A run with its counts; None if there is no such run."""
    row = session.execute(_SUMMARIES.where(runs.c.id == run_id)).first()
    return _to_summary(row) if row else None


def list_schema_changes(
    session: Session, source: str, table: str = "", *, before: int | None = None, limit: int = 100
) -> list[SchemaChange]:
    """The changes of the schema of a source's tables, newest first."""
    query = (
        sa.select(schema_log)
        .where(schema_log.c.source_id == get_source(session, source).id)
        .order_by(schema_log.c.id.desc())
        .limit(limit)
    )
    if table:
        query = query.where(schema_log.c.table == table)
    if before is not None:
        query = query.where(schema_log.c.id < before)
    names = SchemaChange.model_fields
    return [
        SchemaChange(**{name: getattr(row, name) for name in names})
        for row in session.execute(query)
    ]


def find_first_seen(session: Session, source: str, table: str) -> dict[str, datetime]:
    """By column of a table, when a run added it; the name of the columns of a new table is `*`."""
    changes = list_schema_changes(session, source, table, limit=10_000)
    return {
        change.column or "*": change.created_at
        for change in changes
        if change.change in ("new_table", "new_column")
    }


_TOTAL = run_tables.alias("total")
_SUMMARIES = (
    sa.select(
        runs,
        sources.c.slug,
        *[_TOTAL.c[name].label(f"total_{name}") for name in (*COUNTS, "status", "new_columns")],
    )
    .join(sources, sources.c.id == runs.c.source_id)
    .outerjoin(_TOTAL, sa.and_(_TOTAL.c.run_id == runs.c.id, _TOTAL.c.table == WHOLE_RUN))
)


def _to_summary(row: sa.Row[Any]) -> RunSummary:
    counts = None
    if row.total_status is not None:
        values = {name: getattr(row, f"total_{name}") for name in (*COUNTS, "status")}
        counts = TableResult(table=WHOLE_RUN, **values)
    fields = {name: getattr(row, name) for name in runs.c.keys()}  # noqa: SIM118 - not a mapping
    return RunSummary(source=row.slug, run=Run.model_validate(fields), counts=counts)


def latest_runs(session: Session, since: datetime) -> dict[str, Sequence[Run]]:
    """The runs that began after a moment, by source id, oldest first."""
    found: dict[str, list[Run]] = {}
    query = sa.select(runs).where(runs.c.created_at >= since).order_by(runs.c.id)
    for row in session.execute(query):
        run = to_run(row)
        found.setdefault(run.source_id, []).append(run)
    return dict(found)
