"""How reading tasks write chunks, message ids, observations and quarantine into the stage."""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from eventlake.archive import display_address
from eventlake.kernels.cast import cast_column
from eventlake.kernels.chunk import TableReader, build_chunk
from eventlake.kernels.chunk_format import encode_batch, read_batch
from eventlake.kernels.dedupe import hash_ids
from eventlake.kernels.jsontext import TooDeep
from eventlake.kernels.kinds import PathKinds
from eventlake.kernels.line_ids import list_ids
from eventlake.kernels.parse import MAX_SLOW_BYTES, BlockTooLarge
from eventlake.kernels.route import LINE_BITS, Event, RejectedLine, split_deep
from eventlake.kernels.user_hashes import HashCollector
from eventlake.model.commit import Replacement
from eventlake.model.erasure import ID_FIELDS
from eventlake.model.naming import Call
from eventlake.model.schema import budget_used, new_table
from eventlake.model.settings import SourceSettings
from eventlake.model.tunables import ReadTunables
from eventlake.model.types import Type
from eventlake.pipeline.id_files import ID_ROW, write_id_rows
from eventlake.pipeline.observations import ObservationBuffer
from eventlake.pipeline.quarantine import write_quarantine_part
from eventlake.pipeline.results import ChunkMeta, ReadResult
from eventlake.pipeline.stage_paths import new_path, new_path_with_rows
from eventlake.pipeline.user_index import make_part
from eventlake.stores import Store

BUFFER_BYTES = 256 << 10
"""Write buffer of a stage object."""
MAX_ROWS = 25_000
"""Rows per chunk: landing one takes rows times columns of its table in memory."""
WRITE_BYTES = 64 << 20
"""Bytes of chunks that are written into one object."""
MAX_REJECTED = 50_000
"""Invalid lines that a task holds, however short they are."""


@dataclass(frozen=True)
class ReadJob:
    """The input of the reading and gathering tasks."""

    store: Store
    stage: str
    run_id: str
    settings: SourceSettings
    skip: frozenset[str]
    """Events and tables that are counted but not stored."""
    renamed: dict[str, str]
    """The tables of track events for which the naming gives another name."""
    table_types: dict[str, dict[str, Type]]
    """Column types of the existing tables."""
    suppressed: Container[str]
    files: tuple[str, ...]
    """Addresses of the run's inputs; tasks refer to an input by its index."""
    stores: dict[str, Store]
    """The stores of the inputs, by address prefix."""
    groups: tuple[range, ...]
    """The input indexes of each task."""
    buckets: int
    compression: str | None
    """Arrow IPC compression of chunks; None when the page cache will hold them."""
    tunables: ReadTunables
    staged_files: Mapping[str, str] = field(default_factory=dict)
    """By address of an input that the run has written, its address in the stage."""
    known: frozenset[str] | None = None
    """As in `Rules`."""
    replaces: Replacement | None = None
    """For a replay, the rows that it replaces: it ignores other events and invalid lines."""


