"""Chunks of one table into rows of its final types, in order of receipt."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.cast import ARROW, cast_column
from eventlake.kernels.chunk import LOOSE, RECEIVED, RESCUE, Physical, Rescues, scatter
from eventlake.kernels.jsontext import encode
from eventlake.kernels.parse import Kind
from eventlake.kernels.times import as_micros
from eventlake.model.naming import RESCUED, Leaf
from eventlake.model.schema import Column, TableSchema
from eventlake.model.types import Type


class Rows(NamedTuple):
    """Rows ready to be written, and how many values were rescued in them."""

    table: pa.Table
    rescued: int


def land(batches: Iterable[pa.RecordBatch], schema: TableSchema) -> Rows:
    """Every batch cast to the table's types, all in order of receipt."""
    parts = [_land_batch(batch, schema) for batch in batches]
    whole = pa.concat_tables([part.table for part in parts], promote_options="default")
    rescued = sum(part.rescued for part in parts)
    return Rows(_in_order(_place_rescued(whole, schema)), rescued)


def _land_batch(batch: pa.RecordBatch, schema: TableSchema) -> Rows:
    claims, rescues = _claims(batch, schema)
    arrays = [_column(claims.pop(c.name, ()), c, len(batch), rescues) for c in _typed(schema)]
    for homeless in claims.values():  # beyond the table's budget of columns
        for claim in homeless:
            rescues.add(claim, claim.array.is_valid())
    names = [column.name for column in _typed(schema)]
    if rescues.by_row:
        names.append(RESCUED)
        arrays.append(_rescued_data(rescues, len(batch)))
    return Rows(pa.table(arrays, names), sum(map(len, rescues.by_row.values())))


def _typed(schema: TableSchema) -> list[Column]:
    return [column for column in schema.columns if column.name != RESCUED]


Claims = defaultdict[str, list[Physical]]


def _claims(batch: pa.RecordBatch, schema: TableSchema) -> tuple[Claims, Rescues]:
    """The paths that make each column, and what the chunk could not place itself."""
    claims: Claims = defaultdict(list)
    rescues = Rescues()
    for (column, dotted, kind), array in zip(
        json.loads(batch.schema.metadata[b"columns"]), batch.columns, strict=True
    ):
        if kind == RESCUE:
            for row, (path, text) in _entries(array):
                rescues.by_row[row].append((path, text))
        elif kind == LOOSE:
            _place_loose(array, schema, claims, rescues)
        else:
            claims[column].append(Physical(Leaf((dotted,), column, True), Kind(kind), array))
    return claims, rescues


def _place_loose(
    array: pa.StringArray, schema: TableSchema, claims: Claims, rescues: Rescues
) -> None:
    """Values that travelled loose into their columns, if these were made."""
    found: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row, (path, text, column) in _entries(array):
        if column in schema.types:
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


def _rescued_data(rescues: Rescues, rows: int) -> pa.StringArray:
    texts: list[str | None] = [None] * rows
    for row, entries in rescues.by_row.items():
        pairs = (f"{encode(dotted)}:{text}" for dotted, text in sorted(entries))
        texts[row] = f"{{{','.join(pairs)}}}"
    return pa.array(texts, pa.string())


def _place_rescued(table: pa.Table, schema: TableSchema) -> pa.Table:
    """`_rescued_data` where the schema has it; at the end when this run is the first to need it."""
    names = [column.name for column in schema.columns]
    if RESCUED in names and RESCUED not in table.column_names:
        table = table.append_column(RESCUED, pa.nulls(len(table), pa.string()))
    return table.select(names if RESCUED in names else table.column_names)


def _in_order(table: pa.Table) -> pa.Table:
    table = table.combine_chunks()
    received = as_micros(table[RECEIVED].combine_chunks())
    if (received[1:] >= received[:-1]).all():
        return table
    return table.take(pa.array(np.argsort(received, kind="stable")))
