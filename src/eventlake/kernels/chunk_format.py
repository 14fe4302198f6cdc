"""The format of a chunk: an Arrow stream of one record batch with columns "0", "1", ….

The batch's metadata lists for each column the table's column, the dotted path and the kind. The
first one is the time of receipt. The last ones may be two lists of JSON texts: rescued values and
overflow values. `chunk` makes batches, `land` reads them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.kinds import ValueKind
from eventlake.kernels.times import as_micros

RESCUE = "rescue"
"""Kind of the column with rescued values: JSON `[[path, text], …]` per row."""
OVERFLOW = "overflow"
"""Kind of the column with overflow values: JSON `[[path, text, column], …]` per row."""

EntriesByRow = Mapping[int, Sequence[tuple[str, ...]]]
"""Rescued or overflow values by row, as their kind lists them."""

_KINDS = {kind.value: kind for kind in ValueKind}


class StoredValues(NamedTuple):
    """The values of one path in all rows of a chunk."""

    column: str
    dotted: str
    kind: ValueKind
    array: pa.Array


class ChunkValues(NamedTuple):
    """The values in a chunk; rescued and overflow values come with their row."""

    paths: list[StoredValues]
    rescued: Iterable[tuple[int, list[str]]]
    overflow: Iterable[tuple[int, list[str]]]


def make_batch(
    paths: Sequence[StoredValues], rescued: EntriesByRow, overflow: EntriesByRow, rows: int
) -> pa.RecordBatch:
    """Make the batch of a chunk; the first path is the time of receipt.

    Rescued and overflow values get a column only if there are any.
    """
    columns = [[path.column, path.dotted, path.kind] for path in paths]
    arrays = [path.array for path in paths]
    for kind, by_row in ((RESCUE, rescued), (OVERFLOW, overflow)):
        if by_row:
            columns.append([kind, "", kind])
            arrays.append(scatter(((row, json.dumps(e)) for row, e in by_row.items()), rows))
    names = [str(number) for number in range(len(arrays))]
    metadata = {"columns": msgspec.json.encode(columns)}
    return pa.RecordBatch.from_arrays(arrays, names, metadata=metadata)


def read_batch(batch: pa.RecordBatch) -> ChunkValues:
    """Return what `make_batch` was given, with each rescued and overflow value as (row, entry).

    These two can be iterated only once.
    """
    values = ChunkValues([], (), ())
    columns = msgspec.json.decode(batch.schema.metadata[b"columns"])
    for (column, dotted, kind), array in zip(columns, batch.columns, strict=True):
        if kind == RESCUE:
            values = values._replace(rescued=_decode_entries(array))
        elif kind == OVERFLOW:
            values = values._replace(overflow=_decode_entries(array))
        else:
            values.paths.append(StoredValues(column, dotted, _KINDS[kind], array))
    return values


def _decode_entries(texts: pa.StringArray) -> Iterator[tuple[int, list[str]]]:
    """Decode a column of JSON lists; yield each entry with its row. Rows with null have none."""
    for row in pc.indices_nonzero(texts.is_valid()).to_pylist():
        for entry in json.loads(texts[row].as_py()):
            yield row, entry


def received_times(batch: pa.RecordBatch) -> np.ndarray:
    """Return when each row of a chunk was received, in microseconds since 1970."""
    return as_micros(batch.column(0))


def encode_batch(batch: pa.RecordBatch, out: pa.NativeFile, compression: str | None) -> None:
    """Append a batch to an open file as an Arrow stream of its own; without compression if None."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, batch.schema, options=options) as stream:
        stream.write_batch(batch)


def decode_batch(data: pa.Buffer) -> pa.RecordBatch:
    """Decode the bytes that `encode_batch` wrote."""
    return pa.ipc.open_stream(data).read_next_batch()


def scatter(values: Iterable[tuple[int, str]], rows: int) -> pa.StringArray:
    """Make a column of `rows` rows from (row, text) pairs; null elsewhere."""
    texts: list[str | None] = [None] * rows
    for row, text in values:
        texts[row] = text
    return pa.array(texts, pa.string())
