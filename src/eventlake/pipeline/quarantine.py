"""The quarantine: tasks write their invalid lines in parts, which one task merges."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.route import LINE_BITS, RejectedLine
from eventlake.ledger import Ledger
from eventlake.stores import Store
from eventlake.stores.damage import reading_parquet

BATCH_ROWS = 256
"""Rows of the quarantine in memory, which may have 1 MiB each."""

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


def read_quarantine(store: Store, path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a quarantine file; raises `Damaged` if it cannot be read."""
    with reading_parquet(store, path), store.open(path) as file:
        opened = pq.ParquetFile(file)
        if missing := set(QUARANTINE_SCHEMA.names) - set(opened.schema_arrow.names):
            raise pa.ArrowInvalid(f"column {min(missing)} is missing")
        for batch in opened.iter_batches(BATCH_ROWS, columns=QUARANTINE_SCHEMA.names):
            yield batch.select(QUARANTINE_SCHEMA.names).cast(QUARANTINE_SCHEMA)


def find_quarantine_files(ledger: Ledger) -> list[str]:
    """The paths of a source's live quarantine files; in the stage if they are not published yet."""
    return choose_published(ledger, ledger.list_quarantine())


def choose_published(ledger: Ledger, files: Mapping[str, str]) -> list[str]:
    """The paths of quarantine files, given with those in the stage, as they can be read now."""
    folder = f"{ledger.layout.quarantine}/{ledger.folder}"
    published = {one.path for one in ledger.store.objects(folder)}
    return [path if path in published else staged for path, staged in files.items()]
