"""Chunks on their way through the stage: where each lies, and what is told of it."""

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

from eventlake.archive import readable
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

BUFFER = 256 << 10
MAX_ROWS = 25_000
"""Rows of a chunk: to land it takes a cell for each of them in every column of its table."""
WRITE_BYTES = 64 << 20
"""Bytes of chunks that wait to be written together."""
MAX_SEEN = 50_000
"""New columns that a task remembers; keys that are data are more."""
MAX_REJECTED = 50_000
"""Lines that are no events which a task holds, however short they are."""
SPLIT = 4 << 20
"""A larger chunk is cut by partition, so that a writer need not read what it does not write."""


@dataclass(frozen=True)
class ReadJob:
    """What every task needs that makes chunks."""

    store: Store
    stage: str
    run_id: str
    settings: SourceSettings
    known: dict[str, dict[str, Type]]
    """The tables that are there already: their columns and types."""
    suppressed: frozenset[str]
    files: tuple[str, ...]
    """All the run's files in order: a file is known by its number."""
    holders: dict[str, Store]
    """The buckets that they lie in."""
    groups: tuple[range, ...]
    """The files of each task."""
    buckets: int
    compression: str | None
    """How chunks are packed in the stage; not at all where the page cache will hold them."""


class ChunkMeta(msgspec.Struct):
    """Where a chunk lies in the stage, and what the driver must know of it."""

    table: str
    call: Call
    object: str
    offset: int
    size: int
    rows: int
    first: int
    last: int
    memory: int = 0
    """Bytes that it takes in memory; `size` may be of a compressed one."""
    drops: bytes = b""
    """The rows that are duplicates, as 32-bit integers; known after de-duplication."""

    @property
    def range(self) -> Range:
        """Where its bytes are."""
        return Range(self.object, self.offset, self.size)


class IdPart(msgspec.Struct):
    """Where one bucket of a task's message ids lies."""

    bucket: int
    object: str
    offset: int
    rows: int
    chunk: int
    """The number of the first chunk these ids speak of."""


class Spill(msgspec.Struct):
    """Where a few events of a table lie that are yet to be parsed, with those of other tasks."""

    table: str
    call: Call
    object: str
    offset: int
    size: int


class SeenPart(msgspec.Struct):
    """Where columns of a table are told of that were too many for a task's result."""

    table: str
    object: str


class ReadResult(msgspec.Struct):
    """What one task found."""

    chunks: list[ChunkMeta] = []
    spills: list[Spill] = []
    seen: dict[str, list[ColumnObservation]] = {}
    """What each table's chunks, all together, tell of the first of its new columns."""
    ids: list[IdPart] = []
    quarantine: list[str] = []
    quarantined: int = 0
    seen_more: list[SeenPart] = []
    """Where the others are told of, when keys are data and there is no room for them all."""
    aside: list[tuple[str, Call, int, int]] = []
    """Tables with how many of their events were suppressed and skipped."""


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


# A worker process serves many tasks of a run: what it has learnt of a table's kinds it keeps.
_learnt: dict[str, dict[str, TableReader]] = {}


def _readers(run_id: str) -> dict[str, TableReader]:
    if run_id not in _learnt:
        _learnt.clear()
        _learnt[run_id] = {}
    return _learnt[run_id]


