"""Write: chunks to Parquet in the stage, all tables in one job."""

import pickle
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.chunk import RECEIVED_AT, received_times
from eventlake.kernels.land import LandedRows, MaskedChunk, land_chunks, split_chunks
from eventlake.kernels.stats import file_stats
from eventlake.kernels.times import as_micros
from eventlake.model.commit import ColumnStats
from eventlake.model.layout import DatePartition
from eventlake.model.schema import TableSchema
from eventlake.pipeline.chunks import QUARANTINE, ChunkMeta
from eventlake.pipeline.evolve import Growth
from eventlake.stores import Store
from eventlake.stores.ranges import batch_by_size

UNIT = 200 << 20
"""Bytes of chunks that make a file; Parquet takes about as much as they do."""
SLICE = 64 << 20
"""Bytes of chunks in memory whose rows are cast and sorted at once."""
CELLS = 24 << 20
"""And cells: a wide table's empty ones take room too."""
TASK = 2 * UNIT
"""Bytes that a task writes at most: one that is lost is done again."""
LEAST = 12
"""Parts of each core's work: a task that is smaller costs more to hand out than it levels."""
OVERHEAD = 1 << 20
"""What a table of a few rows costs, in bytes of a large one."""
CELL = 8
"""Bytes that an empty cell takes."""
AT_A_TIME = 32 << 20
"""Bytes of rows that are landed before they are written: work of one kind, for many
small tables in a row, takes less than both kinds by turns."""
AT_ONCE = 8
"""Files that are put into the stage, and made durable, at a time."""
FEW_ROWS = 500
"""Rows that are as small without dictionaries as with them, and read faster than statistics of all
their columns, which would be a seventh of such a file."""


