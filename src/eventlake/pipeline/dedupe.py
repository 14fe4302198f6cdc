"""Dedupe: the run's message ids meet the index of the window, a range of hashes a task."""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.errors import Damaged, InvalidSettings
from eventlake.kernels.dedupe import DAY_MICROS, Ids, find_duplicates
from eventlake.model.commit import IdFile
from eventlake.pipeline.chunks import ID_ROW, ChunkMeta, IdPart, bucket_of
from eventlake.stores import Range, Store
from eventlake.stores.damage import RESTORE, reading_parquet

ROW_GROUP = 128 << 10


@dataclass(frozen=True)
class DedupeJob:
    """What every task of the de-duplication needs; a task is a bucket."""

    store: Store
    stage: str
    days: int
    buckets: int
    parts: tuple[tuple[int, IdPart], ...]
    """The ids that the reading tasks left, each with the task's number."""
    index: tuple[IdFile, ...]


class DedupeResult(msgspec.Struct):
    """The duplicates of one bucket, and the ids that it keeps."""

    drops: list[tuple[int, int, bytes]] = []
    """A reading task, a chunk of it, and the rows that are duplicates."""
    kept: str = ""
    rows: int = 0
    first: int = 0
    last: int = 0


def dedupe_task(job: DedupeJob, bucket: int) -> bytes:
    """Find the duplicates of one bucket; the result is a `DedupeResult` as JSON."""
    parts = [(task, part) for task, part in job.parts if part.bucket == bucket]
    if not parts:
        return msgspec.json.encode(DedupeResult())
    rows = np.concatenate(list(_rows(job.store, [part for _, part in parts])))
    run = Ids(rows["high"], rows["low"], rows["received"])
    window = job.days * DAY_MICROS
    known = _known(job, bucket, run, window)
    duplicate = find_duplicates(run, rows["place"], known, window)
    tasks = np.repeat([task for task, _ in parts], [part.rows for _, part in parts])
    result = _keep(run.at(~duplicate), job, bucket)
    result.drops = list(_drops(tasks[duplicate], rows[duplicate]))
    return msgspec.json.encode(result)


def _rows(store: Store, parts: list[IdPart]) -> Iterator[np.ndarray]:
    ranges = [Range(part.object, part.offset, part.rows * ID_ROW.itemsize) for part in parts]
    for part, data in zip(parts, store.read_ranges(ranges), strict=True):
        rows = np.frombuffer(data, ID_ROW).copy()
        rows["chunk"] += part.chunk
        yield rows


def _known(job: DedupeJob, bucket: int, run: Ids, window: int) -> Iterator[Ids]:
    first, last = int(run.received.min()) - window, int(run.received.max()) + window
    for file in job.index:
        if file.last >= first and file.first <= last:
            ids = _committed_ids(job, file.path, bucket)
            yield ids.at(bucket_of(ids.high, job.buckets) == bucket)


def _committed_ids(job: DedupeJob, path: str, bucket: int) -> Ids:
    try:
        return read_ids(job.store, path, bucket, job.buckets)
    except InvalidSettings:
        if job.store.exists(path):
            raise
        raise Damaged(f"{job.store.root}/{path} is gone: {RESTORE}") from None


def read_ids(store: Store, path: str, bucket: int = 0, buckets: int = 1) -> Ids:
    """The ids that a run kept, in order of their hashes: all that may fall into a bucket."""
    with reading_parquet(store, path), pq.ParquetFile(store.open(path)) as file:
        groups = [n for n in range(file.num_row_groups) if _holds(file, n, bucket, buckets)]
        table = file.read_row_groups(groups, columns=["high", "low", "received"])
    return Ids(*(table[name].to_numpy() for name in ("high", "low", "received")))


def _holds(file: pq.ParquetFile, group: int, bucket: int, buckets: int) -> bool:
    high = file.metadata.row_group(group).column(0).statistics
    first, last = bucket_of(np.array([high.min, high.max]), buckets)
    return bool(first <= bucket <= last)


def write_ids(store: Store, path: str, ids: Ids) -> None:
    """Ids in order of their hashes, as the index keeps them."""
    ids = ids.at(np.lexsort((ids.low, ids.high)))
    table = pa.table({"high": ids.high, "low": ids.low, "received": ids.received})
    sink = pa.BufferOutputStream()
    # Hashes do not compress, and dictionaries of them only cost time.
    pq.write_table(table, sink, row_group_size=ROW_GROUP, use_dictionary=False, compression="none")
    store.write(path, sink.getvalue())


def _keep(kept: Ids, job: DedupeJob, bucket: int) -> DedupeResult:
    if not len(kept.high):
        return DedupeResult()
    path = f"{job.stage}/kept/{bucket:06d}-{uuid.uuid4().hex}.parquet"
    write_ids(job.store, path, kept)
    job.store.fsync(path)
    first, last = int(kept.received.min()), int(kept.received.max())
    return DedupeResult(kept=path, rows=len(kept.high), first=first, last=last)


def _drops(tasks: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, int, bytes]]:
    if not len(tasks):
        return
    order = np.lexsort((rows["row"], rows["chunk"], tasks))
    tasks, rows = tasks[order], rows[order]
    changes = (np.diff(tasks) != 0) | (np.diff(rows["chunk"]) != 0)
    starts = np.flatnonzero(np.append(True, changes)).tolist()
    for start, end in zip(starts, [*starts[1:], len(tasks)], strict=True):
        dropped = rows["row"][start:end].astype("<i4").tobytes()
        yield int(tasks[start]), int(rows["chunk"][start]), dropped


def drop(chunks: list[list[ChunkMeta]], results: list[DedupeResult]) -> None:
    """Tell each chunk which of its rows are duplicates."""
    found: defaultdict[tuple[int, int], bytes] = defaultdict(bytes)
    for result in results:
        for task, chunk, rows in result.drops:
            found[task, chunk] += rows
    for (task, chunk), rows in found.items():
        chunks[task][chunk].drops = rows
