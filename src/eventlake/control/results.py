"""What runs landed: counts per table and day, and the log of schema changes, from their reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Session, add_to_rows, insert_if_absent
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunState
from eventlake.control.sources import get_source
from eventlake.control.tables import COUNTS, daily, run_tables, schema_log
from eventlake.model.layout import run_day
from eventlake.model.report import Line
from eventlake.model.values import FrozenModel

PINNED = "pinned"
_FIELDS = {
    "rows": "row_count",
    "received": "received_count",
    "duplicates": "duplicate_count",
    "suppressed": "suppressed_count",
    "quarantined": "quarantined_count",
    "skipped": "skipped_count",
    "rescued": "rescued_count",
    "bytes": "bytes_written",
    "files": "files_written",
}
"""The field of a report for each count."""


class NewColumn(FrozenModel):
    """A column that a run added."""

    name: str
    type: str


class TableResult(FrozenModel):
    """What a run landed in a table; without a name, in all of them."""

    table: str
    status: str
    is_new: bool = False
    new_columns: tuple[NewColumn, ...] = ()
    rows: int = 0
    received: int = 0
    duplicates: int = 0
    suppressed: int = 0
    quarantined: int = 0
    skipped: int = 0
    rescued: int = 0
    bytes: int = 0
    files: int = 0
    error_code: str = ""
    error: str = ""
    newest: datetime | None = None
    """When the newest of its rows was received."""


class Outcome(FrozenModel):
    """How an attempt of a run ended."""

    state: RunState
    """Finished, partial, failed or cancelled."""
    lake_run: str = ""
    error_code: str = ""
    error: str = ""
    tables: tuple[TableResult, ...] = ()
    """Its report: first the whole run, then each table; empty if there is none."""
    plan: dict[str, Any] | None = None
    """What a dry run would do."""
    result: dict[str, Any] | None = None
    """What the run did, besides its report."""


class Pin(FrozenModel):
    """A column whose type a person has set."""

    id: int
    source_id: str
    run_id: int
    table: str
    column: str
    type: str
    created_at: datetime


def list_pins(
    session: Session, source: str = "", *, before: int | None = None, limit: int = 100
) -> list[Pin]:
    """The newest pins of a source, or of all; `before` is the last id of the page before."""
    columns = [schema_log.c[name] for name in Pin.model_fields]
    query = sa.select(*columns).where(schema_log.c.change == PINNED)
    if source:
        query = query.where(schema_log.c.source_id == get_source(session, source).id)
    if before is not None:
        query = query.where(schema_log.c.id < before)
    rows = session.execute(query.order_by(schema_log.c.id.desc()).limit(limit))
    return [Pin.model_validate(row._asdict()) for row in rows]


def list_results(session: Session, run_id: int) -> tuple[TableResult, ...]:
    """What a run landed: in all, then by table; empty until it has ended."""
    columns = [run_tables.c[name] for name in TableResult.model_fields if name != "newest"]
    query = sa.select(*columns).where(run_tables.c.run_id == run_id).order_by(run_tables.c.table)
    return tuple(TableResult.model_validate(row._asdict()) for row in session.execute(query))


def read_outcome(lines: Sequence[Line]) -> Outcome:
    """The outcome of the run that wrote a report."""
    total = lines[0]
    return Outcome(
        state=RunState(total["status"]),
        lake_run=total["run_id"],
        error_code=total.get("error_code") or "",
        error=total.get("error") or "",
        tables=tuple(map(_read_table, lines)),
    )


def _read_table(line: Line) -> TableResult:
    columns = line.get("new_columns") or []
    return TableResult(
        table=line["table_name"],
        status=line["status"],
        is_new=bool(line.get("is_new")),
        new_columns=tuple(NewColumn(**column) for column in columns),
        error_code=line.get("error_code") or "",
        error=line.get("error") or "",
        newest=_read_time(line.get("newest_received_at")),
        **{name: line.get(field) or 0 for name, field in _FIELDS.items()},
    )


def _read_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def store_results(session: Session, ended: Sequence[tuple[Run, Outcome]], now: datetime) -> None:
    """Store what runs landed; each run is stored once, because days are added up."""
    ended = [(run, outcome) for run, outcome in ended if outcome.tables and not run.dry_run]
    results = [Result(run, table) for run, outcome in ended for table in outcome.tables]
    if not results:
        return
    rows = [
        {**one.table.model_dump(mode="json", exclude={"newest"}), "run_id": one.run.id}
        for one in results
    ]
    insert_if_absent(session, run_tables, rows)
    changes = [
        {"source_id": result.run.source_id, "run_id": result.run.id, **change}
        | {"created_at": result.run.ended_at or now}
        for result in results
        for change in _list_changes(result.table)
    ]
    changes += [
        {"source_id": run.source_id, "run_id": run.id, "created_at": now, **pin}
        for run, outcome in ended
        for pin in _list_pins(run, outcome)
    ]
    if changes:
        session.execute(schema_log.insert(), changes)
    add_to_rows(session, daily, COUNTS, _sum_days(results))


_COUNTED: dict[str, Sequence[str]] = {Kind.SYNC: COUNTS, Kind.REDRIVE: ("rows",)}
"""What of a run's counts is new that day: a replay lands again what was counted when it came, and a
redrive has lines that were counted as quarantined."""


class Result(NamedTuple):
    """A table's result, and the run that it is of."""

    run: Run
    table: TableResult


def _sum_days(results: Iterable[Result]) -> list[dict[str, Any]]:
    """A row for each source, day and table, in the order in which transactions lock them."""
    sums: dict[tuple[str, str, str], Counter[str]] = {}
    for run, table in results:
        if counted := _COUNTED.get(run.kind):
            key = (run.source_id, run_day(run.lake_run), table.table)
            sums.setdefault(key, Counter(dict.fromkeys(COUNTS, 0))).update(
                {name: getattr(table, name) for name in counted}
            )
    names = ("source_id", "day", "table")
    return [dict(zip(names, key, strict=True)) | dict(sums[key]) for key in sorted(sums)]


def _list_pins(run: Run, outcome: Outcome) -> Iterator[dict[str, str]]:
    """The columns whose types a retype has set."""
    if run.kind == Kind.RETYPE and outcome.state in (RunState.FINISHED, RunState.PARTIAL):
        table = run.parameters["table"].rpartition(".")[2]
        for column, kind in run.parameters["types"].items():
            yield {"table": table, "column": column, "change": PINNED, "type": kind.lower()}


def _list_changes(table: TableResult) -> Iterator[dict[str, str]]:
    """The changes of a table's schema; the columns of a new table are not changes."""
    if not table.table:
        return
    if table.is_new:
        yield {"table": table.table, "column": "", "change": "new_table", "type": ""}
        return
    for column in table.new_columns:
        named = {"table": table.table, "column": column.name, "type": column.type}
        yield {**named, "change": "new_column"}
