"""Sums that are kept when runs end, so that neither pages nor metrics read all runs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from eventlake.control.database import Session, add_to_rows
from eventlake.control.monitor_tables import freshness, run_days
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState
from eventlake.control.sources import get_source
from eventlake.control.tables import daily
from eventlake.model.values import FrozenModel

GOOD = (RunState.FINISHED, RunState.PARTIAL)
MAX_DAYS = 400


class DailyRows(FrozenModel):
    """What the syncs of a day landed in a table; without a name, in all of them."""

    day: str
    table: str
    rows: int
    received: int
    duplicates: int
    suppressed: int
    quarantined: int
    skipped: int
    rescued: int
    bytes: int
    files: int


class DailyRuns(FrozenModel):
    """How many runs of a kind ended on a day with a state, and how long they took in all."""

    day: str
    kind: str
    state: str
    runs: int
    seconds: float


class Daily(FrozenModel):
    """A source's days, the newest first; days without a sync are left out."""

    source: str
    rows: tuple[DailyRows, ...]
    runs: tuple[DailyRuns, ...]


def read_daily(
    session: Session, source: str, now: datetime, *, days: int = 30, table: str | None = ""
) -> Daily:
    """The last days of a source in UTC: of one table, of all as one (""), or each (None)."""
    found = get_source(session, source)
    first = f"{now - timedelta(days=days - 1):%Y-%m-%d}"
    query = sa.select(daily).where(daily.c.source_id == found.id, daily.c.day >= first)
    if table is not None:
        query = query.where(daily.c.table == table)
    rows = session.execute(query.order_by(daily.c.day.desc(), daily.c.table)).all()
    runs = session.execute(
        sa.select(run_days)
        .where(run_days.c.source_id == found.id, run_days.c.day >= first)
        .order_by(run_days.c.day.desc(), run_days.c.kind, run_days.c.state)
    ).all()
    return Daily(
        source=found.slug,
        rows=tuple(DailyRows(**_without_source(row)) for row in rows),
        runs=tuple(DailyRuns(**_without_source(row)) for row in runs),
    )


def store_rollups(session: Session, ended: Sequence[tuple[Run, Outcome]]) -> None:
    """Add runs that ended to the sums of their day and to the freshness of their tables."""
    real = [(run, outcome) for run, outcome in ended if not run.dry_run]
    days: dict[tuple[str, ...], dict[str, Any]] = {}
    fresh: dict[tuple[str, str], dict[str, Any]] = {}
    for run, outcome in real:
        _add_to_day(days, run)
        if run.state in GOOD and run.lane == "sync":
            _add_to_fresh(fresh, run, outcome)
    add_to_rows(session, run_days, ("runs", "seconds"), list(days.values()))
    _store_freshness(session, list(fresh.values()))


def _add_to_day(days: dict[tuple[str, ...], dict[str, Any]], run: Run) -> None:
    assert run.ended_at
    seconds = (run.ended_at - run.started_at).total_seconds() if run.started_at else 0.0
    key = (run.source_id, f"{run.ended_at:%Y-%m-%d}", run.kind, run.state.value)
    names = ("source_id", "day", "kind", "state")
    row = days.setdefault(key, dict(zip(names, key, strict=True)) | {"runs": 0, "seconds": 0.0})
    row["runs"] += 1
    row["seconds"] += max(0.0, seconds)


def _add_to_fresh(fresh: dict[tuple[str, str], dict[str, Any]], run: Run, outcome: Outcome) -> None:
    """Keep the latest times of each table, and of the source under an empty name.

    An event from a clock that is ahead counts as received when its run ended: otherwise its source
    would not be silent for as long as that clock is ahead.
    """
    newest = {"": None} | {one.table: one.newest for one in outcome.tables}
    for table, moment in newest.items():
        key = {"source_id": run.source_id, "table": table}
        row = fresh.setdefault(
            (run.source_id, table), key | {"newest": None, "succeeded_at": None, "state": ""}
        )
        received = min(filter(None, (moment, run.ended_at))) if moment else None
        times = {"newest": received, "succeeded_at": None if table else run.ended_at}
        for name, time in times.items():
            row[name] = max(filter(None, (row[name], time)), default=None)


def _store_freshness(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; where there is one, keep the later times."""
    if not rows:
        return
    insert = (postgresql if session.dialect.name == "postgresql" else sqlite).insert(freshness)
    later = {
        name: sa.case(
            (freshness.c[name].is_(None), insert.excluded[name]),
            (insert.excluded[name] > freshness.c[name], insert.excluded[name]),
            else_=freshness.c[name],
        )
        for name in ("newest", "succeeded_at")
    }
    keys = [freshness.c.source_id, freshness.c.table]
    session.execute(insert.on_conflict_do_update(index_elements=keys, set_=later), rows)


def _without_source(row: sa.Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._asdict().items() if name != "source_id"}
