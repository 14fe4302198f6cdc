"""Turn one table's lines into a chunk: columns by path, conflicts resolved, types observed.

A chunk keeps the values by *path*, not yet in the types of the table's columns, because those are
only final once all tasks of a run have reported the new columns they observed. What is decided
here, row by row, is which path may fill which column:

- Several paths can map to one column name (`unitPrice`, `unit_price`). In each row the path of the
  best rank gets the column; the values of the others are rescued.
- Reserved columns (standard columns, partition columns, `_rescued_data`) belong to their own
  source. Any other path that maps to one is rescued unless its value equals what the column holds.
- If the table cannot take any more columns, the values of new ones are rescued at once.

A rescued value keeps the text that was sent, so paths of numbers that may be rescued are parsed
as JSON text; that a path needs this may only show after a parse, which is then repeated.

Lines whose keys are data bring thousands of paths with few values each. Their values are not made
into columns but kept as overflow, grouped by row, until the table's columns are final.

`chunk_format` has the form in which the values are stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.cast import (
    ARROW_BY_TYPE,
    cast_column,
    json_text,
    observe_column,
    observe_text,
)
from eventlake.kernels.chunk_format import StoredValues, make_batch, scatter
from eventlake.kernels.kinds import PathKinds, ValueKind
from eventlake.kernels.parse import ParsedBlock, parse_lines
from eventlake.kernels.times import MICROS
from eventlake.model.layout import DatePartition
from eventlake.model.naming import RESCUED, Call, Leaf, Naming, Path, leaf
from eventlake.model.schema import standard_columns
from eventlake.model.types import Type, join

MAX_STRING_PATHS = 20_000
"""Most paths that a reader remembers as strings."""
RECEIVED_AT = "received_at"

_NUMBER_COLUMNS = (Type.DECIMAL, Type.STRING)
"""The types that a number fits in without being rescued."""


@dataclass
class TableReader:
    """Builds the chunks of one table; learns the kinds of its paths from block to block."""

    call: Call
    naming: Naming
    date_partition: DatePartition
    existing: dict[str, Type]
    """The columns that the table has before this run."""
    spare_columns: int
    """How many new columns the table may still get."""
    max_sparse_columns: int = 500
    """Most columns made of sparse values; with more, values go to the overflow."""
    string_paths: set[Path] = field(default_factory=set)
    """Paths of new columns that were reported as strings, which no other value can change."""
    kinds: PathKinds = field(default_factory=PathKinds)
    standard_types: dict[str, Type] = field(init=False)
    standard_sources: dict[Path, Leaf] = field(init=False)
    """The paths that the standard columns are made of."""
    reserved: set[str] = field(init=False)
    """Columns that no other path may fill."""

    def __post_init__(self) -> None:
        standard = standard_columns(self.call, self.naming)
        self.standard_types = {one.column: one.type for one in standard}
        self.standard_sources = {
            one.path: Leaf(one.path, one.column, exact=True) for one in standard
        }
        self.reserved = {*self.standard_types, *self.date_partition.columns, RESCUED}
        self.kinds.keeps_number_text = self._keeps_number_text

    def leaf(self, path: Path) -> Leaf:
        """Return a path with the column that its values are for, which several paths may share."""
        return self.standard_sources.get(path) or leaf(self.call, path, self.naming)

    def _keeps_number_text(self, path: Path) -> bool:
        """Whether numbers at a path may be rescued, so that they must keep the text that was sent.

        True if the path's column is reserved, or exists with a type other than decimal and string.
        """
        column = self.leaf(path).column
        existing = self.existing.get(column, Type.DECIMAL)
        return column in self.reserved or existing not in _NUMBER_COLUMNS


class PathValues(NamedTuple):
    """The values of one path in all rows of a chunk; a column may be made of several paths."""

    leaf: Leaf
    kind: ValueKind
    array: pa.Array

    @property
    def stored(self) -> StoredValues:
        """The same values in the form that `chunk_format` stores."""
        return StoredValues(self.leaf.column, self.leaf.dotted, self.kind, self.array)

    def without(self, rows: pa.BooleanArray) -> "PathValues":
        """Return a copy with null in the rows where the mask is true."""
        empty = pa.scalar(None, self.array.type)
        return self._replace(array=pc.if_else(rows, empty, self.array))


class ColumnObservation(NamedTuple):
    """What a chunk observed of a new column: the type of its values and the best path's rank."""

    column: str
    type: Type
    rank: tuple[bool, str]


