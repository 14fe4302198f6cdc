"""The process of one query: DuckDB without access to files or settings, within limits."""

import json
import resource
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import EventLakeError
from eventlake.lakes import parse_settings
from eventlake.model.contents import QueryColumn, QueryRequest, QueryResult
from eventlake.query import cast_to_text
from eventlake.services.read import open_lake

MAX_BYTES = 3 << 30
"""A bound for the whole process, above DuckDB's own limit: Arrow's buffers come on top."""
MAX_CHARS = 1000
"""Characters of a value that are returned as JSON."""
FAILED = 3
"""The exit status if the output is an error."""


def main(words: Sequence[str]) -> int:
    """Run the query on stdin, and write its result to stdout; return the exit status."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    request = QueryRequest.from_json(sys.stdin.buffer.read())
    began = SYSTEM_CLOCK.monotonic()
    try:
        table = open_lake(parse_settings(words)).query_within(request.sql, request.limits)
    except (EventLakeError, MemoryError) as problem:
        error = {
            "code": getattr(problem, "code", "EventLake.LimitExceeded"),
            "kind": type(problem).__name__,
            "detail": str(problem) or f"the query needs more memory than {request.limits.memory}",
        }
        sys.stdout.write(json.dumps({"error": error}))
        return FAILED
    seconds = round(SYSTEM_CLOCK.monotonic() - began, 3)
    _write(table, request, seconds)
    return 0


def _write(table: pa.Table, request: QueryRequest, seconds: float) -> None:
    max_rows = request.limits.max_rows
    shown = table.slice(0, max_rows)
    if request.format == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(_cast_columns(shown, _has_intervals), sink, compression="zstd")
        sys.stdout.buffer.write(sink.getvalue())
    elif request.format == "csv":
        pyarrow.csv.write_csv(_cast_columns(shown, _needs_text), sys.stdout.buffer)
    else:
        columns = _cast_columns(shown, _needs_text).columns
        result = QueryResult(
            columns=tuple(QueryColumn(name=one.name, type=str(one.type)) for one in shown.schema),
            rows=tuple(zip(*(map(_to_text, one.to_pylist()) for one in columns), strict=True)),
            is_cut=table.num_rows > max_rows,
            seconds=seconds,
        )
        sys.stdout.write(result.model_dump_json())


def _has_intervals(kind: pa.DataType) -> bool:
    """Whether values are intervals or contain some, which Parquet cannot store."""
    return str(pa.month_day_nano_interval()) in str(kind)


def _needs_text(kind: pa.DataType) -> bool:
    """Whether CSV has no values of this type, and Python would print its own notation."""
    kinds = pa.types
    return bool(kinds.is_nested(kind) or kinds.is_binary(kind) or kinds.is_interval(kind))


def _cast_columns(table: pa.Table, is_cast: Callable[[pa.DataType], bool]) -> pa.Table:
    """The table with the columns of some types as text."""
    columns = [cast_to_text(one) if is_cast(one.type) else one for one in table.columns]
    return pa.table(columns, names=table.column_names)


def _to_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo else value
        return f"{utc:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".")
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    text = str(value)
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