@dataclass
class ChunkWriter:
    """Writes the chunks, message ids and quarantine of one task, and collects its result."""

    job: ReadJob
    number: int
    rejected: list[RejectedLine] = field(default_factory=list)
    """Invalid lines that are not yet written to the quarantine."""
    result: ReadResult = field(default_factory=ReadResult)
    _readers: dict[str, TableReader] = field(default_factory=dict)
    """The reader of each table."""
    _users: HashCollector = field(default_factory=HashCollector)
    """The users' ids in each input. A replay has them from the loads."""
    _observations: ObservationBuffer = field(init=False)

    def __post_init__(self) -> None:
        self._observations = ObservationBuffer(self.job.store, self.job.stage, self._label)

    def add(self, tables: Iterable[tuple[str, Call, list[Event]]]) -> None:
        """Parse tables' events and write them as chunks, about `WRITE_BYTES` into one object.

        Adds the chunks and their message ids to `result`, and too deep events to `rejected`.
        """
        pending: list[_PendingChunk] = []
        for table, call, events in tables:
            for chunk in self._build(table, call, events):
                pending.append(chunk)
                if sum(one.memory for one in pending) > WRITE_BYTES:
                    self._write(pending)
                    pending = []
        if pending:
            self._write(pending)

    def write_quarantine(self, above: int) -> None:
        """Move `rejected` into the stage if it has over `above` bytes or `MAX_REJECTED` lines.

        With 0, all lines. A replay drops the lines: the run that loaded them has quarantined them.
        """
        if self.job.replaces:  # the run that loaded them has quarantined them
            self.rejected.clear()
            return
        is_short = len(self.rejected) <= min(above, MAX_REJECTED)
        if is_short and sum(len(one.raw) for one in self.rejected) <= above:
            return
        path = new_path(f"{self.job.stage}/quarantine", self._label, ".parquet")
        write_quarantine_part(
            self.job.store,
            path,
            self.rejected,
            lambda file: display_address(self.job.files[file]),
            self.job.run_id,
        )
        self.add_users((one.raw, one.place) for one in self.rejected)
        self.result.quarantine.append(path)
        self.result.quarantined += len(self.rejected)
        self.rejected.clear()

    def finish(self) -> ReadResult:
        """Write the remaining rejected lines, add the observations to the result and return it."""
        self.write_quarantine(0)
        self.result.observations = self._observations.finish()
        self.result.more_observations = self._observations.parts
        users = {str(number): hashes for number, hashes in self._users.finish().items()}
        self.result.users = make_part(self.job.store, self.job.stage, self._label, users)
        return self.result

    def add_users(self, lines: Iterable[tuple[bytes, int]]) -> None:
        """Add the users' ids of lines that do not become rows, given with their places."""
        if self.job.replaces:
            return
        pairs = [(place >> LINE_BITS, one) for line, place in lines for one in list_ids(line)]
        if pairs:
            files, ids = zip(*pairs, strict=True)
            self._users.add_rows(np.array(files), pa.array(ids, pa.string()))

    def _add_users_of_rows(self, batch: pa.RecordBatch, places: np.ndarray) -> None:
        """Add the users' ids of a chunk's rows."""
        if self.job.replaces:
            return
        for values in read_batch(batch).paths:
            if values.dotted in ID_FIELDS:
                ids = cast_column(values.kind, values.array, Type.STRING).values
                self._users.add_rows(places >> LINE_BITS, ids)

    @property
    def _label(self) -> str:
        """The task's number with leading zeros, which its objects' names begin with."""
        return f"{self.number:06d}"

    def _write(self, pending: list["_PendingChunk"]) -> None:
        """Write chunks into one object, and their message ids by bucket into another.

        Adds both to `result`.
        """
        first_chunk = len(self.result.chunks)
        rows = sum(len(one.received) for one in pending)
        path = new_path_with_rows(f"{self.job.stage}/read", self._label, rows, ".chunks")
        # Arrow writes each buffer of each column separately, and most are small.
        with (
            self.job.store.open_staged(path) as raw,
            pa.BufferedOutputStream(raw, BUFFER_BYTES) as out,
        ):
            for one in pending:
                offset = out.tell()
                encode_batch(one.batch, out, self.job.compression)
                self.result.chunks.append(one.meta(path, offset, out.tell() - offset))
        ids = np.concatenate([one.id_rows(number) for number, one in enumerate(pending)])
        path = new_path(f"{self.job.stage}/ids", self._label, ".ids")
        self.result.ids += write_id_rows(self.job.store, path, ids, self.job.buckets, first_chunk)

    def _build(self, table: str, call: Call, events: list[Event]) -> Iterator["_PendingChunk"]:
        """Yield chunks of a table's events, of at most `MAX_ROWS` rows; adds their observations.

        Events that nest too deep go to `rejected`. A batch that the parser finds too large is
        split. Of a chunk with over `split_bytes` in memory, yields one for each date partition.
        """
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
            self._observations.add(table, chunk.observations, reader.spare_columns)
            where = np.array(places, np.int64)
            self._add_users_of_rows(chunk.batch, where)
            pending = _PendingChunk(table, call, chunk.batch, received, ids, where)
            yield from self._split_by_partition(pending)

    def _split_by_partition(self, pending: "_PendingChunk") -> Iterator["_PendingChunk"]:
        """Yield the chunk, or one per date partition if it has over `split_bytes` in memory."""
        spans = pending.received // self.job.settings.date_partition.span
        partitions = np.unique(spans)
        if len(partitions) == 1 or pending.memory <= self.job.tunables.split_bytes:
            yield pending
            return
        for partition in partitions:
            yield pending.take(np.flatnonzero(spans == partition))

    def _reader_of(self, table: str, call: Call) -> TableReader:
        """Return the table's reader; the first call makes it, for the types of an existing table.

        It may add as many columns as `max_columns` leaves, which can be less than none.
        """
        if table not in self._readers:
            settings = self.job.settings
            existing = self.job.table_types.get(table)
            types = existing or new_table(table, call, settings.columns).types
            self._readers[table] = TableReader(
                call,
                settings.columns,
                settings.date_partition,
                existing or {},
                settings.max_columns - budget_used(types),
                kinds=_learned_kinds(self.job.run_id).setdefault(table, PathKinds()),
            )
        return self._readers[table]


_kinds_by_run: dict[str, dict[str, PathKinds]] = {}


def _learned_kinds(run_id: str) -> dict[str, PathKinds]:
    """Return what the tasks of a run have learned of each table in this process.

    Only how fast lines are read depends on it. A task has too few lines of most tables to earn what
    learning their kinds costs.
    """
    if run_id not in _kinds_by_run:
        _kinds_by_run.clear()  # those of an earlier run
    return _kinds_by_run.setdefault(run_id, {})


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
        """Describe the chunk as written to object `name`, at `offset`, in `size` bytes."""
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
        """The bytes of the batch, uncompressed."""
        return int(pa.ipc.get_record_batch_size(self.batch))  # `nbytes` takes ten times as long

    def id_rows(self, number: int) -> np.ndarray:
        """Return the message ids as `ID_ROW`, one for each row.

        `number` is that of the chunk among those that are written with it.
        """
        ids = np.empty(len(self.received), ID_ROW)
        ids["high"], ids["low"] = hash_ids(self.ids)
        ids["received"], ids["place"] = self.received, self.places
        ids["chunk"], ids["row"] = number, np.arange(len(ids))
        return ids

    def take(self, rows: np.ndarray) -> "_PendingChunk":
        """Return a new chunk of the rows with these numbers, in this order."""
        batch = self.batch.take(pa.array(rows))
        ids = [self.ids[row] for row in rows.tolist()]
        received, places = self.received[rows], self.places[rows]
        return _PendingChunk(self.table, self.call, batch, received, ids, places)


def _split_events(events: list[Event], count: int) -> list[list[Event]]:
    """Split events, in order, into at most `count` parts of about equal length; none is empty."""
    if count <= 1:
        return [events] if events else []
    size = -(-len(events) // count)
    return [events[at : at + size] for at in range(0, len(events), size)]
