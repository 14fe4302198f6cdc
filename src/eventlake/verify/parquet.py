"""Parquet files as rows to query, a few columns of them."""

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

_AT_ONCE = 8
"""Files that are open: their first rows are there before they are asked for."""
_BATCH = 1 << 16
"""Rows that are decoded at once, and that a query is asked of."""


class File(NamedTuple):
    """A Parquet file of the lake; its rows are marked with its number and its table."""

    path: str
    number: int = 0
    table: str = ""


Rows = Iterator[pa.RecordBatch]


def query_parquet(check: Check, query: str, files: Iterable[File], columns: pa.Schema) -> list[Any]:
    """What a query gives that is asked of some `rows` at a time.

    A file that cannot be read, or lacks a column, is a problem; what stands before that counts.
    """
    found: list[Any] = []
    for rows in _gathered(_rows(check, files, columns)):
        check.db.register("rows", rows)
        found += check.rows(query)
        check.db.unregister("rows")
    return found


def _gathered(batches: Rows) -> Iterator[pa.Table]:
    """Most files are small, and a query costs more than their rows."""
    gathered, count = [], 0
    for batch in batches:
        gathered.append(batch)
        count += batch.num_rows
        if count >= _BATCH:
            yield pa.Table.from_batches(gathered)
            gathered, count = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _rows(check: Check, files: Iterable[File], columns: pa.Schema) -> Rows:
    for file, started in _ahead(partial(_started, check.place, columns), files):
        try:
            for batch in started.result():
                yield _marked(batch, file)
        except FAILURES as problem:
            flaw = check.place.why(problem, file.path)
            check.problems.append(f"{file.path} cannot be read: {flaw}")
            check.unreadable.add(file.path)


def _ahead(
    start: Callable[[File], Rows], files: Iterable[File]
) -> Iterator[tuple[File, Future[Rows]]]:
    """Files in their order, with some after them on their way: a bucket lets each one wait."""
    waiting: deque[tuple[File, Future[Rows]]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for file in files:
            waiting.append((file, pool.submit(start, file)))
            if len(waiting) == _AT_ONCE:
                yield waiting.popleft()
        yield from waiting


def _started(place: LakeFiles, columns: pa.Schema, file: File) -> Rows:
    """The rows of a file, of which the first are read."""
    # Not buffered ahead: that would hold all that the file has of these columns.
    parquet = ParquetFile(
        place.filesystem.open_input_file(place.whole(file.path)), pre_buffer=False
    )
    missing = set(columns.names) - set(parquet.schema_arrow.names)
    if missing:
        raise pa.ArrowInvalid(f"it has no column {min(missing)}")
    batches = parquet.iter_batches(_BATCH, columns=columns.names, use_threads=False)
    batches = (batch.select(columns.names).cast(columns) for batch in batches)
    first = next(batches, None)
    return chain((first,), batches) if first is not None else batches


def _marked(batch: pa.RecordBatch, file: File) -> pa.RecordBatch:
    """With two more columns: a join by the names of files would take far more."""
    number, table = pa.scalar(file.number, pa.int32()), pa.scalar(file.table, pa.string())
    marks = [pa.repeat(mark, batch.num_rows) for mark in (number, table)]
    names = [*batch.schema.names, "__number", "__table"]
    return pa.RecordBatch.from_arrays([*batch.columns, *marks], names)
