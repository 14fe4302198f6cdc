"""Turn the chunks of one table into rows of its final schema, in order of receipt.

A chunk has values by path (see `chunk`); now that the table's columns and types are final:

1. The paths of each column are cast to its type and merged; at most one has a value in a row.
   Values that do not fit are rescued.
2. Overflow values get a column if the table has theirs, and are rescued otherwise. So are paths
   whose column exceeded the table's limit.
3. Rescued values of a row become one JSON object in `_rescued_data`, which a table has from the
   first rescued value on.
4. Duplicates are dropped and the rows sorted, in one copy or, if possible, without one; chunks that
   follow each other in time are concatenated without a copy.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventlake.kernels.cast import ARROW_BY_TYPE, cast_column
from eventlake.kernels.chunk import RECEIVED_AT, RescuedValues
from eventlake.kernels.chunk_format import StoredValues, read_batch, received_times, scatter
from eventlake.kernels.jsontext import encode
from eventlake.kernels.kinds import ValueKind
from eventlake.kernels.times import as_micros
from eventlake.model.naming import RESCUED
from eventlake.model.schema import Column, TableSchema
from eventlake.model.types import Type

MIN_SLICE_ROWS = 40
"""Average run length above which slicing beats `take`."""


class MaskedChunk(NamedTuple):
    """The batch of a chunk, and a mask of the rows that land."""

    batch: pa.RecordBatch
    keep: NDArray[np.bool_]


class LandedRows(NamedTuple):
    """Rows ready to be written, and how many of their values were rescued."""

    table: pa.Table
    rescued: int


def split_chunks(chunks: Sequence[MaskedChunk], max_rows: int) -> Iterator[Sequence[MaskedChunk]]:
    """Split the rows of chunks by time of receipt into batches of at most `max_rows`.

    Yields the batches in order of time, and none if no row lands. Rows that were received at the
    same instant may be in several batches. A slice of time may have far more rows than others: a
    backfill can have one instant for all its events.
    """
    total = sum(int(chunk.keep.sum()) for chunk in chunks)
    if total <= max_rows:
        if total:
            yield chunks
        return
    received = np.concatenate([received_times(chunk.batch)[chunk.keep] for chunk in chunks])
    ranks = np.empty(total, np.int64)
    ranks[np.argsort(received, kind="stable")] = np.arange(total)
    ends = np.cumsum([chunk.keep.sum() for chunk in chunks])[:-1]
    batch_numbers = np.split(ranks // max_rows, ends)
    for batch in range(-(-total // max_rows)):
        parts = []
        for chunk, numbers in zip(chunks, batch_numbers, strict=True):
            keep = np.zeros(len(chunk.keep), np.bool_)
            keep[np.flatnonzero(chunk.keep)[numbers == batch]] = True
            if keep.any():
                parts.append(MaskedChunk(chunk.batch, keep))
        yield parts


def land_chunks(chunks: Iterable[MaskedChunk], schema: TableSchema, added: int = 0) -> LandedRows:
    """Cast chunks, at least one, to the table's types; return the rows that land, by receipt.

    Values that do not fit are in `_rescued_data`, a column that is added if the schema does not
    have it and a value is rescued. `added` is the number of the schema's last columns that this
    run adds: they are sorted by name, and the added `_rescued_data` is sorted in among them.
    """
    landed = [_land_chunk(chunk, schema) for chunk in chunks]
    rescued = sum(rows.rescued for rows in landed)
    table = merge_sorted([rows.table for rows in landed])
    return LandedRows(_place_rescued_column(table, schema, added), rescued)


def _land_chunk(chunk: MaskedChunk, schema: TableSchema) -> LandedRows:
    """Cast a chunk to the table's types; return the rows that land, in order of receipt.

    If values of these rows are rescued, the last column is `_rescued_data`; else there is none.
    """
    if 2 * chunk.keep.sum() < len(chunk.keep):  # drop first if most rows are dropped
        batch = chunk.batch.filter(pa.array(chunk.keep))
        chunk = MaskedChunk(batch, np.ones(len(batch), bool))
    by_column, rescues = _read_values(chunk.batch, schema)
    rows = len(chunk.batch)
    columns = [column for column in schema.columns if column.name != RESCUED]
    arrays = [_make_column(by_column.pop(c.name, ()), c, rows, rescues) for c in columns]
    for paths in by_column.values():  # columns beyond the table's limit
        for path in paths:
            rescues.add(path, path.array.is_valid())
    names = [column.name for column in columns]
    landing = {row: values for row, values in rescues.by_row.items() if chunk.keep[row]}
    if landing:
        names.append(RESCUED)
        arrays.append(_make_rescued_column(landing, rows))
    batch = pa.RecordBatch.from_arrays(arrays, names)
    sorted_batch = _select_sorted(batch, received_times(chunk.batch), chunk.keep)
    return LandedRows(pa.Table.from_batches([sorted_batch]), sum(map(len, landing.values())))


PathsByColumn = defaultdict[str, list[StoredValues]]


def _read_values(batch: pa.RecordBatch, schema: TableSchema) -> tuple[PathsByColumn, RescuedValues]:
    """Return the paths of each column, even one the table lacks, and the values to be rescued.

    Overflow values are among the paths if the table has their column, else rescued.
    """
    by_column: PathsByColumn = defaultdict(list)
    rescues = RescuedValues()
    values = read_batch(batch)
    for path in values.paths:
        by_column[path.column].append(path)
    for row, (dotted, text) in values.rescued:
        rescues.by_row[row].append((dotted, text))
    if values.overflow:
        for path in _place_overflow(values.overflow, schema, len(batch), rescues):
            by_column[path.column].append(path)
    return by_column, rescues


def _place_overflow(
    entries: Iterable[tuple[int, list[str]]],
    schema: TableSchema,
    rows: int,
    rescues: RescuedValues,
) -> Iterator[StoredValues]:
    """Yield overflow values, by path, whose column the table has; add the others to `rescues`.

    `entries` are (row, [dotted path, JSON text, column]).
    """
    values_of: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    columns = schema.types  # a property that makes a new dictionary each time
    for row, (dotted, text, column) in entries:
        if column in columns:
            values_of[column, dotted].append((row, text))
        else:
            rescues.by_row[row].append((dotted, text))
    for (column, dotted), values in values_of.items():
        yield StoredValues(column, dotted, ValueKind.JSON, scatter(values, rows))


def _make_column(
    paths: Sequence[StoredValues], column: Column, rows: int, rescues: RescuedValues
) -> pa.Array:
    """Cast and merge the paths of a column, all null if there are none.

    Adds values that do not fit to `rescues`. At most one path has a value in a row.
    """
    arrays = [_cast_path(path, column.type, rescues) for path in paths]
    if not arrays:
        return pa.nulls(rows, ARROW_BY_TYPE[column.type])
    return arrays[0] if len(arrays) == 1 else pc.coalesce(*arrays)


def _cast_path(path: StoredValues, to: Type, rescues: RescuedValues) -> pa.Array:
    """Cast a path's values to a column's type; adds those that do not fit to `rescues`."""
    values, rescue = cast_column(path.kind, path.array, to)
    if rescue is not None:
        rescues.add(path, rescue)
    return values


def _make_rescued_column(by_row: Mapping[int, list[tuple[str, ...]]], rows: int) -> pa.StringArray:
    """Make `_rescued_data` from (dotted path, JSON text) pairs by row; null in other rows."""
    return scatter(((row, _rescued_object(values)) for row, values in by_row.items()), rows)


def _rescued_object(values: list[tuple[str, ...]]) -> str:
    """Encode a row's (dotted path, JSON text) pairs as one JSON object, sorted by path."""
    pairs = (f"{encode(dotted)}:{text}" for dotted, text in sorted(values))
    return f"{{{','.join(pairs)}}}"


