"""The quarantine: tasks write their invalid lines in parts, which one task merges."""

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.route import LINE_BITS, RejectedLine
from eventlake.stores import Store

QUARANTINE_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.binary()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("run_id", pa.string()),
    ]
)


def write_quarantine_part(
    store: Store,
    path: str,
    rejected: Iterable[RejectedLine],
    file_name: Callable[[int], str],
    run_id: str,
) -> None:
    """Write invalid lines to a Parquet file, sorted by place.

    `file_name` returns the address to show for the input with this index.
    """
    rejected = sorted(rejected, key=lambda one: one.place)
    columns = [
        [one.reason for one in rejected],
        [one.detail for one in rejected],
        [one.raw for one in rejected],
        [file_name(one.place >> LINE_BITS) for one in rejected],
        [one.place & ((1 << LINE_BITS) - 1) for one in rejected],
        [run_id] * len(rejected),
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=QUARANTINE_SCHEMA), sink, compression="zstd")
    store.write(path, sink.getvalue())


def merge_quarantine_parts(store: Store, path: str, parts: Iterable[str]) -> None:
    """Merge parts into one file at `path`, in their order, and fsync it; the parts stay.

    Holds one part and the compressed result in memory.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, QUARANTINE_SCHEMA, compression="zstd") as writer:
        for part in parts:
            writer.write_table(pq.read_table(store.open(part)))
    store.write(path, sink.getvalue())
    store.fsync(path)