@dataclass(frozen=True)
class Unit:
    """Rows of one table, received in [since, until), that one task writes."""

    growth: Growth
    since: int
    until: int
    chunks: tuple[ChunkMeta, ...]

    @property
    def schema(self) -> TableSchema:
        return self.growth.schema

    @property
    def bytes(self) -> int:
        """About how much there is to write: a chunk may belong to several units."""
        return sum(chunk.size * self._share(chunk) // 256 for chunk in self.chunks)

    def _share(self, chunk: ChunkMeta) -> int:
        span = max(1, chunk.last - chunk.first + 1)
        overlap = min(chunk.last + 1, self.until) - max(chunk.first, self.since)
        return max(1, overlap * 256 // span)


@dataclass(frozen=True)
class WriteJob:
    """What every writing task needs."""

    store: Store
    stage: str
    date_partition: DatePartition
    tasks: tuple[bytes, ...]
    """The units of each task, pickled: a task unpacks only its own."""
    quarantine: tuple[str, ...]
    """The quarantine's parts, which one task more joins."""


class Written(msgspec.Struct):
    """A Parquet file in the stage."""

    table: str
    start: int
    """When its partition begins."""
    path: str
    rows: int
    bytes: int
    stats: dict[str, ColumnStats] = {}


class WriteResult(msgspec.Struct):
    """What one task wrote, and the values it rescued by table."""

    files: list[Written] = []
    rescued: dict[str, int] = {}
    quarantine: str = ""


def plan_units(growth: Growth, chunks: list[ChunkMeta], by: DatePartition) -> Iterator[Unit]:
    """A table's chunks in units: one for a small table, else by partition, else by size."""
    chunks = sorted(chunks, key=lambda chunk: (chunk.first, chunk.object, chunk.offset))
    cuts = _cuts(chunks, by)
    since = cuts[0]
    while since < cuts[-1]:
        until = _until(growth, chunks, since, [cut for cut in cuts if cut > since])
        unit = Unit(growth, since, until, _overlapping(chunks, since, until))
        if unit.chunks:
            yield from _halved(unit) if until - since <= by.span else [unit]
        since = until


def _cuts(chunks: list[ChunkMeta], by: DatePartition) -> list[int]:
    """Where partitions meet that chunks begin or end in; between these there is nothing to cut."""
    starts = {chunk.first // by.span * by.span for chunk in chunks}
    starts |= {chunk.last // by.span * by.span for chunk in chunks}
    return sorted(starts | {start + by.span for start in starts})


def _until(growth: Growth, chunks: list[ChunkMeta], since: int, cuts: list[int]) -> int:
    """As many whole partitions as a unit holds, at least one."""
    for until in reversed(cuts):
        if Unit(growth, since, until, _overlapping(chunks, since, until)).bytes <= UNIT:
            return until
    return cuts[0]


def _overlapping(chunks: Iterable[ChunkMeta], since: int, until: int) -> tuple[ChunkMeta, ...]:
    return tuple(chunk for chunk in chunks if chunk.first < until and chunk.last >= since)


def _halved(unit: Unit) -> Iterator[Unit]:
    """A partition that is too much for one file, by chunks."""
    parts = max(1, round(unit.bytes / UNIT))
    for part in range(min(parts, len(unit.chunks))):
        yield Unit(unit.growth, unit.since, unit.until, unit.chunks[part::parts])


def plan_tasks(units: Iterable[Unit], parallelism: int) -> tuple[tuple[Unit, ...], ...]:
    """Units in tasks, neighbours together, the largest tasks first.

    Each takes a share of what is left: the last ones are small, and no core waits long for them.
    """
    sizes = [(unit, unit.bytes + OVERHEAD) for unit in units]
    left = sum(size for _, size in sizes)
    least = left // (LEAST * parallelism)
    tasks: list[tuple[int, list[Unit]]] = [(0, [])]
    for unit, size in sizes:
        held, task = tasks[-1]
        share = min(TASK, max(least, (left + held) // (2 * parallelism)))
        if task and held + size > share:
            tasks.append((size, [unit]))
        else:
            tasks[-1] = (held + size, [*task, unit])
        left -= size
    return tuple(tuple(task) for _, task in sorted(tasks, key=lambda one: -one[0]) if task)


def write_task(job: WriteJob, number: int) -> bytes:
    """Write the units of one task; the result is a `WriteResult` as JSON."""
    if number == len(job.tasks):
        return msgspec.json.encode(WriteResult(quarantine=_join_quarantine(job)))
    result = WriteResult()
    units: tuple[Unit, ...] = pickle.loads(job.tasks[number])  # noqa: S301 - from our own driver
    slices = [one for unit in units for one in _slices(unit)]
    data = job.store.read_ranges([chunk.range for one in slices for chunk in one.chunks])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = _Files(job, Left(job.store, pool))
        for some in batch_by_size(slices, AT_A_TIME):
            landed = ((one.unit, rows) for one in some for rows in _landed(one, data))
            # One large slice is written while it is landed; many small ones after it.
            for unit, rows in landed if len(some) == 1 else list(landed):
                files.add(unit, rows.table)
                rescued = result.rescued.get(unit.schema.name, 0) + rows.rescued
                result.rescued[unit.schema.name] = rescued
        result.files = files.done()
        # All at the end, when the disk has most of them already, and several at once: one entry
        # in the file system's journal does for all that wait.
        list(pool.map(job.store.fsync, [file.path for file in result.files]))
    return msgspec.json.encode(result)


@dataclass
class Left:
    """Files on their way into the stage while the next are made."""

    store: Store
    pool: ThreadPoolExecutor
    coming: deque[Future[None]] = field(default_factory=deque)

    def put(self, path: str, data: pa.Buffer) -> None:
        if self.store.is_local:
            self.store.write_staged(
                path, data
            )  # there is nothing to wait for: a thread would only cost
            return
        self.wait(AT_ONCE)
        self.coming.append(self.pool.submit(self.store.write_staged, path, data))

    def wait(self, most: int) -> None:
        """Until no more than so many are on their way; one that failed is told here."""
        while len(self.coming) > most:
            self.coming.popleft().result()


class Slice(NamedTuple):
    """Some of a unit's time, and the chunks that have rows in it."""

    unit: Unit
    since: int
    until: int
    chunks: tuple[ChunkMeta, ...]

    @property
    def size(self) -> int:
        """About what its rows take once they are landed; a wide table's empty cells too."""
        cells = sum(chunk.rows for chunk in self.chunks) * len(self.unit.schema.columns)
        return sum(chunk.memory for chunk in self.chunks) + CELL * cells


def _slices(unit: Unit) -> Iterator[Slice]:
    """The unit's time in as many pieces as keep its rows within memory."""
    cells = sum(chunk.rows for chunk in unit.chunks) * len(unit.schema.columns)
    size = sum(chunk.memory for chunk in unit.chunks)
    pieces = max(1, -(-size // SLICE), -(-cells // CELLS))
    since = max(unit.since, min(chunk.first for chunk in unit.chunks))
    until = min(unit.until, max(chunk.last for chunk in unit.chunks) + 1)
    ends = [since + (until - since) * piece // pieces for piece in range(pieces + 1)]
    return (Slice(unit, a, b, _overlapping(unit.chunks, a, b)) for a, b in pairwise(ends))


def _landed(one: Slice, data: Iterator[pa.Buffer]) -> Iterator[LandedRows]:
    """Cast the rows of a slice, in order of receipt; `data` gives its chunks one by one."""
    parts = [part for chunk in one.chunks if (part := _part(chunk, one, next(data)))]
    for some in split_chunks(parts, max(1, CELLS // len(one.unit.schema.columns))):
        yield land_chunks(some, one.unit.schema, len(one.unit.growth.added))


def _part(chunk: ChunkMeta, wanted: Slice, data: pa.Buffer) -> MaskedChunk | None:
    """A chunk, with its rows that are no duplicates and were received within the slice."""
    batch = pa.ipc.open_stream(data).read_next_batch()
    received = received_times(batch)
    keep = (received >= wanted.since) & (received < wanted.until)
    keep[np.frombuffer(chunk.drops, "<i4")] = False
    return MaskedChunk(batch, keep) if keep.any() else None


class _Files:
    """Rows in order of receipt into one file a partition of a unit, a row group for each slice."""

    def __init__(self, job: WriteJob, left: Left) -> None:
        self._job, self._left = job, left
        self._written: list[Written] = []
        self._unit: Unit | None = None
        self._start, self._rows = 0, 0
        self._with_stats: Sequence[int] = ()
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, unit: Unit, rows: pa.Table) -> None:
        if unit is not self._unit:
            self._close()
            self._unit = unit
        span = self._job.date_partition.span
        starts = as_micros(rows[RECEIVED_AT].combine_chunks()) // span * span
        cuts = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(starts)]
        for begin, end in pairwise(cuts):
            self._write(int(starts[begin]), rows.slice(begin, end - begin))

    def done(self) -> list[Written]:
        """All that were written; they are in the stage."""
        self._close()
        self._left.wait(0)
        return self._written

    def _write(self, start: int, rows: pa.Table) -> None:
        if self._writer is None or start != self._start or rows.schema != self._writer.schema:
            self._close()
            self._start, self._sink = start, pa.BufferOutputStream()
            few = len(rows) < FEW_ROWS
            self._with_stats = (
                [rows.schema.get_field_index(RECEIVED_AT)] if few else range(len(rows.schema))
            )
            self._writer = pq.ParquetWriter(
                self._sink,
                rows.schema,
                compression="zstd",
                use_dictionary=_repeating(rows),
                write_statistics=[RECEIVED_AT] if few else True,
                store_schema=False,  # Parquet's own says it all
            )
        self._writer.write_table(rows)
        self._rows += len(rows)

    def _close(self) -> None:
        """Put the open file, if there is one, into the stage."""
        if self._unit is None or self._sink is None or self._writer is None:
            return
        self._writer.close()
        stats = file_stats(self._writer.writer.metadata, self._with_stats)
        data, table = self._sink.getvalue(), self._unit.schema.name
        path = f"{self._job.stage}/write/{table}-{uuid.uuid4().hex}-{self._rows}.parquet"
        self._left.put(path, data)
        self._written.append(Written(table, self._start, path, self._rows, data.size, stats))
        self._writer, self._rows = None, 0


def _repeating(rows: pa.Table) -> list[str] | bool:
    """The columns that a dictionary makes smaller; for ids, times and few rows it only costs."""
    if len(rows) < FEW_ROWS:
        return False
    return [field.name for field in rows.schema if pa.types.is_string(field.type)][1:]


def _join_quarantine(job: WriteJob) -> str:
    """The parts of the quarantine in one file, without holding more than one of them."""
    path = f"{job.stage}/quarantine/{uuid.uuid4().hex}.parquet"
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, QUARANTINE, compression="zstd") as writer:
        for part in job.quarantine:
            writer.write_table(pq.read_table(job.store.open(part)))
    job.store.write(path, sink.getvalue())
    job.store.fsync(path)
    return path
