"""Chunks of one table into rows of its final types, in order of receipt."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventlake.kernels.cast import ARROW, cast_column
from eventlake.kernels.chunk import (
    LOOSE,
    RECEIVED,
    RESCUE,
    Physical,
    Rescues,
    received_in,
    scatter,
)
from eventlake.kernels.jsontext import encode
from eventlake.kernels.kinds import Kind
from eventlake.kernels.times import as_micros
from eventlake.model.naming import RESCUED, Leaf
from eventlake.model.schema import Column, TableSchema
from eventlake.model.types import Type

LONG_RUN = 40
"""Rows between two that are left out which are copied at once faster than one by one."""


class Part(NamedTuple):
    """A chunk, and which of its rows are to land."""

    batch: pa.RecordBatch
    keep: NDArray[np.bool_]


class Rows(NamedTuple):
    """Rows ready to be written, and how many values were rescued in them."""

    table: pa.Table
    rescued: int


def split_parts(parts: Sequence[Part], max_rows: int) -> Iterator[Sequence[Part]]:
    """Split the rows of parts by time of receipt into batches of at most `max_rows`.

    Rows that were received at the same instant may be in several batches. A slice of time may
    have far more rows than others: a backfill can have one instant for all its events.
    """
    total = sum(int(part.keep.sum()) for part in parts)
    if total <= max_rows:
        if total:
            yield parts
        return
    received = np.concatenate([received_in(part.batch)[part.keep] for part in parts])
    ranks = np.empty(total, np.int64)
    ranks[np.argsort(received, kind="stable")] = np.arange(total)
    ends = np.cumsum([part.keep.sum() for part in parts])[:-1]
    ranks_by_part = np.split(ranks // max_rows, ends)
    for batch in range(-(-total // max_rows)):
        chosen = []
        for part, rank in zip(parts, ranks_by_part, strict=True):
            keep = np.zeros(len(part.keep), np.bool_)
            keep[np.flatnonzero(part.keep)[rank == batch]] = True
            if keep.any():
                chosen.append(Part(part.batch, keep))
        yield chosen


def land(parts: Iterable[Part], schema: TableSchema, added: int = 0) -> Rows:
    """Every part cast to the table's types; the rows that land, in order of receipt.

    The last `added` of the table's columns are new, in order of their names.
    """
    cast = [_land_part(part, schema) for part in parts]
    rescued = sum(one.rescued for one in cast)
    return Rows(_place_rescued(_merged([one.table for one in cast]), schema, added), rescued)


def _land_part(part: Part, schema: TableSchema) -> Rows:
    if 2 * part.keep.sum() < len(part.keep):  # do not make cells of rows that do not land
        batch = part.batch.filter(pa.array(part.keep))
        part = Part(batch, np.ones(len(batch), bool))
    claims, rescues = _claims(part.batch, schema)
    rows = len(part.batch)
    columns = [column for column in schema.columns if column.name != RESCUED]
    arrays = [_column(claims.pop(c.name, ()), c, rows, rescues) for c in columns]
    for homeless in claims.values():  # beyond the table's budget of columns
        for claim in homeless:
            rescues.add(claim, claim.array.is_valid())
    names = [column.name for column in columns]
    landing = {row: found for row, found in rescues.by_row.items() if part.keep[row]}
    if landing:
        names.append(RESCUED)
        arrays.append(_rescued_data(landing, rows))
    batch = pa.RecordBatch.from_arrays(arrays, names)
    kept = _in_order(batch, received_in(part.batch), part.keep)
    return Rows(pa.Table.from_batches([kept]), sum(map(len, landing.values())))


Claims = defaultdict[str, list[Physical]]
_KINDS = {kind.value: kind for kind in Kind}


def _claims(batch: pa.RecordBatch, schema: TableSchema) -> tuple[Claims, Rescues]:
    """The paths that make each column, and what the chunk could not place itself."""
    claims: Claims = defaultdict(list)
    rescues = Rescues()
    for (column, dotted, kind), array in zip(
        msgspec.json.decode(batch.schema.metadata[b"columns"]), batch.columns, strict=True
    ):
        if kind == RESCUE:
            for row, (path, text) in _entries(array):
                rescues.by_row[row].append((path, text))
        elif kind == LOOSE:
            _place_loose(array, schema, claims, rescues)
        else:
            claims[column].append(Physical(Leaf((dotted,), column, True), _KINDS[kind], array))
    return claims, rescues


def _place_loose(
    array: pa.StringArray, schema: TableSchema, claims: Claims, rescues: Rescues
) -> None:
    """Values that travelled loose into their columns, if these were made."""
    found: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    columns = schema.types  # made anew each time
    for row, (path, text, column) in _entries(array):
        if column in columns:
            found[column, path].append((row, text))
        else:
            rescues.by_row[row].append((path, text))
    for (column, path), values in found.items():
        placed = scatter(values, len(array))
        claims[column].append(Physical(Leaf((path,), column, True), Kind.JSON, placed))


def _entries(texts: pa.StringArray) -> Iterable[tuple[int, list[str]]]:
    for row in pc.indices_nonzero(texts.is_valid()).to_pylist():
        for entry in json.loads(texts[row].as_py()):
            yield row, entry


def _column(claims: Sequence[Physical], column: Column, rows: int, rescues: Rescues) -> pa.Array:
    """The column that paths make together: in each row at most one of them has a value."""
    made = [_cast(claim, column.type, rescues) for claim in claims]
    if not made:
        return pa.nulls(rows, ARROW[column.type])
    return made[0] if len(made) == 1 else pc.coalesce(*made)


def _cast(claim: Physical, to: Type, rescues: Rescues) -> pa.Array:
    values, rescue = cast_column(claim.kind, claim.array, to)
    if rescue is not None:
        rescues.add(claim, rescue)
    return values


def _rescued_data(by_row: Mapping[int, list[tuple[str, ...]]], rows: int) -> pa.StringArray:
    return scatter(((row, _rescued_object(found)) for row, found in by_row.items()), rows)


def _rescued_object(entries: list[tuple[str, ...]]) -> str:
    pairs = (f"{encode(dotted)}:{text}" for dotted, text in sorted(entries))
    return f"{{{','.join(pairs)}}}"


def _place_rescued(table: pa.Table, schema: TableSchema, added: int) -> pa.Table:
    """`_rescued_data` where the schema has it, or among the new columns when it is one of them."""
    names = [column.name for column in schema.columns]
    if RESCUED in names and RESCUED not in table.column_names:
        table = table.append_column(RESCUED, pa.nulls(len(table), pa.string()))
    elif RESCUED in table.column_names and RESCUED not in names:
        known = len(names) - added
        names = names[:known] + sorted([*names[known:], RESCUED])
    return table if table.column_names == names else table.select(names)


def _in_order(
    rows: pa.RecordBatch, received: NDArray[np.int64], keep: NDArray[np.bool_]
) -> pa.RecordBatch:
    """The rows that are kept, sorted; one copy does both."""
    ascending = _ascending(received)
    if ascending and keep.all():
        return rows
    runs = _runs(keep)
    if ascending and 1 < len(runs) <= 1 + len(keep) // LONG_RUN:
        return pa.concat_batches([rows.slice(*run) for run in runs])
    kept = np.flatnonzero(keep)
    return rows.take(pa.array(kept[np.argsort(received[kept], kind="stable")]))


def _runs(keep: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where rows that are kept follow each other: the first of them, and how many."""
    edges = np.flatnonzero(np.diff(keep, prepend=False, append=False)).reshape(-1, 2)
    return [(first, end - first) for first, end in edges.tolist()]


def _merged(tables: list[pa.Table]) -> pa.Table:
    """Sorted tables in one; those that follow each other in time are not copied."""
    filled = [table for table in tables if len(table)] or tables[:1]
    if len(filled) == 1:
        return filled[0]
    filled.sort(key=lambda table: _received(table)[:1].tolist())
    whole = pa.concat_tables(filled, promote_options="default")
    received = _received(whole)
    if _ascending(received):
        return whole
    order = pa.array(np.argsort(received, kind="stable"))
    return whole.combine_chunks().take(order)


def _received(table: pa.Table) -> NDArray[np.int64]:
    return as_micros(table[RECEIVED].combine_chunks())


def _ascending(moments: NDArray[np.int64]) -> bool:
    return bool((moments[1:] >= moments[:-1]).all())