def merge_observations(
    more: Iterable[ColumnObservation], by_column: dict[str, ColumnObservation]
) -> None:
    """Merge observations into `by_column`, in place; their order does not matter.

    A column that is there already gets the joined type and the better rank.
    """
    for new in more:
        earlier = by_column.setdefault(new.column, new)
        if earlier is not new:
            joined, rank = join(earlier.type, new.type), min(earlier.rank, new.rank)
            by_column[new.column] = ColumnObservation(new.column, joined, rank)


@dataclass(frozen=True)
class Chunk:
    """Rows with their values by path, and what was observed of new columns."""

    batch: pa.RecordBatch
    observations: list[ColumnObservation]


class RescuedValues:
    """The values to be rescued in each row, as (dotted path, JSON text)."""

    def __init__(self) -> None:
        self.by_row: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)

    def add(self, values: StoredValues, rows: pa.BooleanArray) -> None:
        """Add the values in the rows where the mask is true, as JSON text; nulls are not added."""
        at = pc.indices_nonzero(pc.and_(rows.fill_null(False), values.array.is_valid()))
        texts = json_text(values.kind, values.array.take(at))
        for row, text in zip(at.to_pylist(), texts.to_pylist(), strict=True):
            self.by_row[row].append((values.dotted, text))

    def add_sparse(self, path: Leaf, values: Iterable[tuple[int, str]]) -> None:
        """Add values of one path, given as (row, JSON text)."""
        for row, text in values:
            self.by_row[row].append((path.dotted, text))


class OverflowValues:
    """The values of rare columns, by row and column, so that no array is needed for each column."""

    def __init__(self) -> None:
        self._candidates: defaultdict[tuple[int, str], list[tuple[Leaf, str]]] = defaultdict(list)

    def add(self, target: Leaf, values: Iterable[tuple[int, str]]) -> None:
        """Add values of one path, as (row, JSON text); other paths may have the same column."""
        for row, text in values:
            self._candidates[row, target.column].append((target, text))

    def resolve_conflicts(self, rescues: RescuedValues) -> None:
        """Keep the value of best rank for each row and column; move the others to `rescues`."""
        for (row, _), candidates in self._candidates.items():
            candidates.sort(key=lambda candidate: (candidate[0].rank, candidate[0].path))
            for loser, text in candidates[1:]:
                rescues.add_sparse(loser, [(row, text)])
            del candidates[1:]

    def by_row(self) -> dict[int, list[tuple[str, ...]]]:
        """Return (dotted path, JSON text, column) of all values, by row."""
        rows: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
        for (row, column), candidates in self._candidates.items():
            rows[row] += [(path.dotted, text, column) for path, text in candidates]
        return rows

    def observe(self) -> list[ColumnObservation]:
        """Return the joined type of each column's values, and the best rank of their paths.

        Call after `resolve_conflicts`, which leaves one value for each row and column.
        """
        by_column: dict[str, ColumnObservation] = {}
        for (_, column), candidates in self._candidates.items():
            path, text = candidates[0]
            observation = ColumnObservation(column, observe_text(text), path.rank)
            merge_observations([observation], by_column)
        return list(by_column.values())


def build_chunk(lines: Sequence[bytes], received: np.ndarray, reader: TableReader) -> Chunk:
    """Build the chunk of a table's lines, a row for each line in the same order.

    `received` has each line's time of receipt in microseconds. Adds what it learns to `reader`.
    Raises `TooDeep` for a line that nests too deep, and `BlockTooLarge` if there are too many
    lines.
    """
    parsed = _parse_keeping_number_text(lines, reader)
    rescues, overflow = RescuedValues(), OverflowValues()
    candidates = [
        *_dense_values(parsed, reader),
        *_sparse_values(parsed, reader, rescues, overflow),
    ]
    paths = [
        _received_values(received, reader),
        *_resolve_conflicts(candidates, received, reader, rescues),
    ]
    overflow.resolve_conflicts(rescues)
    stored = [path.stored for path in paths]
    batch = make_batch(stored, rescues.by_row, overflow.by_row(), len(lines))
    new = (one for one in overflow.observe() if one.column not in reader.existing)
    return Chunk(batch, [*_observe_new_columns(paths, reader), *new])


