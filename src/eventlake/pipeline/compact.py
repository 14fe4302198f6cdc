"""Compact: merge the small files of partitions into files of the target size, in the stage.

The rows of a partition's files are merged in order of receipt. Every file is sorted, so it is read
in batches, and rows leave memory as soon as no later batch can have an earlier one.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.land import merge_sorted
from eventlake.kernels.times import as_micros
from eventlake.ledger.files import LiveFile
from eventlake.model.commit import DataFile
from eventlake.model.layout import DatePartition, partition_path
from eventlake.model.schema import TableSchema
from eventlake.model.settings import Compression
from eventlake.model.tunables import WriteTunables
from eventlake.model.types import timestamp
from eventlake.pipeline.data_files import MAX_UPLOADS, OpenFile, UploadQueue
from eventlake.pipeline.results import WriteResult, WrittenFile
from eventlake.pipeline.tasks import Packed
from eventlake.stores import Range, Store
from eventlake.stores.damage import damaged, reading_parquet

GROUP_CELLS = 24 << 20
"""Cells (rows times columns) of a row group, at most: empty ones take memory too."""
MIN_BATCH_ROWS = 1024
"""Rows that are decoded at a time, at least."""
NEVER = 1 << 62
"""Later than any time of receipt."""


def list_small_files(
    files: Mapping[str, Iterable[LiveFile]], before: str, file_bytes: int
) -> dict[str, list[LiveFile]]:
    """Return the files below `file_bytes` of sealed partitions, by table.

    The newest event of a sealed partition was received before `before`, a time as in statistics.
    Files of other programs, whose times are not known, are left out.
    """
    return {
        table: [
            file
            for of_partition in _by_partition(file for file in of_table if file.received)
            if all(file.received and file.received[1] < before for file in of_partition)
            for file in of_partition
            if file.bytes < file_bytes
        ]
        for table, of_table in files.items()
    }


def select_merges(
    files: Mapping[str, Iterable[LiveFile]], max_files: int, max_bytes: int
) -> dict[str, list[LiveFile]]:
    """Return the files to merge, by table: of each partition with at least two, the first.

    Of a partition as many as reach `max_bytes`, and of the whole partitions as many as reach
    `max_files`. Tables without any are left out.
    """
    selected: dict[str, list[LiveFile]] = {}
    count = 0
    for table, of_table in sorted(files.items()):
        for of_partition in _by_partition(of_table):
            if count >= max_files:
                return selected
            if len(of_partition) > 1:
                first = _take_first(of_partition, max_bytes)
                selected.setdefault(table, []).extend(first)
                count += len(first)
    return selected


def _by_partition(files: Iterable[LiveFile]) -> list[list[LiveFile]]:
    partitions: dict[str, list[LiveFile]] = {}
    for file in files:
        partitions.setdefault(partition_path(file.partition), []).append(file)
    return [of_partition for _, of_partition in sorted(partitions.items())]


def _take_first(files: Iterable[LiveFile], max_bytes: int) -> list[LiveFile]:
    """Return the files with the first events: two, and more until they have `max_bytes`."""
    first: list[LiveFile] = []
    for file in sorted(files, key=lambda file: (file.received, file.path)):
        if len(first) >= 2 and sum(one.bytes for one in first) >= max_bytes:
            break
        first.append(file)
    return first


def has_columns_of(table: TableSchema, schema: pa.Schema) -> bool:
    """Whether a table has all columns of a file's schema, with the same types."""
    types = table.types
    return all(
        field.name in types and ARROW_BY_TYPE[types[field.name]] == field.type for field in schema
    )


