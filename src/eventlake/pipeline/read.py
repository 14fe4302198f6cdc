"""Read: archive files to chunks. Every event's JSON is parsed once, here."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.archive import open_log
from eventlake.kernels.chunk import Chunk, Seen, TableReader, build_chunk
from eventlake.kernels.dedupe import hash_ids
from eventlake.kernels.jsontext import TooDeep
from eventlake.kernels.lines import Damage, blocks, is_utf8
from eventlake.kernels.route import LINE_BITS, Pile, Rejected, Router, Rules, reject_deep
from eventlake.model.naming import Call
from eventlake.model.schema import TableSchema, budget_used, new_table
from eventlake.model.settings import SourceSettings
from eventlake.stores import Store

PILE = 24 << 20
"""Bytes of one table's lines that are parsed at once."""
PILES = 208 << 20
"""Bytes of lines that a task holds before it parses them all."""
SPLIT = 4 << 20
"""A larger chunk is cut by partition, so that a writer need not read what it does not write."""


@dataclass(frozen=True)
class ReadJob:
    """What every reading task needs."""

    store: Store
    stage: str
    run_id: str
    settings: SourceSettings
    tables: dict[str, TableSchema]
    suppressed: frozenset[str]
    files: tuple[str, ...]
    """All the run's files in order: a file is known by its number."""
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
    seen: list[Seen]
    memory: int = 0
    """Bytes that it takes in memory; `size` may be of a compressed one."""
    drops: bytes = b""
    """The rows that are duplicates, as 32-bit integers; known after de-duplication."""


class IdPart(msgspec.Struct):
    """Where one bucket of a task's message ids lies."""

    bucket: int
    object: str
    offset: int
    rows: int
    chunk: int
    """The number of the first chunk these ids speak of."""


class ReadResult(msgspec.Struct):
    """What one task found."""

    chunks: list[ChunkMeta] = []
    ids: list[IdPart] = []
    quarantine: list[str] = []
    quarantined: int = 0
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


def read_task(job: ReadJob, number: int) -> bytes:
    """Read the files of one task; the result is a `ReadResult` as JSON."""
    return msgspec.json.encode(_Reading(job, number).run())


# A worker process serves many tasks of a run: what it has learnt of a table's kinds it keeps.
_learnt: dict[str, dict[str, TableReader]] = {}


def _readers(run_id: str) -> dict[str, TableReader]:
    if run_id not in _learnt:
        _learnt.clear()
        _learnt[run_id] = {}
    return _learnt[run_id]