@dataclass
class Chunks:
    """The chunks that one task makes; what they are is in its result."""

    job: ReadJob
    number: int
    rejected: list[RejectedLine] = field(default_factory=list)
    """Lines that are no events after all, or never were."""
    seen: defaultdict[str, dict[str, ColumnObservation]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    result: ReadResult = field(default_factory=ReadResult)
    _held: int = 0
    """How many columns were seen of all tables."""

    def __post_init__(self) -> None:
        for reader in _readers(self.job.run_id).values():
            reader.string_paths.clear()  # a task's result must not lean on another's

    def add(self, piles: Iterable[tuple[str, Call, list[Event]]]) -> None:
        """Make chunks of tables' events; as many as fit in memory go into one object."""
        waiting: list[_Built] = []
        for table, call, events in piles:
            for one in self._built(table, call, events):
                waiting.append(one)
                if sum(built.memory for built in waiting) > WRITE_BYTES:
                    self._write(waiting)
                    waiting = []
        if waiting:
            self._write(waiting)

    def _write(self, built: list["_Built"]) -> None:
        first = len(self.result.chunks)
        rows = sum(len(one.received) for one in built)
        name = f"{self.job.stage}/read/{self.number:06d}-{uuid.uuid4().hex}-{rows}.chunks"
        options = pa.ipc.IpcWriteOptions(compression=self.job.compression)
        # Arrow writes every buffer of every column on its own, and most are small.
        with self.job.store.open_staged(name) as raw, pa.BufferedOutputStream(raw, BUFFER) as file:
            for one in built:
                offset = file.tell()
                with pa.ipc.new_stream(file, one.batch.schema, options=options) as stream:
                    stream.write_batch(one.batch)
                self.result.chunks.append(one.meta(name, offset, file.tell() - offset))
        self._write_ids(built, first)

    def reject(self, above: int) -> None:
        """Write down the lines that are no events, once they are more than so many bytes."""
        few = len(self.rejected) <= min(above, MAX_REJECTED)
        if few and sum(len(one.raw) for one in self.rejected) <= above:
            return
        name = f"{self.job.stage}/quarantine/{self.number:06d}-{uuid.uuid4().hex}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(_quarantine(self.rejected, self.job), sink, compression="zstd")
        self.job.store.write(name, sink.getvalue())
        self.result.quarantine.append(name)
        self.result.quarantined += len(self.rejected)
        self.rejected.clear()

    def done(self) -> ReadResult:
        self.reject(0)
        for table in self.seen:
            self._shed(table)
        self.result.seen = {table: list(found.values()) for table, found in self.seen.items()}
        return self.result

    def _built(self, table: str, call: Call, events: list[Event]) -> Iterator["_Built"]:
        reader = self._reader(table, call)
        parts = deque(_split(events, -(-len(events) // MAX_ROWS)))
        while parts:
            part = parts.popleft()
            lines, ids, moments, places = zip(*part, strict=True)
            received = np.array(moments, np.int64)
            try:
                chunk = build_chunk(lines, received, reader)
            except TooDeep:
                kept, deep = split_deep(part)
                self.rejected += deep
                parts.extendleft([kept] if kept else [])
                continue
            except BlockTooLarge:
                parts.extendleft(reversed(_split(part, _slow_parts(lines))))
                continue
            self._see(table, chunk.observations)
            where = np.array(places, np.int64)
            built = _Built(table, call, chunk.batch, received, ids, where)
            yield from _cut(built, self.job.settings)

    def _see(self, table: str, seen: list[ColumnObservation]) -> None:
        found = self.seen[table]
        self._held -= len(found)
        merge_observations(seen, found)
        self._held += len(found)
        if self._held > MAX_SEEN:
            for one in self.seen:
                self._shed(one)
            self._held = sum(map(len, self.seen.values()))

    def _shed(self, table: str) -> None:
        """Remember no more new columns than the table can take; leave the others in the stage."""
        room = _readers(self.job.run_id)[table].spare_columns
        found = self.seen[table]
        if len(found) <= room:
            return
        ordered = sorted(found.values(), key=lambda one: (one.rank, one.column))
        self.seen[table] = {one.column: one for one in ordered[: max(0, room)]}
        if room > 0:
            name = f"{self.job.stage}/seen/{self.number:06d}-{uuid.uuid4().hex}"
            self.job.store.write(name, msgspec.msgpack.encode(ordered[room:]))
            self.result.seen_more.append(SeenPart(table, name))

    def _reader(self, table: str, call: Call) -> TableReader:
        readers, settings = _readers(self.job.run_id), self.job.settings
        if table not in readers:
            known = self.job.known.get(table)
            taken = known or new_table(table, call, settings.naming).types
            readers[table] = TableReader(
                call,
                settings.naming,
                settings.date_partition,
                known or {},
                settings.max_columns - budget_used(taken),
            )
        return readers[table]

    def _write_ids(self, built: list["_Built"], first: int) -> None:
        ids = np.concatenate([_ids(one, number) for number, one in enumerate(built)])
        buckets = bucket_of(ids["high"], self.job.buckets)
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
class _Built:
    """A chunk on its way to the stage, with the events it was made of."""

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
        return int(pa.ipc.get_record_batch_size(self.batch))  # its `nbytes` takes ten times as long

    def take(self, rows: np.ndarray) -> "_Built":
        batch = self.batch.take(pa.array(rows))
        ids = [self.ids[row] for row in rows.tolist()]
        return _Built(self.table, self.call, batch, self.received[rows], ids, self.places[rows])


def _split(events: list[Event], count: int) -> list[list[Event]]:
    """Events in so many parts, in order."""
    if count <= 1:
        return [events] if events else []
    size = -(-len(events) // count)
    return [events[at : at + size] for at in range(0, len(events), size)]


def _slow_parts(lines: Sequence[bytes]) -> int:
    return max(2, 2 * sum(map(len, lines)) // MAX_SLOW_BYTES)


def read_seen(
    store: Store, results: Iterable[ReadResult], table: str
) -> Iterator[ColumnObservation]:
    """What tasks saw of a table's columns that did not fit into their results."""
    for result in results:
        for part in result.seen_more:
            if part.table == table:
                yield from _decode_seen(store.read(part.object))


_decode_seen = msgspec.msgpack.Decoder(list[ColumnObservation]).decode


def _cut(built: _Built, settings: SourceSettings) -> Iterator[_Built]:
    """A large chunk in pieces that each lie in one partition."""
    spans = built.received // settings.date_partition.span
    partitions = np.unique(spans)
    if len(partitions) == 1 or built.memory <= SPLIT:
        yield built
        return
    for partition in partitions:
        yield built.take(np.flatnonzero(spans == partition))


def _ids(built: _Built, number: int) -> np.ndarray:
    ids = np.empty(len(built.received), ID_ROW)
    ids["high"], ids["low"] = hash_ids(built.ids)
    ids["received"], ids["place"] = built.received, built.places
    ids["chunk"], ids["row"] = number, np.arange(len(ids))
    return ids


def bucket_of(high: np.ndarray, buckets: int) -> np.ndarray:
    """Which of equal ranges a hash falls into; the ranges are in the order of the hashes."""
    upper = (high.astype(np.int64) >> 32) + (1 << 31)
    return (upper * buckets) >> 32


QUARANTINE = pa.schema(
    [
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.binary()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("run_id", pa.string()),
    ]
)


def _quarantine(rejected: list[RejectedLine], job: ReadJob) -> pa.Table:
    rejected = sorted(rejected, key=lambda one: one.place)
    columns = [
        [one.reason for one in rejected],
        [one.detail for one in rejected],
        [one.raw for one in rejected],
        [readable(job.files[one.place >> LINE_BITS]) for one in rejected],
        [one.place & ((1 << LINE_BITS) - 1) for one in rejected],
        [job.run_id] * len(rejected),
    ]
    return pa.table(columns, schema=QUARANTINE)