def _received_values(received: np.ndarray, reader: TableReader) -> PathValues:
    """Make the values of `received_at`, a chunk's first column, from microseconds since 1970."""
    source = next(one for one in reader.standard_sources.values() if one.column == RECEIVED_AT)
    return PathValues(source, ValueKind.TIME, pa.array(received).view(MICROS))


def _parse_keeping_number_text(lines: Sequence[bytes], reader: TableReader) -> ParsedBlock:
    """Parse lines, again if paths of numbers share a column or may not get one.

    Their values may be rescued, so their kind in `reader.kinds` becomes JSON, which keeps the text
    of each number. Raises as `parse_lines` does.
    """
    # Not within the loop: it ends because the kinds that it sets are kept.
    reader.kinds.forget_if_many()
    while True:
        parsed = parse_lines(lines, reader.kinds)
        paths_of: defaultdict[str, set[Path]] = defaultdict(set)
        for path in (*parsed.dense, *parsed.sparse):
            paths_of[reader.leaf(path).column].add(path)
        new_columns = paths_of.keys() - reader.existing.keys() - reader.reserved
        too_many = len(new_columns) > reader.spare_columns
        rescuable = [
            path
            for path, (kind, _) in parsed.dense.items()
            if kind is ValueKind.NUMBER
            and (too_many or len(paths_of[reader.leaf(path).column]) > 1)
        ]
        if not rescuable:
            return parsed
        reader.kinds.by_path.update(dict.fromkeys(rescuable, ValueKind.JSON))


def _dense_values(parsed: ParsedBlock, reader: TableReader) -> Iterable[PathValues]:
    """Yield the dense columns with their rows in the order of the lines; null in slow lines."""
    rows = _rows_of_lines(parsed)
    for path, (kind, array) in parsed.dense.items():
        yield PathValues(reader.leaf(path), kind, array if rows is None else array.take(rows))


def _rows_of_lines(parsed: ParsedBlock) -> pa.Array | None:
    """Return the dense row of each line, null for slow lines; None if each line is its own row."""
    fast = next((len(array) for _, array in parsed.dense.values()), 0)
    if fast == parsed.rows:
        return None
    rows = np.full(parsed.rows, -1, np.int64)
    rows[parsed.order[:fast]] = np.arange(fast)
    return pa.array(rows, mask=rows < 0)


def _sparse_values(
    parsed: ParsedBlock, reader: TableReader, rescues: RescuedValues, overflow: OverflowValues
) -> Iterable[PathValues]:
    """Yield the sparse values as columns of JSON text; some go to `rescues` or `overflow` instead.

    To `rescues` go values of a new column that the table has no room for. To `overflow` go all
    others if there are too many paths, except those of reserved columns and of columns that dense
    values fill too.
    """
    dense_columns = {reader.leaf(path).column for path in parsed.dense}
    too_many = len(parsed.sparse) > reader.max_sparse_columns
    for path, values in parsed.sparse.items():
        target = reader.leaf(path)
        by_line = [(parsed.order[row], text) for row, text in values]
        is_reserved = target.column in reader.reserved
        is_new = target.column not in reader.existing and not is_reserved
        if is_new and reader.spare_columns <= 0:
            rescues.add_sparse(target, by_line)
        elif too_many and target.column not in dense_columns and not is_reserved:
            overflow.add(target, by_line)
        else:
            yield PathValues(target, ValueKind.JSON, scatter(by_line, parsed.rows))


