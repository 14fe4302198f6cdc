"""One table's share of a block of events: columns by path, conflicts settled, types observed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.cast import ARROW, cast_column, json_text, observe_column, observe_text
from eventlake.kernels.kinds import Kind, Kinds
from eventlake.kernels.parse import Parsed, parse
from eventlake.kernels.times import MICROS, as_micros
from eventlake.model.layout import DatePartition
from eventlake.model.naming import RESCUED, Call, Leaf, Naming, Path, leaf
from eventlake.model.schema import standard_columns
from eventlake.model.types import Type, join

RESCUE = "rescue"
"""The chunk's own column of values that could not sit in theirs: JSON `[[path, text], …]`."""
LOOSE = "loose"
"""Another, of values whose columns are too many to be made here: `[[path, text, column], …]`."""
MAX_SPARSE = 500
MAX_STRINGS = 20_000
RECEIVED = "received_at"

_KNOWN_NUMBERS = (Type.DECIMAL, Type.STRING)


@dataclass
class TableReader:
    """Reads one table's events, and remembers the kinds of its paths from block to block."""

    call: Call
    naming: Naming
    date_partition: DatePartition
    known: dict[str, Type]
    """The inferred columns that the table has already."""
    room: int
    """How many new columns it may still take."""
    strings: set[Path] = field(default_factory=set)
    """Paths of new columns that are strings already, whatever else they bring."""
    kinds: Kinds = field(init=False)
    standard: dict[str, Type] = field(init=False)
    own: dict[Path, Leaf] = field(init=False)
    reserved: set[str] = field(init=False)
    """Columns that an ordinary field cannot have."""

    def __post_init__(self) -> None:
        standard = standard_columns(self.call, self.naming)
        self.standard = {one.column: one.type for one in standard}
        self.own = {one.path: Leaf(one.path, one.column, exact=True) for one in standard}
        self.reserved = {*self.standard, *self.date_partition.columns, RESCUED}
        self.kinds = Kinds(spelled=self._spelled)

    def leaf(self, path: Path) -> Leaf:
        """The column that the value at a path is for; standard columns have their own source."""
        return self.own.get(path) or leaf(self.call, path, self.naming)

    def is_own(self, found: Leaf) -> bool:
        """Whether a field is the one that a standard column is made of."""
        return found.path in self.own

    def _spelled(self, path: Path) -> bool:
        column = self.leaf(path).column
        known = self.known.get(column, Type.DECIMAL)
        return column in self.reserved or known not in _KNOWN_NUMBERS


class Physical(NamedTuple):
    """The values of one path, of one kind; a column may be made of several."""

    leaf: Leaf
    kind: Kind
    array: pa.Array

    def without(self, rows: pa.BooleanArray) -> "Physical":
        empty = pa.scalar(None, self.array.type)
        return self._replace(array=pc.if_else(rows, empty, self.array))


class Seen(NamedTuple):
    """A new column as one chunk saw it: its type and the best of its paths."""

    column: str
    type: Type
    rank: tuple[bool, str]


def add_seen(more: Iterable[Seen], found: dict[str, Seen]) -> None:
    """Join what was seen of columns to what is known of them; the order does not matter."""
    for one in more:
        known = found.setdefault(one.column, one)
        if known is not one:
            rank = min(known.rank, one.rank)
            found[one.column] = Seen(one.column, join(known.type, one.type), rank)


@dataclass(frozen=True)
class Chunk:
    """Rows by path, and what was seen of new columns."""

    batch: pa.RecordBatch
    seen: list[Seen]


class Rescues:
    """Values to be rescued, by row: each with its path and JSON text."""

    def __init__(self) -> None:
        self.by_row: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)

    def add(self, physical: Physical, rows: pa.BooleanArray) -> None:
        """Rescue a path's values in these rows."""
        at = pc.indices_nonzero(pc.and_(rows.fill_null(False), physical.array.is_valid()))
        texts = json_text(physical.kind, physical.array.take(at))
        dotted = physical.leaf.dotted
        for row, text in zip(at.to_pylist(), texts.to_pylist(), strict=True):
            self.by_row[row].append((dotted, text))

    def add_sparse(self, path: Leaf, values: Iterable[tuple[int, str]]) -> None:
        for row, text in values:
            self.by_row[row].append((path.dotted, text))


