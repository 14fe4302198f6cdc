"""Files of message ids: those of a run's tasks in the stage, and those of the id index."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.errors import Damaged, InvalidSettings
from eventlake.kernels.dedupe import Ids, match_earlier
from eventlake.model.commit import IdFile
from eventlake.pipeline.results import DedupeResult, IdPart
from eventlake.pipeline.stage_paths import new_path
from eventlake.stores import Range, Store
from eventlake.stores.damage import RESTORE, reading_parquet

ROW_GROUP_ROWS = 128 << 10
"""Rows per row group of an index file: a task reads those that overlap its bucket."""
ID_ROW = np.dtype(
    [
        ("high", "<i8"),
        ("low", "<i8"),
        ("received", "<i8"),
        ("place", "<i8"),
        ("chunk", "<i4"),
        ("row", "<i4"),
    ]
)
"""A message id in the stage, with the place of its event in the inputs and in the chunks."""


def assign_buckets(high: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each hash, from 0: equal ranges of hashes, in ascending order."""
    upper = (high.astype(np.int64) >> 32) + (1 << 31)
    return (upper * buckets) >> 32


def write_id_rows(
    store: Store, path: str, rows: np.ndarray, buckets: int, first_chunk: int
) -> list[IdPart]:
    """Write `ID_ROW` rows to `path`, sorted by bucket; return the range of each bucket with rows.

    The rows' chunk numbers begin with 0, which stands for the task's chunk `first_chunk`.
    """
    numbers = assign_buckets(rows["high"], buckets)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(buckets + 1))
    store.write(path, rows[order].tobytes())
    return [
        IdPart(bucket, path, int(start) * ID_ROW.itemsize, int(end - start), first_chunk)
        for bucket, (start, end) in enumerate(pairwise(ends))
        if end > start
    ]


def read_id_rows(store: Store, parts: Sequence[IdPart]) -> Iterator[np.ndarray]:
    """Read the rows of each part as `ID_ROW`, their chunk numbers counted from the task's first."""
    ranges = [Range(part.object, part.offset, part.rows * ID_ROW.itemsize) for part in parts]
    for part, data in zip(parts, store.read_ranges(ranges), strict=True):
        rows = np.frombuffer(data, ID_ROW).copy()
        rows["chunk"] += part.chunk
        yield rows


def write_ids(store: Store, path: str, ids: Ids, row_group_rows: int = ROW_GROUP_ROWS) -> None:
    """Write a Parquet file of the id index, sorted by hash; repeated ids stay."""
    ids = ids.at(np.lexsort((ids.low, ids.high)))
    table = pa.table({"high": ids.high, "low": ids.low, "received": ids.received})
    sink = pa.BufferOutputStream()
    # Hashes do not compress, and a dictionary only costs time.
    pq.write_table(
        table, sink, row_group_size=row_group_rows, use_dictionary=False, compression="none"
    )
    store.write(path, sink.getvalue())


def write_id_file(store: Store, stage: str, label: str, ids: Ids) -> DedupeResult:
    """Write ids into the stage as a file of the index, with a path that begins with `label`.

    Returns its path, rows and first and last time of receipt. Writes nothing if there are no ids,
    and returns an empty result.
    """
    if not len(ids.high):
        return DedupeResult()
    path = new_path(f"{stage}/kept", label, ".parquet")
    write_ids(store, path, ids)
    store.fsync(path)
    first, last = int(ids.received.min()), int(ids.received.max())
    return DedupeResult(path=path, rows=len(ids.high), first=first, last=last)


def read_index_file(store: Store, file: IdFile, bucket: int = 0, buckets: int = 1) -> Ids:
    """Read the ids of an index file, without those that were removed from the lake since.

    Reads whole row groups that overlap the bucket, so it may return ids of other buckets too; by
    default, reads all. Raises `Damaged` if a file is missing or corrupt.
    """
    is_small = file.rows <= ROW_GROUP_ROWS
    ids = _read_ids_or_damaged(store, file.path, bucket, buckets, whole=is_small)
    for path in file.without:
        removed = _read_ids_or_damaged(store, path, bucket, buckets)
        ids = ids.at(~match_earlier(ids, removed, window=0))
    return ids


def _read_ids_or_damaged(
    store: Store, path: str, bucket: int, buckets: int, *, whole: bool = False
) -> Ids:
    """Do `read_ids`, which reads all that overlaps the bucket; a missing file raises `Damaged`."""
    try:
        return read_ids(store, path, bucket, buckets, whole=whole)
    except InvalidSettings:
        if store.exists(path):
            raise
        raise Damaged(f"{store.root}/{path} is missing: {RESTORE}") from None


def read_ids(
    store: Store, path: str, bucket: int = 0, buckets: int = 1, *, whole: bool = False
) -> Ids:
    """Read the row groups of an index file that overlap a bucket, in order of the hashes.

    They may have ids of other buckets too. With `whole`, gets all of the file's bytes in one
    request, rather than its size, its footer and then its row groups. Raises `InvalidSettings` if
    the file is missing, `Damaged` if it is corrupt.
    """
    source = pa.BufferReader(store.read(path)) if whole else store.open(path)
    with reading_parquet(store, path), pq.ParquetFile(source) as file:
        groups = [
            n for n in range(file.num_row_groups) if _overlaps_bucket(file, n, bucket, buckets)
        ]
        table = file.read_row_groups(groups, columns=["high", "low", "received"])
    return Ids(*(table[name].to_numpy() for name in ("high", "low", "received")))


def _overlaps_bucket(file: pq.ParquetFile, group: int, bucket: int, buckets: int) -> bool:
    """Whether a row group may have hashes of the bucket, by the statistics in the footer."""
    high = file.metadata.row_group(group).column(0).statistics
    first, last = assign_buckets(np.array([high.min, high.max]), buckets)
    return bool(first <= bucket <= last)
