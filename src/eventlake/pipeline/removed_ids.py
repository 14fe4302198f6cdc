"""Collect the message ids of the rows that a run removes, so that the id index leaves them out."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow.parquet as pq

from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.dedupe import Ids, hash_ids
from eventlake.kernels.times import as_micros
from eventlake.model.commit import DataFile, IdFile
from eventlake.model.layout import Layout
from eventlake.pipeline.id_files import write_id_file
from eventlake.pipeline.results import DedupeResult
from eventlake.stores import Store
from eventlake.stores.damage import reading_parquet

TASK_ROWS = 2_000_000
"""Ids that a task collects in memory, and writes into one file."""
FIRST_REMOVED = 800_000
"""Number of a run's first file of removed ids; the files of its own ids have lower numbers."""


@dataclass(frozen=True)
class RemovedIdsJob:
    """The input of the tasks that collect removed ids."""

    store: Store
    stage: str
    id_column: str
    tasks: tuple[tuple[str, ...], ...]
    """The data files of each task."""


def group_files_by_rows(files: Iterable[DataFile]) -> tuple[tuple[str, ...], ...]:
    """Group the paths of files, in order, into tasks of `TASK_ROWS` rows or a file more.

    A file with an unknown number of rows ends its task.
    """
    groups: list[list[str]] = []
    rows = TASK_ROWS
    for file in files:
        if rows >= TASK_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(file.path)
        rows += file.rows or TASK_ROWS
    return tuple(map(tuple, groups))


def removed_ids_task(job: RemovedIdsJob, number: int) -> bytes:
    """Write the ids of one task's files into the stage; the result is a `DedupeResult` as JSON."""
    parts = [_read_ids(job, path) for path in job.tasks[number]]
    ids = Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return msgspec.json.encode(write_id_file(job.store, job.stage, f"removed-{number:06d}", ids))


def _read_ids(job: RemovedIdsJob, path: str) -> Ids:
    """Read the hashed ids of a data file's rows; rows without an id are left out.

    These have none in the index either. Raises `Damaged` if the file is corrupt.
    """
    with reading_parquet(job.store, path), pq.ParquetFile(job.store.open(path)) as file:
        rows = file.read(columns=[job.id_column, RECEIVED_AT])
    rows = rows.filter(rows[job.id_column].is_valid())
    high, low = hash_ids(rows[job.id_column].to_pylist())
    return Ids(high, low, as_micros(rows[RECEIVED_AT].combine_chunks()))


def removed_id_files(
    layout: Layout, folder: str, run_id: str, results: Iterable[DedupeResult]
) -> tuple[IdFile, ...]:
    """Return the files of removed ids, with staged and final path, numbered from `FIRST_REMOVED`.

    Results without ids have no file and no number.
    """
    return tuple(
        IdFile(
            path=layout.ids_path(folder, run_id, number),
            rows=one.rows,
            first=one.first,
            last=one.last,
            staged=one.path,
        )
        for number, one in enumerate((one for one in results if one.rows), FIRST_REMOVED)
    )