def build_chunk(lines: Sequence[bytes], received: np.ndarray, reader: TableReader) -> Chunk:
    """The lines of a table as a chunk, in their order; may raise `TooDeep` or `TooWide`."""
    parsed = _parse_uncrowded(lines, reader)
    rescues, loose = Rescues(), Loose()
    physicals = [*_dense(parsed, reader), *_sparse(parsed, reader, rescues, loose)]
    physicals = [
        _received(received, reader),
        *_settled(physicals, received, reader, rescues),
    ]
    loose.settle(rescues)
    batch = _batch(physicals, {RESCUE: rescues.by_row, LOOSE: loose.by_row()}, len(lines))
    new = (one for one in loose.seen() if one.column not in reader.known)
    return Chunk(batch, [*_seen(physicals, reader), *new])


def _received(received: np.ndarray, reader: TableReader) -> Physical:
    """The first column of every chunk; routing has read it already."""
    source = next(one for one in reader.own.values() if one.column == RECEIVED)
    return Physical(source, Kind.TIME, pa.array(received).view(MICROS))


def received_in(batch: pa.RecordBatch) -> np.ndarray:
    """When each row of a chunk was received, in microseconds."""
    return as_micros(batch.column(0))


def _parse_uncrowded(lines: Sequence[bytes], reader: TableReader) -> Parsed:
    """Parsed so that numbers keep their spelling where paths share a column, or lack one."""
    while True:
        parsed = parse(lines, reader.kinds)
        sharing: defaultdict[str, set[Path]] = defaultdict(set)
        for path in (*parsed.dense, *parsed.sparse):
            sharing[reader.leaf(path).column].add(path)
        full = len(sharing.keys() - reader.known.keys() - reader.reserved) > reader.room
        crowded = [
            path
            for path, (kind, _) in parsed.dense.items()
            if kind is Kind.NUMBER and (full or len(sharing[reader.leaf(path).column]) > 1)
        ]
        if not crowded:
            return parsed
        reader.kinds.of.update(dict.fromkeys(crowded, Kind.JSON))


def _dense(parsed: Parsed, reader: TableReader) -> Iterable[Physical]:
    back = _back(parsed)
    for path, (kind, array) in parsed.dense.items():
        yield Physical(reader.leaf(path), kind, array if back is None else array.take(back))


def _back(parsed: Parsed) -> pa.Array | None:
    """For each line the row it was parsed in, null for those that Python read; None if the same."""
    fast = next((len(array) for _, array in parsed.dense.values()), 0)
    if fast == parsed.rows:
        return None
    rows = np.full(parsed.rows, -1, np.int64)
    rows[parsed.order[:fast]] = np.arange(fast)
    return pa.array(rows, mask=rows < 0)


def _sparse(
    parsed: Parsed, reader: TableReader, rescues: Rescues, loose: "Loose"
) -> Iterable[Physical]:
    made = {reader.leaf(path).column for path in parsed.dense}
    crowd = len(parsed.sparse) > MAX_SPARSE
    for path, values in parsed.sparse.items():
        target = reader.leaf(path)
        placed = [(parsed.order[row], text) for row, text in values]
        new = target.column not in reader.known and target.column not in reader.reserved
        if new and reader.room <= 0:
            rescues.add_sparse(target, placed)  # no need to make a column first
        elif crowd and target.column not in made and target.column not in reader.reserved:
            loose.add(target, placed)
        else:
            yield Physical(target, Kind.JSON, scatter(placed, parsed.rows))


class Loose:
    """Values of many rare columns, kept by row: keys that are data would fill the memory."""

    def __init__(self) -> None:
        self._claims: defaultdict[tuple[int, str], list[tuple[Leaf, str]]] = defaultdict(list)

    def add(self, target: Leaf, values: Iterable[tuple[int, str]]) -> None:
        for row, text in values:
            self._claims[row, target.column].append((target, text))

    def settle(self, rescues: Rescues) -> None:
        """Leave one value to each column of a row; the others are rescued."""
        for (row, _), claims in self._claims.items():
            claims.sort(key=lambda claim: (claim[0].rank, claim[0].path))
            for loser, text in claims[1:]:
                rescues.add_sparse(loser, [(row, text)])
            del claims[1:]

    def by_row(self) -> dict[int, list[tuple[str, ...]]]:
        rows: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
        for (row, column), claims in self._claims.items():
            rows[row] += [(claim.dotted, text, column) for claim, text in claims]
        return rows

    def seen(self) -> list[Seen]:
        found: dict[str, Seen] = {}
        for (_, column), claims in self._claims.items():
            add_seen([Seen(column, observe_text(claims[0][1]), claims[0][0].rank)], found)
        return list(found.values())


