"""Read the reports of a lake, as lines or as files of a table."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.kernels.times import parse_times
from eventlake.model.layout import Layout
from eventlake.model.report import COLUMNS, PARTITIONS, Line
from eventlake.model.types import Type, timestamp_like
from eventlake.stores import Store
from eventlake.stores.damage import RESTORE, damaged

_KINDS: dict[Type, tuple[type, ...]] = {
    Type.BIGINT: (int,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str, list),
    Type.TIMESTAMP: (str,),
}
"""The Python types of a report's JSON values."""


def write_report(store: Store, layout: Layout, path: str, lines: bytes) -> None:
    """Write the report at `path`, and before it the copy for the table of reports."""
    store.write(layout.report_copy_path(path), lines)
    store.write(path, lines)


def restore_copies(store: Store, layout: Layout, folder: str) -> list[str]:
    """Write the copies that a source's reports lack; return the days that have reports."""
    copies = {one.path for one in store.objects(layout.sync_reports)}
    days = set()
    for path in [one.path for one in store.objects(layout.reports)]:
        day, source = layout.parse_report_path(path) or ("", "")
        if source != folder:
            continue
        days.add(day)
        if layout.report_copy_path(path) not in copies:
            store.write(layout.report_copy_path(path), store.read(path))
    return sorted(days)


def read_reports(store: Store, layout: Layout, folder: str) -> list[Line]:
    """Read the lines of all reports of a source, oldest run first."""
    return [line for _, line in _lines(store, layout, folder)]


def report_files(store: Store, layout: Layout, scratch: Path) -> list[tuple[str, dict[str, str]]]:
    """Write all reports as Parquet below `scratch`; return each file with its partition."""
    rows: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for day, line in _lines(store, layout):
        rows[line["source_id"], day].append(line)
    files = []
    for number, (partition, lines) in enumerate(rows.items()):
        path = scratch / str(number) / "reports.parquet"  # Spark reads whole folders
        path.parent.mkdir()
        pq.write_table(_table(lines), path)
        files.append((str(path), dict(zip(PARTITIONS, partition, strict=True))))
    return files


def _lines(store: Store, layout: Layout, folder: str | None = None) -> Iterator[tuple[str, Line]]:
    """The report lines of one source, or of all, with the day of each."""
    for path in sorted(one.path for one in store.objects(layout.reports)):
        day, source = layout.parse_report_path(path) or ("", "")
        if day and folder in (None, source):
            for text in store.read(path).splitlines():
                yield day, _parse_line(store, path, text)


def _parse_line(store: Store, path: str, text: bytes) -> Line:
    remedy = f"{RESTORE}, or delete it: tables do not depend on it"
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise damaged(store, path, str(problem), remedy) from problem
    if not isinstance(line, dict) or not isinstance(line.get("source_id"), str):
        raise damaged(store, path, "a line is not a report line", remedy)
    wrong = [name for name, kind in COLUMNS.items() if not _fits(line.get(name), kind)]
    if wrong:
        raise damaged(store, path, f"{wrong[0]} is {line[wrong[0]]!r}", remedy)
    return line


def _fits(value: object, kind: Type) -> bool:
    return value is None or (type(value) in _KINDS[kind] and not _is_too_large(value))


def _is_too_large(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > 63


def _table(lines: list[Line]) -> pa.Table:
    """Convert report lines to the columns of the reports table."""
    columns = {}
    for name, kind in COLUMNS.items():
        values: list[Any] = [line.get(name) for line in lines]
        if kind is Type.TIMESTAMP:
            columns[name] = parse_times(pa.array(values, pa.string()), timestamp_like)
        else:
            texts = [_compact(v) if isinstance(v, list) else v for v in values]
            columns[name] = pa.array(texts, ARROW_BY_TYPE[kind])
    return pa.table(columns)


def _compact(value: list[Any]) -> str:
    """A list as the text that Trino and Athena return for it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