@dataclass
class _Reading:
    job: ReadJob
    number: int
    router: Router = field(init=False)
    result: ReadResult = field(default_factory=ReadResult)

    def run(self) -> ReadResult:
        settings = self.job.settings
        skip = frozenset(settings.skip_events)
        rules = Rules(settings.naming, settings.table_prefix, skip, self.job.suppressed)
        self.router = Router(rules)
        for file in self.job.groups[self.number]:
            self._read_file(file)
        self._flush(0)
        self.result.aside = [
            (table, aside.call, aside.suppressed, aside.skipped)
            for table, aside in self.router.aside.items()
        ]
        return self.result

    def _read_file(self, file: int) -> None:
        place = (file << LINE_BITS) + 1
        for block in blocks(lambda: open_log(self.job.files[file])):
            if isinstance(block, Damage):
                damage = Rejected("damaged_file", block.detail, b"", place)
                self.router.rejected.append(damage)
                return
            lines = block.split(b"\n")
            self.router.sort(lines, place, is_utf8(block))
            place += len(lines)
            self._flush(PILE)
            if sum(pile.bytes for pile in self.router.piles.values()) > PILES:
                self._flush(0)

    def _flush(self, above: int) -> None:
        """Make chunks of the piles over a size; all of them go into one object."""
        ready = {
            table: pile
            for table, pile in sorted(self.router.piles.items())
            if pile.bytes > above and pile.lines
        }
        if ready:
            self._write_chunks([one for t, p in ready.items() for one in self._chunks(t, p)])
        self.router.piles |= {table: Pile(pile.call) for table, pile in ready.items()}
        if self.router.rejected and (above == 0 or _weight(self.router.rejected) > PILE):
            self._write_quarantine()

    def _chunks(self, table: str, pile: Pile) -> Iterator["_Built"]:
        reader = self._reader(table, pile.call)
        while pile.lines:
            received = np.array(pile.received, np.int64)
            try:
                chunk = build_chunk(pile.lines, received, reader)
            except TooDeep:
                self.router.rejected += reject_deep(pile)
                continue
            places = np.array(pile.places, np.int64)
            built = _Built(table, pile.call, chunk, received, pile.ids, places)
            yield from _cut(built, self.job.settings)
            return

    def _reader(self, table: str, call: Call) -> TableReader:
        readers, settings = _readers(self.job.run_id), self.job.settings
        if table not in readers:
            known = self.job.tables.get(table)
            room = settings.max_columns - budget_used(
                known or new_table(table, call, settings.naming)
            )
            types = known.types if known else {}
            readers[table] = TableReader(
                call, settings.naming, settings.date_partition, types, room
            )
        return readers[table]

    def _write_chunks(self, built: list["_Built"]) -> None:
        first = len(self.result.chunks)
        rows = sum(len(one.received) for one in built)
        name = f"{self.job.stage}/read/{self.number:06d}-{uuid.uuid4().hex}-{rows}.chunks"
        options = pa.ipc.IpcWriteOptions(compression=self.job.compression)
        with self.job.store.writing(name) as file:
            for one in built:
                offset = file.tell()
                with pa.ipc.new_stream(file, one.chunk.batch.schema, options=options) as stream:
                    stream.write_batch(one.chunk.batch)
                self.result.chunks.append(one.meta(name, offset, file.tell() - offset))
        self._write_ids(built, first)

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

    def _write_quarantine(self) -> None:
        rejected = self.router.rejected
        name = f"{self.job.stage}/quarantine/{self.number:06d}-{uuid.uuid4().hex}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(_quarantine(rejected, self.job), sink, compression="zstd")
        self.job.store.write(name, sink.getvalue())
        self.result.quarantine.append(name)
        self.result.quarantined += len(rejected)
        self.router.rejected = []


@dataclass
class _Built:
    """A chunk on its way to the stage, with the events it was made of."""

    table: str
    call: Call
    chunk: Chunk
    received: np.ndarray
    ids: list[str]
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
            seen=self.chunk.seen,
            memory=self.chunk.batch.nbytes,
        )

    def take(self, rows: np.ndarray, seen: list[Seen]) -> "_Built":
        batch = self.chunk.batch.take(pa.array(rows))
        ids = [self.ids[row] for row in rows.tolist()]
        chunk = Chunk(batch, seen)
        return _Built(self.table, self.call, chunk, self.received[rows], ids, self.places[rows])


def _cut(built: _Built, settings: SourceSettings) -> Iterator[_Built]:
    """A large chunk in pieces that each lie in one partition."""
    spans = built.received // settings.date_partition.span
    partitions = np.unique(spans)
    if built.chunk.batch.nbytes <= SPLIT or len(partitions) == 1:
        yield built
        return
    for number, partition in enumerate(partitions):
        # What was seen is told once, with the first piece.
        seen = built.chunk.seen if number == 0 else []
        yield built.take(np.flatnonzero(spans == partition), seen)


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


def _weight(rejected: list[Rejected]) -> int:
    return sum(len(one.raw) for one in rejected)


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


def _quarantine(rejected: list[Rejected], job: ReadJob) -> pa.Table:
    rejected = sorted(rejected, key=lambda one: one.place)
    columns = [
        [one.reason for one in rejected],
        [one.detail for one in rejected],
        [one.raw for one in rejected],
        [job.files[one.place >> LINE_BITS] for one in rejected],
        [one.place & ((1 << LINE_BITS) - 1) for one in rejected],
        [job.run_id] * len(rejected),
    ]
    return pa.table(columns, schema=QUARANTINE)
