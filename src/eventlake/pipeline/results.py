"""The values that the steps of a run pass on to each other, small enough to go through Spark."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from eventlake.kernels.chunk import ColumnObservation
from eventlake.model.commit import ColumnStats
from eventlake.model.naming import Call
from eventlake.stores import Range

MAX_DUPLICATE_IDS = 10_000
"""Duplicates of a run whose ids are in its commit, at most."""


class ChunkMeta(msgspec.Struct, frozen=True):
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
    """Row numbers of duplicates as 32-bit integers; `group_chunks` sets them."""

    @property
    def range(self) -> Range:
        """The chunk's byte range, to be read from the store."""
        return Range(self.object, self.offset, self.size)

    @property
    def landed_rows(self) -> int:
        """The number of rows that are not duplicates; before `group_chunks`, of all rows."""
        return self.rows - len(self.duplicate_rows) // 4


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


class UserPart(msgspec.Struct, frozen=True):
    """The hashes of the users' ids in a task's files, as an Arrow stream; empty without files."""

    data: bytes = b""
    """The stream itself, if it is small."""
    path: str = ""
    """Else the object in the stage that has it."""


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
    spans: list[tuple[int, int, int]] = []
    """Number of an input, first and last time of receipt of its events."""
    users: UserPart = UserPart()
    """The hashes of the users' ids in each input."""


class DedupeResult(msgspec.Struct):
    """The duplicates of one bucket, and the file of its other ids."""

    duplicate_rows: list[tuple[int, int, bytes]] = []
    """Reading task, number of the chunk in it, and row numbers as 32-bit integers."""
    duplicate_ids: bytes = b""
    """The duplicates' ids as `pack_hashes` packs them; empty if there are very many."""
    path: str = ""
    """The file of the landed ids in the stage; empty if all are duplicates."""
    rows: int = 0
    first: int = 0
    last: int = 0


class WrittenFile(msgspec.Struct):
    """A Parquet file in the stage."""

    table: str
    start: int
    """Start of its partition, in microseconds."""
    path: str
    rows: int
    bytes: int
    stats: dict[str, ColumnStats] = {}


class WriteResult(msgspec.Struct):
    """The files that one task wrote, and the number of rescued values by table."""

    files: list[WrittenFile] = []
    rescued: dict[str, int] = {}
    quarantine: str = ""
    users: UserPart = UserPart()
    """The hashes of the users' ids in each file."""


ChunksByTable = dict[str, list[ChunkMeta]]


def group_chunks(read: Iterable[ReadResult], dedupe: Iterable[DedupeResult]) -> ChunksByTable:
    """Return the chunks by table, sorted by table, with the duplicate rows of all results set.

    `read` must be in the order of the tasks' numbers. Changes no chunk in place.
    """
    duplicates: defaultdict[tuple[int, int], bytes] = defaultdict(bytes)
    for found in dedupe:
        for task, number, rows in found.duplicate_rows:
            duplicates[task, number] += rows
    tables: defaultdict[str, list[ChunkMeta]] = defaultdict(list)
    for task, result in enumerate(read):
        for number, chunk in enumerate(result.chunks):
            rows = duplicates.get((task, number), b"")
            marked = msgspec.structs.replace(chunk, duplicate_rows=rows) if rows else chunk
            tables[chunk.table].append(marked)
    return dict(sorted(tables.items()))
