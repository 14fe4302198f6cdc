"""Dedupe: compare the run's message ids with each other and the id index, a hash range a task."""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.errors import Damaged, InvalidSettings
from eventlake.kernels.dedupe import DAY_MICROS, Ids, find_duplicates, match_earlier
from eventlake.model.commit import IdFile
from eventlake.pipeline.chunks import ID_ROW, ChunkMeta, IdPart, assign_buckets
from eventlake.stores import Range, Store
from eventlake.stores.damage import RESTORE, reading_parquet

ROW_GROUP_ROWS = 128 << 10
"""Rows per row group of an index file: a task reads those that overlap its bucket."""


@dataclass(frozen=True)
class DedupeJob:
    """The input of the deduplication tasks; each has one bucket."""

    store: Store
    stage: str
    days: int
    buckets: int
    parts: tuple[tuple[int, IdPart], ...]
    """Message ids in the stage, each with the number of the task that wrote them."""
    index: tuple[IdFile, ...]


class DedupeResult(msgspec.Struct):
    """The duplicates of one bucket, and the file of its other ids."""

    duplicate_rows: list[tuple[int, int, bytes]] = []
    """Reading task, number of the chunk in it, and row numbers as 32-bit integers."""
    path: str = ""
    """The file of the landed ids in the stage; empty if all are duplicates."""
    rows: int = 0
    first: int = 0
    last: int = 0


def dedupe_task(job: DedupeJob, bucket: int) -> bytes:
    """Find the duplicates of one bucket and write its other ids into the stage.

    The result is a `DedupeResult` as JSON.
    """
    parts = [(task, part) for task, part in job.parts if part.bucket == bucket]
    if not parts:
        return msgspec.json.encode(DedupeResult())
    rows = np.concatenate(list(_read_id_rows(job.store, [part for _, part in parts])))
    run = Ids(rows["high"], rows["low"], rows["received"])
    window = job.days * DAY_MICROS
    indexed = _read_index(job, bucket, run, window)
    duplicate = find_duplicates(run, rows["place"], indexed, window)
    tasks = np.repeat([task for task, _ in parts], [part.rows for _, part in parts])
    result = _write_landed_ids(run.at(~duplicate), job, bucket)
    result.duplicate_rows = list(_group_duplicates(tasks[duplicate], rows[duplicate]))
    return msgspec.json.encode(result)


def _read_id_rows(store: Store, parts: list[IdPart]) -> Iterator[np.ndarray]:
    ranges = [Range(part.object, part.offset, part.rows * ID_ROW.itemsize) for part in parts]
    for part, data in zip(parts, store.read_ranges(ranges), strict=True):
        rows = np.frombuffer(data, ID_ROW).copy()
        rows["chunk"] += part.chunk
        yield rows


def _read_index(job: DedupeJob, bucket: int, run: Ids, window: int) -> Iterator[Ids]:
    """The bucket's ids in the index files that are within the window of the run's events."""
    first, last = int(run.received.min()) - window, int(run.received.max()) + window
    for file in job.index:
        if file.last >= first and file.first <= last:
            ids = read_index_file(job.store, file, bucket, job.buckets)
            yield ids.at(assign_buckets(ids.high, job.buckets) == bucket)


def read_index_file(store: Store, file: IdFile, bucket: int = 0, buckets: int = 1) -> Ids:
    """Read the ids of an index file, without those that were removed from the lake since.

    Reads the row groups that overlap the bucket. Raises `Damaged` if a file is missing.
    """
    ids = _read_existing(store, file.path, bucket, buckets)
    for path in file.without:
        removed = _read_existing(store, path, bucket, buckets)
        ids = ids.at(~match_earlier(ids, removed, window=0))
    return ids


def _read_existing(store: Store, path: str, bucket: int, buckets: int) -> Ids:
    try:
        return read_ids(store, path, bucket, buckets)
    except InvalidSettings:
        if store.exists(path):
            raise
        raise Damaged(f"{store.root}/{path} is missing: {RESTORE}") from None


def read_ids(store: Store, path: str, bucket: int = 0, buckets: int = 1) -> Ids:
    """Read the row groups of an id file that overlap a bucket, in order of the hashes."""
    with reading_parquet(store, path), pq.ParquetFile(store.open(path)) as file:
        groups = [
            n for n in range(file.num_row_groups) if _overlaps_bucket(file, n, bucket, buckets)
        ]
        table = file.read_row_groups(groups, columns=["high", "low", "received"])
    return Ids(*(table[name].to_numpy() for name in ("high", "low", "received")))


def _overlaps_bucket(file: pq.ParquetFile, group: int, bucket: int, buckets: int) -> bool:
    high = file.metadata.row_group(group).column(0).statistics
    first, last = assign_buckets(np.array([high.min, high.max]), buckets)
    return bool(first <= bucket <= last)


def write_ids(store: Store, path: str, ids: Ids) -> None:
    """Write an id file, sorted by hash."""
    ids = ids.at(np.lexsort((ids.low, ids.high)))
    table = pa.table({"high": ids.high, "low": ids.low, "received": ids.received})
    sink = pa.BufferOutputStream()
    # Hashes do not compress, and a dictionary only costs time.
    pq.write_table(
        table, sink, row_group_size=ROW_GROUP_ROWS, use_dictionary=False, compression="none"
    )
    store.write(path, sink.getvalue())


def _write_landed_ids(ids: Ids, job: DedupeJob, bucket: int) -> DedupeResult:
    if not len(ids.high):
        return DedupeResult()
    path = f"{job.stage}/kept/{bucket:06d}-{uuid.uuid4().hex}.parquet"
    write_ids(job.store, path, ids)
    job.store.fsync(path)
    first, last = int(ids.received.min()), int(ids.received.max())
    return DedupeResult(path=path, rows=len(ids.high), first=first, last=last)


def _group_duplicates(tasks: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, int, bytes]]:
    """Group duplicates as in `DedupeResult.duplicate_rows`; `tasks` has each row's task."""
    if not len(tasks):
        return
    order = np.lexsort((rows["row"], rows["chunk"], tasks))
    tasks, rows = tasks[order], rows[order]
    changes = (np.diff(tasks) != 0) | (np.diff(rows["chunk"]) != 0)
    starts = np.flatnonzero(np.append(True, changes)).tolist()
    for start, end in zip(starts, [*starts[1:], len(tasks)], strict=True):
        row_numbers = rows["row"][start:end].astype("<i4").tobytes()
        yield int(tasks[start]), int(rows["chunk"][start]), row_numbers


def mark_duplicates(chunks: list[list[ChunkMeta]], results: list[DedupeResult]) -> None:
    """Set `duplicate_rows` of the chunks, which are given by task and number, in place."""
    rows_by_chunk: defaultdict[tuple[int, int], bytes] = defaultdict(bytes)
    for result in results:
        for task, chunk, rows in result.duplicate_rows:
            rows_by_chunk[task, chunk] += rows
    for (task, chunk), rows in rows_by_chunk.items():
        chunks[task][chunk].duplicate_rows = rows