@dataclass(frozen=True)
class MergeUnit:
    """The small files of one partition, which one task merges."""

    table: TableSchema
    start: int
    """Start of the partition, in microseconds."""
    files: tuple[DataFile, ...]
    """In order of their first event."""

    @property
    def bytes(self) -> int:
        """The size of the files to merge."""
        return sum(file.bytes for file in self.files)

    def count_group_rows(self, group_bytes: int) -> int:
        """The number of rows that make a row group of about `group_bytes`."""
        rows = sum(file.rows or 0 for file in self.files)
        by_cells = GROUP_CELLS // len(self.table.columns)
        return max(1, min(by_cells, rows * group_bytes // max(1, self.bytes)))


def plan_merges(
    tables: Mapping[str, TableSchema], files: Mapping[str, Iterable[DataFile]], by: DatePartition
) -> list[MergeUnit]:
    """Group the files to merge, given by table, into a unit for each partition."""
    units = []
    for name, of_table in sorted(files.items()):
        partitions: dict[int, list[DataFile]] = {}
        for file in of_table:
            partitions.setdefault(by.start(file.partition), []).append(file)
        units += [
            MergeUnit(tables[name], start, tuple(sorted(of_partition, key=first_received)))
            for start, of_partition in sorted(partitions.items())
        ]
    return units


def first_received(file: DataFile) -> int:
    """The first time of receipt in a file, in microseconds, by its statistics."""
    moment = timestamp(str(file.stats[RECEIVED_AT][1]))
    assert moment is not None, file.path
    return moment


@dataclass(frozen=True)
class CompactJob:
    """The input of the compacting tasks."""

    store: Store
    stage: str
    tasks: tuple[Packed[tuple[MergeUnit, ...]], ...]
    tunables: WriteTunables
    compression: Compression


def compact_task(job: CompactJob, number: int) -> bytes:
    """Merge the units of one task into files in the stage; returns a `WriteResult` as JSON."""
    units = job.tasks[number].unpack()
    whole = (Range(file.path, 0, file.bytes) for unit in units for file in unit.files)
    data = job.store.read_ranges(whole)
    result = WriteResult()
    with ThreadPoolExecutor(MAX_UPLOADS) as pool:
        queue = UploadQueue(job.store, pool)
        for unit in units:
            result.files += _merge_unit(job, unit, data, queue)
        queue.wait(0)
        # All at the end, several at once, as in `write_task`.
        list(pool.map(job.store.fsync, [file.path for file in result.files]))
    return msgspec.json.encode(result)


def _merge_unit(
    job: CompactJob, unit: MergeUnit, data: Iterator[pa.Buffer], queue: UploadQueue
) -> Iterator[WrittenFile]:
    """Write the rows of a unit, and yield its files; all but the last have the target size."""
    folder, name = f"{job.stage}/compact", unit.table.name
    file: OpenFile | None = None
    group_rows = unit.count_group_rows(job.tunables.group_bytes)
    for rows in _gather(_merge_rows(job.store, unit, data, group_rows), group_rows // 2):
        file = file or OpenFile(rows, job.compression, job.tunables.small_file_rows)
        file.write(rows)
        if file.size >= job.tunables.file_bytes:
            yield file.finish(queue, folder, name, unit.start)
            file = None
    if file:
        yield file.finish(queue, folder, name, unit.start)


def _gather(tables: Iterable[pa.Table], min_rows: int) -> Iterator[pa.Table]:
    """Concatenate tables until they have `min_rows`; only the last that is yielded has fewer."""
    group: list[pa.Table] = []
    for table in tables:
        group.append(table)
        if sum(map(len, group)) >= min_rows:
            yield pa.concat_tables(group)
            group = []
    if group:
        yield pa.concat_tables(group)


def _merge_rows(
    store: Store, unit: MergeUnit, data: Iterator[pa.Buffer], max_rows: int
) -> Iterator[pa.Table]:
    """Yield the rows of all files of a unit in order of receipt; consumes a buffer for each.

    Holds about `max_rows` in memory, or a batch of each file that has rows of the same time.
    """
    waiting = deque((first_received(file), file) for file in unit.files)
    batch_rows = max(MIN_BATCH_ROWS, max_rows // len(unit.files))
    is_open: list[_SortedFile] = []
    while waiting or is_open:
        # Files are opened until there are enough rows, and as long as they may have the next one.
        while waiting and (
            sum(len(file.times) for file in is_open) < max_rows
            or waiting[0][0] <= min(int(file.times[0]) for file in is_open)
        ):
            _, file = waiting.popleft()
            is_open.append(_SortedFile(store, unit.table, file.path, next(data), batch_rows))
        # No row that is not in memory was received before this.
        ends = [int(file.times[-1]) for file in is_open if file.unread]
        until = min([*ends, waiting[0][0] if waiting else NEVER])
        yield merge_sorted([file.take(until) for file in is_open])
        is_open = [file for file in is_open if len(file.times) or file.read()]


class _SortedFile:
    """The rows of a file that were read and not taken yet, with the columns of the table."""

    def __init__(
        self, store: Store, table: TableSchema, path: str, data: pa.Buffer, batch_rows: int
    ) -> None:
        """Open a file and read its first rows; raises `Damaged` if it cannot be read."""
        self._store, self._path = store, path
        self._schema = pa.schema([(one.name, ARROW_BY_TYPE[one.type]) for one in table.columns])
        with reading_parquet(store, path):
            file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
            self._batches = file.iter_batches(batch_rows, use_threads=False)
        if not has_columns_of(table, file.schema_arrow):
            raise damaged(store, path, "its columns or types are not those of the ledger")
        self.unread = file.metadata.num_rows
        self.read()

    def read(self) -> bool:
        """Replace the rows, all of which were taken, by the next ones; False at the end."""
        if not self.unread:
            return False
        with reading_parquet(self._store, self._path):
            batch = next(self._batches)
        self.unread -= len(batch)
        names = set(batch.schema.names)
        arrays = [
            batch.column(one.name) if one.name in names else pa.nulls(len(batch), one.type)
            for one in self._schema
        ]
        self._rows = pa.Table.from_arrays(arrays, schema=self._schema)
        self.times = as_micros(batch.column(RECEIVED_AT))
        return True

    def take(self, until: int) -> pa.Table:
        """Remove and return the rows received up to and including `until`."""
        count = int(np.searchsorted(self.times, until, side="right"))
        taken, self._rows = self._rows.slice(0, count), self._rows.slice(count)
        self.times = self.times[count:]
        return taken
