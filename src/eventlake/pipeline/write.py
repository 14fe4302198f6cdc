"""Write: turn chunks into Parquet files in the stage, all tables in one Spark job."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.chunk_format import decode_batch, received_times
from eventlake.kernels.land import LandedRows, MaskedChunk, land_chunks, split_chunks
from eventlake.kernels.times import as_micros
from eventlake.kernels.user_hashes import HashCollector, Hashes
from eventlake.model.layout import DatePartition
from eventlake.model.schema import SchemaChange, TableSchema
from eventlake.model.settings import Compression
from eventlake.model.tunables import WriteTunables
from eventlake.pipeline.data_files import MAX_UPLOADS, OpenFile, UploadQueue
from eventlake.pipeline.quarantine import merge_quarantine_parts
from eventlake.pipeline.results import ChunkMeta, WriteResult, WrittenFile
from eventlake.pipeline.stage_paths import new_path
from eventlake.pipeline.tasks import Packed
from eventlake.pipeline.user_index import make_part
from eventlake.stores import Store
from eventlake.stores.ranges import batch_by_size

SLICE_CELLS = 24 << 20
"""Cells (rows times columns) that are cast and sorted at once: empty ones take memory too."""
CELL_BYTES = 8
"""Memory of an empty cell."""


@dataclass(frozen=True)
class WriteUnit:
    """Rows of one table, received in [since, until), that one task writes, a file per partition."""

    change: SchemaChange
    since: int
    until: int
    chunks: tuple[ChunkMeta, ...]

    @property
    def schema(self) -> TableSchema:
        """The table's schema after the run's changes."""
        return self.change.schema

    @property
    def bytes(self) -> int:
        """Estimated bytes to write; of a chunk that several units share, this unit's part."""
        return sum(chunk.size * self._share(chunk) // 256 for chunk in self.chunks)

    def _share(self, chunk: ChunkMeta) -> int:
        """The part of the chunk within the unit's time, in 256ths, at least 1.

        An estimate, as if the chunk's rows were spread evenly over its time.
        """
        span = max(1, chunk.last - chunk.first + 1)
        overlap = min(chunk.last + 1, self.until) - max(chunk.first, self.since)
        return max(1, overlap * 256 // span)


@dataclass(frozen=True)
class WriteJob:
    """The input of the writing tasks."""

    store: Store
    stage: str
    date_partition: DatePartition
    tasks: tuple[Packed[tuple[WriteUnit, ...]], ...]
    quarantine: tuple[str, ...]
    """The parts of the quarantine; one extra task merges them."""
    tunables: WriteTunables
    compression: Compression = Compression.ZSTD


def plan_units(
    change: SchemaChange, chunks: Iterable[ChunkMeta], by: DatePartition, unit_bytes: int
) -> Iterator[WriteUnit]:
    """Cut a table into units: one for a small table, else by partition, then by size.

    A unit has about `unit_bytes` of chunks at most, unless one chunk is larger. `chunks` must not
    be empty.
    """
    chunks = sorted(chunks, key=lambda chunk: (chunk.first, chunk.object, chunk.offset))
    cuts = _partition_bounds(chunks, by)
    since = cuts[0]
    while since < cuts[-1]:
        unit = _largest_unit(change, chunks, [cut for cut in cuts if cut >= since], unit_bytes)
        if unit.chunks:
            is_one_partition = unit.until - since <= by.span
            yield from _split_by_size(unit, unit_bytes) if is_one_partition else [unit]
        since = unit.until


def _partition_bounds(chunks: list[ChunkMeta], by: DatePartition) -> list[int]:
    """Sorted starts and ends, in microseconds, of the partitions that chunks begin or end in."""
    starts = {chunk.first // by.span * by.span for chunk in chunks}
    starts |= {chunk.last // by.span * by.span for chunk in chunks}
    return sorted(starts | {start + by.span for start in starts})


def _largest_unit(
    change: SchemaChange, chunks: list[ChunkMeta], cuts: list[int], unit_bytes: int
) -> WriteUnit:
    """Return the unit from the first cut to the latest one at which it is within `unit_bytes`.

    If there is none, the unit to the second cut, which is larger.
    """
    since, *later = cuts
    for until in reversed(later):
        unit = WriteUnit(change, since, until, _chunks_between(chunks, since, until))
        if unit.bytes <= unit_bytes:
            break
    return unit


def _chunks_between(chunks: Iterable[ChunkMeta], since: int, until: int) -> tuple[ChunkMeta, ...]:
    """The chunks that may have rows received in [since, until), by their first and last time."""
    return tuple(chunk for chunk in chunks if chunk.first < until and chunk.last >= since)


def _split_by_size(unit: WriteUnit, unit_bytes: int) -> Iterator[WriteUnit]:
    """Split a unit of one partition into units of about `unit_bytes`, of the same time.

    Each has some of the chunks; a chunk is never split.
    """
    parts = max(1, round(unit.bytes / unit_bytes))
    for part in range(min(parts, len(unit.chunks))):
        yield WriteUnit(unit.change, unit.since, unit.until, unit.chunks[part::parts])


def write_task(job: WriteJob, number: int) -> bytes:
    """Write the units of one task, or merge the quarantine; returns a `WriteResult` as JSON.

    The task after the last one of `job.tasks` merges the quarantine. Files are fsynced at the end.
    """
    if number == len(job.tasks):
        path = new_path(f"{job.stage}/quarantine", "merged", ".parquet")
        merge_quarantine_parts(job.store, path, job.quarantine)
        return msgspec.json.encode(WriteResult(quarantine=path))
    result, tunables = WriteResult(), job.tunables
    units = job.tasks[number].unpack()
    slices = [one for unit in units for one in _split_into_slices(unit, tunables.slice_bytes)]
    data = job.store.read_ranges([chunk.range for one in slices for chunk in one.chunks])
    with ThreadPoolExecutor(MAX_UPLOADS) as pool:
        files = _FileWriter(job, UploadQueue(job.store, pool))
        for batch in batch_by_size(slices, tunables.land_bytes):
            landed = ((one.unit, rows) for one in batch for rows in _land_slice(one, data))
            # One large slice is written while it is landed; many small ones after it.
            for unit, rows in landed if len(batch) == 1 else list(landed):
                files.add(unit, rows.table)
                rescued = result.rescued.get(unit.schema.name, 0) + rows.rescued
                result.rescued[unit.schema.name] = rescued
        result.files = files.finish()
        result.users = make_part(job.store, job.stage, f"write-{number:06d}", files.users())
        # Fsync all files at the end, several at once: the disk has written most of them by then,
        # and one journal entry serves all that wait.
        list(pool.map(job.store.fsync, [file.path for file in result.files]))
    return msgspec.json.encode(result)


class Slice(NamedTuple):
    """A time range of a unit, and the chunks that have rows in it."""

    unit: WriteUnit
    since: int
    until: int
    chunks: tuple[ChunkMeta, ...]

    @property
    def size(self) -> int:
        """Estimated memory of its rows once landed, including empty cells."""
        cells = sum(chunk.rows for chunk in self.chunks) * len(self.unit.schema.columns)
        return sum(chunk.memory for chunk in self.chunks) + CELL_BYTES * cells


def _split_into_slices(unit: WriteUnit, slice_bytes: int) -> Iterator[Slice]:
    """Split a unit into slices of equal duration, about `slice_bytes` and `SLICE_CELLS` at most.

    As if rows were spread evenly: a slice of a busy time is larger.
    """
    cells = sum(chunk.rows for chunk in unit.chunks) * len(unit.schema.columns)
    size = sum(chunk.memory for chunk in unit.chunks)
    pieces = max(1, -(-size // slice_bytes), -(-cells // SLICE_CELLS))
    since = max(unit.since, min(chunk.first for chunk in unit.chunks))
    until = min(unit.until, max(chunk.last for chunk in unit.chunks) + 1)
    ends = [since + (until - since) * piece // pieces for piece in range(pieces + 1)]
    return (Slice(unit, a, b, _chunks_between(unit.chunks, a, b)) for a, b in pairwise(ends))


def _land_slice(one: Slice, data: Iterator[pa.Buffer]) -> Iterator[LandedRows]:
    """Yield the rows of a slice as they land, in batches; consumes one buffer of `data` per chunk.

    Batches are in order of receipt. Yields nothing if all rows are duplicates.
    """
    parts = [part for chunk in one.chunks if (part := _decode_chunk(chunk, one, next(data)))]
    for batch in split_chunks(parts, max(1, SLICE_CELLS // len(one.unit.schema.columns))):
        yield land_chunks(batch, one.unit.schema, len(one.unit.change.added))


def _decode_chunk(chunk: ChunkMeta, in_slice: Slice, data: pa.Buffer) -> MaskedChunk | None:
    """Decode a chunk and select its rows in the slice that are not duplicates; None if none are."""
    batch = decode_batch(data)
    received = received_times(batch)
    keep = (received >= in_slice.since) & (received < in_slice.until)
    keep[np.frombuffer(chunk.duplicate_rows, "<i4")] = False
    return MaskedChunk(batch, keep) if keep.any() else None


class _FileWriter:
    """Writes rows, in order of receipt, to a file per unit and partition, a row group per slice."""

    def __init__(self, job: WriteJob, queue: UploadQueue) -> None:
        self._job, self._queue = job, queue
        self._files: list[WrittenFile] = []
        self._ids = HashCollector()
        self._unit: WriteUnit | None = None
        self._start = 0
        self._file: OpenFile | None = None

    def add(self, unit: WriteUnit, rows: pa.Table) -> None:
        """Write rows, sorted by time of receipt; another unit or partition begins a new file.

        All rows of a unit must be added before those of the next.
        """
        if unit is not self._unit:
            self._close()
            self._unit = unit
        span = self._job.date_partition.span
        starts = as_micros(rows[RECEIVED_AT].combine_chunks()) // span * span
        cuts = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(starts)]
        for begin, end in pairwise(cuts):
            self._write(int(starts[begin]), rows.slice(begin, end - begin))

    def finish(self) -> list[WrittenFile]:
        """Wait until all files are in the stage, and return them; raises the error of an upload."""
        self._close()
        self._queue.wait(0)
        return self._files

    def users(self) -> dict[str, Hashes]:
        """Return the hashes of the users' ids in each file, by its path; call after `finish`."""
        return {self._files[number].path: one for number, one in self._ids.finish().items()}

    def _write(self, start: int, rows: pa.Table) -> None:
        """Write rows of the partition that begins at `start`, as a row group of the open file.

        Begins a new file for another partition or schema.
        """
        if self._file is None or start != self._start or rows.schema != self._file.schema:
            self._close()
            self._start = start
            job = self._job
            self._file = OpenFile(rows, job.compression, job.tunables.small_file_rows)
        self._file.write(rows)
        self._ids.add_table(len(self._files), rows)

    def _close(self) -> None:
        """Complete the open file and pass it to the upload queue; do nothing without one."""
        if self._unit is None or self._file is None:
            return
        folder, table = f"{self._job.stage}/write", self._unit.schema.name
        self._files.append(self._file.finish(self._queue, folder, table, self._start))
        self._file = None