def scatter(values: Iterable[tuple[int, str]], rows: int) -> pa.StringArray:
    """A column with these texts in these rows."""
    texts: list[str | None] = [None] * rows
    for row, text in values:
        texts[row] = text
    return pa.array(texts, pa.string())


def _settled(
    physicals: list[Physical], received: np.ndarray, reader: TableReader, rescues: Rescues
) -> Iterable[Physical]:
    """What is left to each column once those that may not have it are rescued."""
    columns: defaultdict[str, list[Physical]] = defaultdict(list)
    for physical in physicals:
        columns[physical.leaf.column].append(physical)
    for column, claims in columns.items():
        if column in reader.reserved:
            own = [claim for claim in claims if reader.is_own(claim.leaf)]
            yield from () if column == RECEIVED else own
            if len(own) < len(claims):
                held = _held(column, own, received, reader)
                _rescue_unequal([c for c in claims if c not in own], held, reader, rescues)
        elif len({claim.leaf.path for claim in claims}) == 1:
            yield from claims
        else:
            yield from _first_come(claims, rescues)


def _held(column: str, own: list[Physical], received: np.ndarray, reader: TableReader) -> pa.Array:
    """What a reserved column holds in each row."""
    if column in reader.date_partition.columns:
        return _partition_values(column, received, reader.date_partition)
    if column == RESCUED or not own:
        return pa.nulls(len(received), ARROW[reader.standard.get(column, Type.STRING)])
    kind = reader.standard[column]
    return pc.coalesce(*(cast_column(claim.kind, claim.array, kind).values for claim in own))


def _partition_values(column: str, received: np.ndarray, by: DatePartition) -> pa.Array:
    starts, rows = np.unique(received // by.span, return_inverse=True)
    names = [by.values(int(start) * by.span)[column] for start in starts]
    return pa.array(names, pa.string()).take(pa.array(rows))


def _rescue_unequal(
    claims: list[Physical], held: pa.Array, reader: TableReader, rescues: Rescues
) -> None:
    for claim in claims:
        kind = reader.standard.get(claim.leaf.column, Type.STRING)
        cast = cast_column(claim.kind, claim.array, kind)
        equal = pc.equal(cast.values, held).fill_null(False)
        lossy = cast.rescue if cast.rescue is not None else pa.scalar(False)
        rescues.add(claim, pc.or_(pc.invert(equal), lossy))


def _first_come(claims: list[Physical], rescues: Rescues) -> Iterable[Physical]:
    """Of several paths in one row the first keeps the column; the others are rescued."""
    claims.sort(key=lambda claim: (claim.leaf.rank, claim.leaf.path))
    taken = claims[0].array.is_valid()
    yield claims[0]
    for claim in claims[1:]:
        rescues.add(claim, taken)
        yield claim.without(taken)
        taken = pc.or_(taken, claim.array.is_valid())


def _batch(
    physicals: list[Physical], entries: dict[str, Mapping[int, list[tuple[str, ...]]]], rows: int
) -> pa.RecordBatch:
    columns = [[p.leaf.column, p.leaf.dotted, p.kind] for p in physicals]
    arrays = [p.array for p in physicals]
    for name, by_row in entries.items():
        if by_row:
            columns.append([name, "", name])
            arrays.append(_entries(by_row, rows))
    names = [str(number) for number in range(len(arrays))]
    note = {"columns": msgspec.json.encode(columns)}
    return pa.RecordBatch.from_arrays(arrays, names, metadata=note)


def _entries(by_row: Mapping[int, list[tuple[str, ...]]], rows: int) -> pa.StringArray:
    return scatter(((row, json.dumps(found)) for row, found in by_row.items()), rows)


def _seen(physicals: list[Physical], reader: TableReader) -> list[Seen]:
    """What the chunk tells of new columns; what an earlier one has told for good is left out."""
    told = [
        p
        for p in physicals
        if p.leaf.column not in reader.known
        and p.leaf.column not in reader.standard
        and p.leaf.path not in reader.strings
        and p.array.null_count < len(p.array)
    ]
    seen = [Seen(p.leaf.column, observe_column(p.kind, p.array), p.leaf.rank) for p in told]
    strings = {one.column for one in seen if one.type is Type.STRING}
    if len(reader.strings) > MAX_STRINGS:
        reader.strings.clear()  # to say a thing again does no harm
    reader.strings |= {p.leaf.path for p in told if p.leaf.column in strings}
    return seen
