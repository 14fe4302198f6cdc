"""Chunks in the stage: how tasks write them, and what their results tell the driver."""

import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.archive import display_address
from eventlake.kernels.chunk import ColumnObservation, TableReader, build_chunk, merge_observations
from eventlake.kernels.dedupe import hash_ids
from eventlake.kernels.jsontext import TooDeep
from eventlake.kernels.parse import MAX_SLOW_BYTES, BlockTooLarge
from eventlake.kernels.route import LINE_BITS, Event, RejectedLine, split_deep
from eventlake.model.naming import Call
from eventlake.model.schema import budget_used, new_table
from eventlake.model.settings import SourceSettings
from eventlake.model.types import Type
from eventlake.stores import Range, Store

BUFFER_BYTES = 256 << 10
"""Write buffer of a stage object."""
MAX_ROWS = 25_000
"""Rows per chunk: landing one takes rows times columns of its table in memory."""
WRITE_BYTES = 64 << 20
"""Bytes of chunks that are written into one object."""
MAX_OBSERVATIONS = 50_000
"""Column observations that a task holds: with data as keys, there can be any number."""
MAX_REJECTED = 50_000
"""Invalid lines that a task holds, however short they are."""
SPLIT_BYTES = 4 << 20
"""Size above which a chunk is split by partition, so that a writing task reads only its own."""


@dataclass(frozen=True)
class ReadJob:
    """The input of the reading and gathering tasks."""

    store: Store
    stage: str
    run_id: str
    settings: SourceSettings
    table_types: dict[str, dict[str, Type]]
    """Column types of the existing tables."""
    suppressed: frozenset[str]
    files: tuple[str, ...]
    """Addresses of the run's inputs; tasks refer to an input by its index."""
    stores: dict[str, Store]
    """The stores of the inputs, by address prefix."""
    groups: tuple[range, ...]
    """The input indexes of each task."""
    buckets: int
    compression: str | None
    """Arrow IPC compression of chunks; None when the page cache will hold them."""


class ChunkMeta(msgspec.Struct):
    """A chunk's byte range in the stage, and what the driver needs to know about it."""

    table: str
    call: Call
    object: str
    offset: int
    size: int
    rows: int
    first: int
    """First time of receipt, in microseconds."""
    last: int
    memory: int = 0
    """Bytes in memory; `size` is that of the possibly compressed object."""
    duplicate_rows: bytes = b""
    """Row numbers of duplicates as 32-bit integers; set after deduplication."""

    @property
    def range(self) -> Range:
        return Range(self.object, self.offset, self.size)


class IdPart(msgspec.Struct):
    """The byte range of one bucket of a task's message ids."""

    bucket: int
    object: str
    offset: int
    rows: int
    chunk: int
    """The task's chunk that the rows' chunk numbers count from."""


class Spill(msgspec.Struct):
    """The byte range of a table's unparsed events, left to a gathering task."""

    table: str
    call: Call
    object: str
    offset: int
    size: int


class ObservationPart(msgspec.Struct):
    """An object with column observations that were too many for a task's result."""

    table: str
    object: str


class ReadResult(msgspec.Struct):
    """The result of one reading or gathering task."""

    chunks: list[ChunkMeta] = []
    spills: list[Spill] = []
    observations: dict[str, list[ColumnObservation]] = {}
    """The first new columns of each table."""
    ids: list[IdPart] = []
    quarantine: list[str] = []
    quarantined: int = 0
    more_observations: list[ObservationPart] = []
    """Observations of further columns that the table may have no room for."""
    excluded: list[tuple[str, Call, int, int]] = []
    """Table, call, number of suppressed events, number of skipped events."""


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


# A worker process executes many tasks of a run; table readers learn column kinds as they go.
_table_readers: dict[str, dict[str, TableReader]] = {}


def _readers_of_run(run_id: str) -> dict[str, TableReader]:
    if run_id not in _table_readers:
        _table_readers.clear()
        _table_readers[run_id] = {}
    return _table_readers[run_id]