def _resolve_conflicts(
    paths: list[PathValues], received: np.ndarray, reader: TableReader, rescues: RescuedValues
) -> Iterable[PathValues]:
    """Resolve competing paths per column; yield them with null where they lost; rescue the losers.

    A reserved column is left to its own source, and values of other paths that equal what it holds
    are dropped. Paths of `received_at` are not yielded: `_received_values` makes it.
    """
    columns: defaultdict[str, list[PathValues]] = defaultdict(list)
    for path in paths:
        columns[path.leaf.column].append(path)
    for column, competing in columns.items():
        if column in reader.reserved:
            own = [path for path in competing if path.leaf.path in reader.standard_sources]
            yield from () if column == RECEIVED_AT else own
            if len(own) < len(competing):
                held = _reserved_values(column, own, received, reader)
                others = [path for path in competing if path not in own]
                _rescue_unequal(others, held, reader, rescues)
        elif len({path.leaf.path for path in competing}) == 1:
            yield from competing
        else:
            yield from _resolve_by_rank(competing, rescues)


def _reserved_values(
    column: str, own: list[PathValues], received: np.ndarray, reader: TableReader
) -> pa.Array:
    """Return what a reserved column holds in each row; `own` are its source's values.

    Null for `_rescued_data`, and for a standard column without values.
    """
    if column in reader.date_partition.columns:
        return _partition_values(column, received, reader.date_partition)
    if column == RESCUED or not own:
        arrow_type = ARROW_BY_TYPE[reader.standard_types.get(column, Type.STRING)]
        return pa.nulls(len(received), arrow_type)
    to = reader.standard_types[column]
    return pc.coalesce(*(cast_column(path.kind, path.array, to).values for path in own))


def _partition_values(column: str, received: np.ndarray, by: DatePartition) -> pa.Array:
    """Return the partition column's text for each time of receipt, given in microseconds."""
    starts, rows = np.unique(received // by.span, return_inverse=True)
    names = [by.values(int(start) * by.span)[column] for start in starts]
    return pa.array(names, pa.string()).take(pa.array(rows))


def _rescue_unequal(
    paths: list[PathValues], held: pa.Array, reader: TableReader, rescues: RescuedValues
) -> None:
    """Add to `rescues` the values that differ from what their reserved column holds.

    A value that is equal only after a cast that loses something differs.
    """
    for path in paths:
        to = reader.standard_types.get(path.leaf.column, Type.STRING)
        cast = cast_column(path.kind, path.array, to)
        equal = pc.equal(cast.values, held).fill_null(False)
        lossy = cast.rescue if cast.rescue is not None else pa.scalar(False)
        rescues.add(path.stored, pc.or_(pc.invert(equal), lossy))


def _resolve_by_rank(paths: list[PathValues], rescues: RescuedValues) -> Iterable[PathValues]:
    """In each row leave the column to the path of best rank that has a value; rescue the others.

    Yields all paths, best rank first, with null where another path has the column.
    """
    paths.sort(key=lambda path: (path.leaf.rank, path.leaf.path))
    filled = paths[0].array.is_valid()
    yield paths[0]
    for path in paths[1:]:
        rescues.add(path.stored, filled)
        yield path.without(filled)
        filled = pc.or_(filled, path.array.is_valid())


def _observe_new_columns(paths: list[PathValues], reader: TableReader) -> list[ColumnObservation]:
    """Observe the types of new columns, except paths that an earlier chunk reported as strings.

    Several paths of a column give several observations. Adds to `reader.string_paths`.
    """
    new = [
        path
        for path in paths
        if path.leaf.column not in reader.existing
        and path.leaf.column not in reader.standard_types
        and path.leaf.path not in reader.string_paths
        and path.array.null_count < len(path.array)
    ]
    observations = [
        ColumnObservation(p.leaf.column, observe_column(p.kind, p.array), p.leaf.rank) for p in new
    ]
    strings = {one.column for one in observations if one.type is Type.STRING}
    if len(reader.string_paths) > MAX_STRING_PATHS:
        reader.string_paths.clear()  # reporting a column twice does no harm
    reader.string_paths |= {path.leaf.path for path in new if path.leaf.column in strings}
    return observations
