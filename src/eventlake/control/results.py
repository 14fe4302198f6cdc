"""What runs landed: counts per table and day, and the log of schema changes, from their reports."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from eventlake.control.database import Session, add_to_rows, insert_if_absent
from eventlake.control.runs import Run, RunState
from eventlake.control.tables import COUNTS, daily, run_tables, schema_log
from eventlake.model.layout import run_day
from eventlake.model.report import Line
from eventlake.model.values import FrozenModel

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
    results = [Result(run, table) for run, outcome in ended for table in outcome.tables]
    if not results:
        return
    rows = [
        {**one.table.model_dump(mode="json", exclude={"newest"}), "run_id": one.run.id}
        for one in results
    ]
    insert_if_absent(session, run_tables, rows)
    changes = [
        {"source_id": result.run.source_id, "run_id": result.run.id, "created_at": now, **change}
        for result in results
        for change in _list_changes(result.table)
    ]
    if changes:
        session.execute(schema_log.insert(), changes)
    # A replay lands again what was counted when it came.
    days = [_daily_row(result) for result in results if result.run.lane == "sync"]
    add_to_rows(session, daily, COUNTS, days)


class Result(NamedTuple):
    """A table's result, and the run that it is of."""

    run: Run
    table: TableResult


def _daily_row(result: Result) -> dict[str, Any]:
    counts = {name: getattr(result.table, name) for name in COUNTS}
    key = {"source_id": result.run.source_id, "day": run_day(result.run.lake_run)}
    return {**key, "table": result.table.table, **counts}


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