@dataclass
class ChunkWriter:
    """Writes the chunks, message ids and quarantine of one task, and collects its result."""

    job: ReadJob
    number: int
    rejected: list[RejectedLine] = field(default_factory=list)
    """Invalid lines that are not yet written to the quarantine."""
    observations: defaultdict[str, dict[str, ColumnObservation]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """New columns by table and name."""
    result: ReadResult = field(default_factory=ReadResult)
    _observed: int = 0
    """The number of observations of all tables."""

    def __post_init__(self) -> None:
        for reader in _readers_of_run(self.job.run_id).values():
            reader.string_paths.clear()  # a task's result must not depend on earlier tasks

    def add(self, tables: Iterable[tuple[str, Call, list[Event]]]) -> None:
        """Write chunks of tables' events, up to `WRITE_BYTES` of them into one object."""
        pending: list[_PendingChunk] = []
        for table, call, events in tables:
            for chunk in self._build(table, call, events):
                pending.append(chunk)
                if sum(one.memory for one in pending) > WRITE_BYTES:
                    self._write(pending)
                    pending = []
        if pending:
            self._write(pending)

    def _write(self, pending: list["_PendingChunk"]) -> None:
        first = len(self.result.chunks)
        rows = sum(len(one.received) for one in pending)
        name = f"{self.job.stage}/read/{self.number:06d}-{uuid.uuid4().hex}-{rows}.chunks"
        options = pa.ipc.IpcWriteOptions(compression=self.job.compression)
        # Arrow writes each buffer of each column separately, and most are small.
        with (
            self.job.store.open_staged(name) as raw,
            pa.BufferedOutputStream(raw, BUFFER_BYTES) as out,
        ):
            for one in pending:
                offset = out.tell()
                with pa.ipc.new_stream(out, one.batch.schema, options=options) as stream:
                    stream.write_batch(one.batch)
                self.result.chunks.append(one.meta(name, offset, out.tell() - offset))
        self._write_ids(pending, first)

    def write_quarantine(self, above: int) -> None:
        """Write the rejected lines into the stage if they are more than `above` bytes."""
        is_short = len(self.rejected) <= min(above, MAX_REJECTED)
        if is_short and sum(len(one.raw) for one in self.rejected) <= above:
            return
        name = f"{self.job.stage}/quarantine/{self.number:06d}-{uuid.uuid4().hex}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(_quarantine_table(self.rejected, self.job), sink, compression="zstd")
        self.job.store.write(name, sink.getvalue())
        self.result.quarantine.append(name)
        self.result.quarantined += len(self.rejected)
        self.rejected.clear()

    def finish(self) -> ReadResult:
        """Write the remaining rejected lines and return the task's result."""
        self.write_quarantine(0)
        for table in self.observations:
            self._trim_observations(table)
        self.result.observations = {
            table: list(columns.values()) for table, columns in self.observations.items()
        }
        return self.result

    def _build(self, table: str, call: Call, events: list[Event]) -> Iterator["_PendingChunk"]:
        """Parse a table's events; too deep ones are rejected, too wide batches are split."""
        reader = self._reader_of(table, call)
        parts = deque(_split_events(events, -(-len(events) // MAX_ROWS)))
        while parts:
            part = parts.popleft()
            lines, ids, moments, places = zip(*part, strict=True)
            received = np.array(moments, np.int64)
            try:
                chunk = build_chunk(lines, received, reader)
            except TooDeep:
                valid, deep = split_deep(part)
                self.rejected += deep
                parts.extendleft([valid] if valid else [])
                continue
            except BlockTooLarge:
                count = max(2, 2 * sum(map(len, lines)) // MAX_SLOW_BYTES)
                parts.extendleft(reversed(_split_events(part, count)))
                continue
            self._add_observations(table, chunk.observations)
            where = np.array(places, np.int64)
            pending = _PendingChunk(table, call, chunk.batch, received, ids, where)
            yield from _split_by_partition(pending, self.job.settings)

    def _add_observations(self, table: str, observations: list[ColumnObservation]) -> None:
        columns = self.observations[table]
        self._observed -= len(columns)
        merge_observations(observations, columns)
        self._observed += len(columns)
        if self._observed > MAX_OBSERVATIONS:
            for one in self.observations:
                self._trim_observations(one)
            self._observed = sum(map(len, self.observations.values()))

    def _trim_observations(self, table: str) -> None:
        """Hold only as many new columns as the table has room for; write the others to the stage.

        A table without any room adds no columns, so its observations are dropped.
        """
        room = _readers_of_run(self.job.run_id)[table].spare_columns
        columns = self.observations[table]
        if len(columns) <= room:
            return
        ordered = sorted(columns.values(), key=lambda one: (one.rank, one.column))
        self.observations[table] = {one.column: one for one in ordered[: max(0, room)]}
        if room > 0:
            name = f"{self.job.stage}/seen/{self.number:06d}-{uuid.uuid4().hex}"
            self.job.store.write(name, msgspec.msgpack.encode(ordered[room:]))
            self.result.more_observations.append(ObservationPart(table, name))

    def _reader_of(self, table: str, call: Call) -> TableReader:
        readers, settings = _readers_of_run(self.job.run_id), self.job.settings
        if table not in readers:
            existing = self.job.table_types.get(table)
            types = existing or new_table(table, call, settings.naming).types
            readers[table] = TableReader(
                call,
                settings.naming,
                settings.date_partition,
                existing or {},
                settings.max_columns - budget_used(types),
            )
        return readers[table]

    def _write_ids(self, pending: list["_PendingChunk"], first: int) -> None:
        """Write the chunks' message ids by bucket; `first` is the number of the first chunk."""
        ids = np.concatenate([_id_rows(one, number) for number, one in enumerate(pending)])
        buckets = assign_buckets(ids["high"], self.job.buckets)
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(self.job.buckets + 1))
        name = f"{self.job.stage}/ids/{self.number:06d}-{uuid.uuid4().hex}.ids"
        self.job.store.write(name, ids[order].tobytes())
        self.result.ids += [
            IdPart(bucket, name, int(start) * ID_ROW.itemsize, int(end - start), first)
            for bucket, (start, end) in enumerate(pairwise(ends))
            if end > start
        ]


@dataclass
class _PendingChunk:
    """A chunk to be written, with the ids, receipt times and places of its events."""

    table: str
    call: Call
    batch: pa.RecordBatch
    received: np.ndarray
    ids: Sequence[str]
    places: np.ndarray

    def meta(self, name: str, offset: int, size: int) -> ChunkMeta:
        return ChunkMeta(
            table=self.table,
            call=self.call,
            object=name,
            offset=offset,
            size=size,
            rows=len(self.received),
            first=int(self.received.min()),
            last=int(self.received.max()),
            memory=self.memory,
        )

    @cached_property
    def memory(self) -> int:
        return int(pa.ipc.get_record_batch_size(self.batch))  # `nbytes` takes ten times as long

    def take(self, rows: np.ndarray) -> "_PendingChunk":
        batch = self.batch.take(pa.array(rows))
        ids = [self.ids[row] for row in rows.tolist()]
        received, places = self.received[rows], self.places[rows]
        return _PendingChunk(self.table, self.call, batch, received, ids, places)


def _split_events(events: list[Event], count: int) -> list[list[Event]]:
    """Split events, in order, into at most `count` parts of equal length."""
    if count <= 1:
        return [events] if events else []
    size = -(-len(events) // count)
    return [events[at : at + size] for at in range(0, len(events), size)]


def read_more_observations(
    store: Store, results: Iterable[ReadResult], table: str
) -> Iterator[ColumnObservation]:
    """Read the observations of a table that did not fit into the tasks' results."""
    for result in results:
        for part in result.more_observations:
            if part.table == table:
                yield from _decode_observations(store.read(part.object))


_decode_observations = msgspec.msgpack.Decoder(list[ColumnObservation]).decode


def _split_by_partition(
    pending: _PendingChunk, settings: SourceSettings
) -> Iterator[_PendingChunk]:
    """Split a chunk of more than `SPLIT_BYTES` into one chunk per date partition."""
    spans = pending.received // settings.date_partition.span
    partitions = np.unique(spans)
    if len(partitions) == 1 or pending.memory <= SPLIT_BYTES:
        yield pending
        return
    for partition in partitions:
        yield pending.take(np.flatnonzero(spans == partition))


def _id_rows(pending: _PendingChunk, number: int) -> np.ndarray:
    ids = np.empty(len(pending.received), ID_ROW)
    ids["high"], ids["low"] = hash_ids(pending.ids)
    ids["received"], ids["place"] = pending.received, pending.places
    ids["chunk"], ids["row"] = number, np.arange(len(ids))
    return ids


def assign_buckets(high: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each hash: buckets are equal ranges, in the order of the hashes."""
    upper = (high.astype(np.int64) >> 32) + (1 << 31)
    return (upper * buckets) >> 32


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


def _quarantine_table(rejected: list[RejectedLine], job: ReadJob) -> pa.Table:
    rejected = sorted(rejected, key=lambda one: one.place)
    columns = [
        [one.reason for one in rejected],
        [one.detail for one in rejected],
        [one.raw for one in rejected],
        [display_address(job.files[one.place >> LINE_BITS]) for one in rejected],
        [one.place & ((1 << LINE_BITS) - 1) for one in rejected],
        [job.run_id] * len(rejected),
    ]
    return pa.table(columns, schema=QUARANTINE_SCHEMA)