def _place_rescued_column(table: pa.Table, schema: TableSchema, added: int) -> pa.Table:
    """Put `_rescued_data` where the schema has it, or in order of name among the new columns.

    Adds it, all null, if only the schema has it.
    """
    names = [column.name for column in schema.columns]
    if RESCUED in names and RESCUED not in table.column_names:
        table = table.append_column(RESCUED, pa.nulls(len(table), pa.string()))
    elif RESCUED in table.column_names and RESCUED not in names:
        existing = len(names) - added
        names = names[:existing] + sorted([*names[existing:], RESCUED])
    return table if table.column_names == names else table.select(names)


def _select_sorted(
    rows: pa.RecordBatch, received: NDArray[np.int64], keep: NDArray[np.bool_]
) -> pa.RecordBatch:
    """Return the rows of the mask, sorted by receipt; copies them at most once."""
    ascending = _is_ascending(received)
    if ascending and keep.all():
        return rows
    runs = _find_runs(keep)
    if ascending and 1 < len(runs) <= 1 + len(keep) // MIN_SLICE_ROWS:
        return pa.concat_batches([rows.slice(*run) for run in runs])
    kept = np.flatnonzero(keep)
    return rows.take(pa.array(kept[np.argsort(received[kept], kind="stable")]))


def _find_runs(keep: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (first row, length) of each run of true values."""
    edges = np.flatnonzero(np.diff(keep, prepend=False, append=False)).reshape(-1, 2)
    return [(first, end - first) for first, end in edges.tolist()]


def merge_sorted(tables: list[pa.Table]) -> pa.Table:
    """Merge tables, at least one, sorted by receipt; no copy if they do not overlap in time.

    Empty tables are left out. A column that a table does not have is null in its rows.
    """
    filled = [table for table in tables if len(table)] or tables[:1]
    if len(filled) == 1:
        return filled[0]
    filled.sort(key=lambda table: _get_receipt_micros(table)[:1].tolist())
    merged = pa.concat_tables(filled, promote_options="default")
    received = _get_receipt_micros(merged)
    if _is_ascending(received):
        return merged
    order = pa.array(np.argsort(received, kind="stable"))
    return merged.combine_chunks().take(order)


def _get_receipt_micros(table: pa.Table) -> NDArray[np.int64]:
    """Return each row's time of receipt in microseconds since 1970."""
    return as_micros(table[RECEIVED_AT].combine_chunks())


def _is_ascending(moments: NDArray[np.int64]) -> bool:
    """Whether no moment is less than the one before it."""
    return bool((moments[1:] >= moments[:-1]).all())
