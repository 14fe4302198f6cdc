"""Queries over the rows of Parquet files."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from eventlake.verify.check import Check
from eventlake.verify.files import FAILURES, LakeFiles

_MAX_OPEN_FILES = 8
"""Files whose first rows are read ahead."""
_BATCH_ROWS = 1 << 16
"""Rows that are decoded, and queried, at a time."""


class File(NamedTuple):
    """A Parquet file of the lake; `number` and `table` become columns of its rows."""

    path: str
    number: int = 0
    table: str = ""


Rows = Iterator[pa.RecordBatch]


def query_parquet(check: Check, query: str, files: Iterable[File], columns: pa.Schema) -> list[Any]:
    """Run a query over each batch of `rows`; return the results of all batches.

    A file that cannot be read, or lacks a column, is reported; its rows before that are used.
    """
    results: list[Any] = []
    for rows in _combine(_rows(check, files, columns)):
        check.db.register("rows", rows)
        results += check.rows(query)
        check.db.unregister("rows")
    return results


def _combine(batches: Rows) -> Iterator[pa.Table]:
    """Combine batches to tables of some size: most files are smaller than a query is worth."""
    group, count = [], 0
    for batch in batches:
        group.append(batch)
        count += batch.num_rows
        if count >= _BATCH_ROWS:
            yield pa.Table.from_batches(group)
            group, count = [], 0
    if group:
        yield pa.Table.from_batches(group)


def _rows(check: Check, files: Iterable[File], columns: pa.Schema) -> Rows:
    for file, rows in _read_ahead(partial(_open_rows, check.files, columns), files):
        try:
            for batch in rows.result():
                yield _add_file_columns(batch, file)
        except FAILURES as problem:
            reason = check.files.explain(problem, file.path)
            check.problems.append(f"{file.path} cannot be read: {reason}")
            check.unreadable.add(file.path)


def _read_ahead(
    start: Callable[[File], Rows], files: Iterable[File]
) -> Iterator[tuple[File, Future[Rows]]]:
    """Yield files in order with their rows, while the next files are opened: buckets are slow."""
    waiting: deque[tuple[File, Future[Rows]]] = deque()
    with ThreadPoolExecutor(_MAX_OPEN_FILES) as pool:
        for file in files:
            waiting.append((file, pool.submit(start, file)))
            if len(waiting) == _MAX_OPEN_FILES:
                yield waiting.popleft()
        yield from waiting


def _open_rows(files: LakeFiles, columns: pa.Schema, file: File) -> Rows:
    """An iterator over a file's rows, with the first batch already read."""
    # Without pre_buffer, which would hold the columns of the whole file in memory.
    parquet = ParquetFile(
        files.filesystem.open_input_file(files.full_path(file.path)), pre_buffer=False
    )
    missing = set(columns.names) - set(parquet.schema_arrow.names)
    if missing:
        raise pa.ArrowInvalid(f"it has no column {min(missing)}")
    batches = parquet.iter_batches(_BATCH_ROWS, columns=columns.names, use_threads=False)
    batches = (batch.select(columns.names).cast(columns) for batch in batches)
    first = next(batches, None)
    return chain((first,), batches) if first is not None else batches


def _add_file_columns(batch: pa.RecordBatch, file: File) -> pa.RecordBatch:
    """Add the columns `__number` and `__table`, which are cheaper to join than paths."""
    number, table = pa.scalar(file.number, pa.int32()), pa.scalar(file.table, pa.string())
    marks = [pa.repeat(mark, batch.num_rows) for mark in (number, table)]
    names = [*batch.schema.names, "__number", "__table"]
    return pa.RecordBatch.from_arrays([*batch.columns, *marks], names)
