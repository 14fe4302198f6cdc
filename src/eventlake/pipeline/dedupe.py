"""Dedupe: compare the run's message ids with each other and the id index, a hash range a task."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from eventlake.kernels.dedupe import DAY_MICROS, Ids, find_duplicates, pack_hashes
from eventlake.model.commit import IdFile
from eventlake.pipeline.id_files import (
    assign_buckets,
    read_id_rows,
    read_index_file,
    write_id_file,
)
from eventlake.pipeline.results import MAX_DUPLICATE_IDS, DedupeResult, IdPart
from eventlake.stores import Store


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


def dedupe_task(job: DedupeJob, bucket: int) -> bytes:
    """Find the duplicates of one bucket and write its other ids into the stage.

    An event is a duplicate if one with its id, of this run or the index, is kept within `job.days`
    of it; of a run's own, the first received is kept. The result is a `DedupeResult` as JSON.
    """
    parts = [(task, part) for task, part in job.parts if part.bucket == bucket]
    if not parts:
        return msgspec.json.encode(DedupeResult())
    rows = np.concatenate(list(read_id_rows(job.store, [part for _, part in parts])))
    run = Ids(rows["high"], rows["low"], rows["received"])
    window = job.days * DAY_MICROS
    indexed = _read_index(job, bucket, run, window)
    duplicate = find_duplicates(run, rows["place"], indexed, window)
    tasks = np.repeat([task for task, _ in parts], [part.rows for _, part in parts])
    result = write_id_file(job.store, job.stage, f"{bucket:06d}", run.at(~duplicate))
    if duplicate.sum() <= MAX_DUPLICATE_IDS:
        result.duplicate_ids = pack_hashes(run.at(duplicate))
    result.duplicate_rows = list(_group_duplicates(tasks[duplicate], rows[duplicate]))
    return msgspec.json.encode(result)


def _read_index(job: DedupeJob, bucket: int, run: Ids, window: int) -> Iterator[Ids]:
    """Yield the bucket's ids of each index file with times within `window` of the run's events."""
    first, last = int(run.received.min()) - window, int(run.received.max()) + window
    for file in job.index:
        if file.last >= first and file.first <= last:
            ids = read_index_file(job.store, file, bucket, job.buckets)
            yield ids.at(assign_buckets(ids.high, job.buckets) == bucket)


def _group_duplicates(tasks: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, int, bytes]]:
    """Yield the duplicates as in `DedupeResult.duplicate_rows`: by task and chunk, sorted.

    `rows` are `ID_ROW`, and `tasks` has the number of the reading task of each.
    """
    if not len(tasks):
        return
    order = np.lexsort((rows["row"], rows["chunk"], tasks))
    tasks, rows = tasks[order], rows[order]
    changes = (np.diff(tasks) != 0) | (np.diff(rows["chunk"]) != 0)
    starts = np.flatnonzero(np.append(True, changes)).tolist()
    for start, end in zip(starts, [*starts[1:], len(tasks)], strict=True):
        row_numbers = rows["row"][start:end].astype("<i4").tobytes()
        yield int(tasks[start]), int(rows["chunk"][start]), row_numbers
