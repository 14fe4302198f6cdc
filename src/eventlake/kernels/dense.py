"""Lines to columns with Arrow's reader, in windows whose columns fit in memory.

Arrow makes a cell for every row and key of what it reads at once, so keys that are data could fill
the memory. A window has so few rows that it cannot, whatever its keys are; and reading ends when
all windows together have too many. Where keys are known already, windows are large: Arrow is told
all the keys, and fails at any other.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from eventlake.kernels.awkward import OddLine, Sparse, Unreadable, array_texts, cut
from eventlake.kernels.jsontext import MAX_LEVELS, TooDeep, decode, flatten, skim
from eventlake.kernels.kinds import ARROW_TYPES, FAITHFUL, Kind, Kinds, nested_schema
from eventlake.model.naming import Path

# Not decimal256, which would hold more: Arrow's division of those is wrong for some values
# (9223372036854775807 comes back as another number). What does not fit travels as text.
EXACT = pa.decimal128(38, 18)
EXACT_BOUND = 1e19
MONEY = pa.decimal128(38, 6)

SMALL = 1000
"""Rows that are read at once before their keys are known."""
CLOSED_WINDOWS = 4
"""How many times as many rows are read at once after a window whose keys are all known."""
KEY_BYTES = 5
"""A key and its value have no fewer: `"":0,`."""
MAX_CELLS = 50_000_000
"""Rows times columns of lines that are read into columns."""
OPEN_CELLS = 30_000_000
"""Rows times keys of a window that may have new keys: while it learns them, Arrow takes more."""
MAX_PATHS = 4000
"""Columns that lines are read into; keys that are data are more."""
MAX_ODD_LINES = 20
"""Past so many lines that only Python can read, it reads all of them."""
MAX_READS = 100
"""How often a window is read again since a kind has changed, before Python reads the lines."""

Dense = dict[Path, tuple[Kind, pa.Array]]


class TooManyColumns(Exception):
    """The lines have more keys than columns can be made of."""


class _NewKey(Exception):
    """A key that the window was said not to have."""


_NEW_KEY = re.compile("unexpected field|changed from null")


class _Relearnt(Exception):
    """The kinds have changed; read the window again."""


class Columns(NamedTuple):
    """Lines as columns, without those that only Python can read."""

    dense: Dense
    sparse: Sparse
    """The awkward values."""
    odd: list[int]
    """The lines that were left out."""


def read_columns(lines: Sequence[bytes], kinds: Kinds, first: bool) -> Columns:
    """Columns of lines, the first of their table or not; learns the kinds of new paths.

    Raises `Unreadable` when only Python can read the lines, and `TooManyColumns`.
    """
    windows: list[_Window] = []
    at = open_until = 0
    # How many rows to read as having no new keys, and how many else.
    closed_rows, open_rows = 0 if first else len(lines), SMALL
    while at < len(lines):
        window = None
        if at >= open_until and closed_rows > open_rows:
            window = _read_closed(lines[at : at + closed_rows], at, kinds)
            if window is None:
                closed_rows = min(closed_rows, CLOSED_WINDOWS * open_rows)
                open_until = at + closed_rows
        if window is None:
            open_rows = _fitting_rows(lines[at : at + open_rows], len(kinds.of))
            window = _Window(lines[at : at + open_rows], at)
            window.read(kinds)
            closed_rows = closed_rows or CLOSED_WINDOWS * open_rows
        windows.append(window)
        at += len(window)
        if len(kinds.of) > MAX_PATHS or len(lines) * len(kinds.of) > MAX_CELLS:
            raise TooManyColumns
    odd = [row for window in windows for row in window.odd]
    if len(odd) > MAX_ODD_LINES:
        raise Unreadable
    return Columns(_join_dense(windows), _join_sparse(windows), odd)


def _read_closed(lines: Sequence[bytes], start: int, kinds: Kinds) -> "_Window | None":
    """Lines that have no new keys, read at once; None if they have some, or too many cells."""
    if len(lines) * (len(kinds.of) + len(kinds.empty)) > MAX_CELLS:
        return None
    window = _Window(lines, start, closed=True)
    try:
        window.read(kinds)
    except _NewKey:
        return None
    return window


def _fitting_rows(lines: Sequence[bytes], known: int) -> int:
    """How many of the lines cannot make too many cells, even if each key in them is new."""
    if len(lines) * (known + sum(map(len, lines)) // KEY_BYTES) <= OPEN_CELLS:
        return len(lines)
    while len(lines) > 1:
        # There is a colon for each key, and some in strings.
        colons = np.count_nonzero(np.frombuffer(b"".join(lines), np.uint8) == ord(":"))
        cells = len(lines) * (known + int(colons))
        if cells <= OPEN_CELLS:
            break
        # The cells grow with the square of the rows.
        lines = lines[: int(len(lines) * min(0.99, (OPEN_CELLS / cells) ** 0.5)) or 1]
    return len(lines)


class _Window:
    """Lines that are read at once, and what came of it."""

    def __init__(self, lines: Sequence[bytes], start: int, closed: bool = False) -> None:
        self.lines, self.closed = list(lines), closed
        self.rows = list(range(start, start + len(lines)))
        """Where each line is among all."""
        self.odd: list[int] = []
        """The rows of lines that had to be left out."""
        self.dense: Dense = {}
        self.sparse: Sparse = defaultdict(list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.odd)

    def read(self, kinds: Kinds) -> None:
        """Read the lines, and again as long as that teaches something: kinds only widen."""
        for turn in range(MAX_READS):
            # To read keys that are data takes seconds: look for them before it is done again.
            if not self.closed and (kinds.crowded if turn == 0 else turn == 1):
                self._count_paths(kinds)
            try:
                whole, self.sparse = cut(self.lines, kinds.awkward)
                leaves = _read_leaves(whole, kinds, self.closed)
            except _Relearnt:
                continue
            except OddLine as odd:
                del self.lines[odd.row]
                self.odd.append(self.rows.pop(odd.row))
                if len(self.odd) > MAX_ODD_LINES:
                    break
            else:
                self.dense = {path: (kinds.of[path], array) for path, array in leaves.items()}
                return
        raise Unreadable

    def _count_paths(self, kinds: Kinds) -> None:
        paths = set(kinds.of)
        for line in self.lines:
            paths.update(path for path, _ in flatten(skim(line)))
            if len(paths) > MAX_PATHS:
                raise TooManyColumns


def _join_dense(windows: list[_Window]) -> Dense:
    """The columns of all windows; where a later one learnt a path to be awkward, it is sparse."""
    columns: defaultdict[Path, list[tuple[int, Kind, pa.Array]]] = defaultdict(list)
    rows = 0
    for window in windows:
        for path, (kind, array) in window.dense.items():
            columns[path].append((rows, kind, array))
        rows += len(window.rows)
    return {path: _join_column(parts, rows) for path, parts in columns.items()}


def _join_column(parts: list[tuple[int, Kind, pa.Array]], rows: int) -> tuple[Kind, pa.Array]:
    kind = parts[-1][1]
    if kind is Kind.JSON:
        raise Unreadable  # its key is spelt with escapes, so that it was not cut out
    arrays = [
        (start, array.cast(EXACT) if before is Kind.INT and kind is Kind.NUMBER else array)
        for start, before, array in parts
    ]
    return _travelling(kind, _join_arrays(arrays, rows))


def _travelling(kind: Kind, array: pa.Array) -> tuple[Kind, pa.Array]:
    """A path's values as they leave the parser."""
    if kind is Kind.NUMBER:
        array = _narrowed(array)
    return (Kind.JSON, array_texts(array)) if kind is Kind.STRINGS else (kind, array)


def _join_arrays(parts: list[tuple[int, pa.Array]], rows: int) -> pa.Array:
    """One array of arrays that begin at these rows; null where there is none."""
    if len(parts[0][1]) == rows:
        return parts[0][1]
    kind, arrays, at = parts[0][1].type, [], 0
    for start, array in parts:
        if start > at:
            arrays.append(pa.nulls(start - at, kind))
        arrays.append(array)
        at = start + len(array)
    if at < rows:
        arrays.append(pa.nulls(rows - at, kind))
    return pa.concat_arrays(arrays)


def _join_sparse(windows: list[_Window]) -> Sparse:
    if len(windows) == 1:
        return windows[0].sparse
    sparse: Sparse = defaultdict(list)
    rows = 0
    for window in windows:
        for path, values in window.sparse.items():
            sparse[path] += [(rows + row, text) for row, text in values]
        rows += len(window.rows)
    return sparse


def _read_leaves(lines: Sequence[bytes], kinds: Kinds, closed: bool) -> dict[Path, pa.Array]:
    if not lines:
        return {}
    block = pa.py_buffer(b"\n".join(lines))
    try:
        if closed:
            table = _read_json(block, kinds.closed_schema(), "error")
        else:
            table = _read_json(block, kinds.schema(*ARROW_TYPES))
    except pa.ArrowInvalid as problem:
        if closed and _NEW_KEY.search(str(problem)):
            raise _NewKey from problem
        _learn_from_error(str(problem), lines, block, kinds)
        raise _Relearnt from problem
    leaves = dict(_leaves(table))
    _learn_from_types(leaves, kinds)
    if not closed:
        _learn_empty(table.schema, (), kinds)
    _learn_large_numbers(leaves, kinds)
    return leaves | _read_numbers(block, kinds)


def _read_json(block: pa.Buffer, schema: pa.Schema, others: str = "infer") -> pa.Table:
    # `read_json` starts a thread for each block, and waits for it; small blocks are many.
    with pj.open_json(
        pa.BufferReader(block),
        pj.ReadOptions(use_threads=False, block_size=max(block.size + 1, 1024)),
        pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    ) as reader:
        return reader.read_all()


def _leaves(table: pa.Table) -> Iterator[tuple[Path, pa.Array]]:
    """Every column that is no object and not all null."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield from _below(
            (name,), column.chunk(0) if column.num_chunks else column.combine_chunks()
        )


def _below(path: Path, array: pa.Array) -> Iterator[tuple[Path, pa.Array]]:
    if len(path) >= MAX_LEVELS and pa.types.is_nested(array.type):
        raise TooDeep(f"over {MAX_LEVELS} levels")
    if isinstance(array, pa.StructArray):
        for child, below in zip(array.type, array.flatten(), strict=True):
            yield from _below((*path, child.name), below)
    elif array.null_count < len(array):
        yield path, array


def _learn_from_types(leaves: dict[Path, pa.Array], kinds: Kinds) -> None:
    """Take note of what Arrow inferred; raises `_Relearnt` where that was not faithful."""
    again = False
    for path, array in leaves.items():
        if path not in kinds.of:
            kinds.learn(path, _inferred_kind(array.type))
            again |= kinds.of[path] is Kind.JSON or pa.types.is_timestamp(array.type)
    if again:
        raise _Relearnt


def _learn_empty(fields: Iterable[pa.Field], above: Path, kinds: Kinds) -> None:
    """Take note of paths without a value, so that they are not taken for new keys."""
    for one in fields:
        path = (*above, one.name)
        if pa.types.is_struct(one.type) and one.type.num_fields:
            _learn_empty(one.type, path, kinds)
        elif path not in kinds.of and len(kinds.empty) < MAX_PATHS:
            kinds.empty[path] = one.type if pa.types.is_struct(one.type) else pa.null()


def _inferred_kind(inferred: pa.DataType) -> Kind:
    if pa.types.is_floating(inferred):
        return Kind.NUMBER  # read exactly afterwards
    if pa.types.is_timestamp(inferred):
        return Kind.STRING
    return FAITHFUL.get(inferred, Kind.JSON)


def _learn_large_numbers(leaves: dict[Path, pa.Array], kinds: Kinds) -> None:
    """Numbers that the exact decimal cannot hold travel as text; Arrow would let them overflow."""
    large = [
        path
        for path, array in leaves.items()
        if kinds.of[path] is Kind.NUMBER and pc.max(pc.abs(array)).as_py() >= EXACT_BOUND
    ]
    kinds.of.update(dict.fromkeys(large, Kind.JSON))
    if large:
        raise _Relearnt


def _read_numbers(block: pa.Buffer, kinds: Kinds) -> dict[Path, pa.Array]:
    schema = kinds.schema(Kind.NUMBER, number=EXACT)
    if not len(schema):
        return {}
    try:
        exact = _read_json(block, schema, "ignore")
    except pa.ArrowInvalid as problem:
        _learn_fine_numbers(block, kinds)
        raise _Relearnt from problem
    return dict(_leaves(exact))


def _narrowed(numbers: pa.Array) -> pa.Array:
    """Numbers as decimal(38,6) where that loses nothing."""
    try:
        return numbers.cast(MONEY)
    except pa.ArrowInvalid:
        return numbers


def _learn_fine_numbers(block: pa.Buffer, kinds: Kinds) -> None:
    """So do those with more digits after the point than it has."""
    for path in [path for path, kind in kinds.of.items() if kind is Kind.NUMBER]:
        try:
            _read_json(block, nested_schema({path: EXACT}), "ignore")
        except pa.ArrowInvalid:
            kinds.of[path] = Kind.JSON


_ROW = re.compile(r" in row (\d+)$")
_CHANGED = re.compile(r"Column\((.*)\) changed from (\w+) to (\w+) in row (\d+)$", re.DOTALL)


def _learn_from_error(message: str, lines: Sequence[bytes], block: pa.Buffer, kinds: Kinds) -> None:
    """Widen the kind that Arrow stumbled over, or name the line that only Python can read."""
    changed, row = _CHANGED.search(message), _ROW.search(message)
    if changed and "object" not in changed.group(2, 3):
        paths = _paths_named(changed[1], lines[int(changed[4])])
        if not paths or all(kinds.of.get(path) is Kind.JSON for path in paths):
            raise OddLine(int(changed[4]))
        kinds.of.update(dict.fromkeys(paths, Kind.JSON))
    elif row:
        raise OddLine(int(row[1]))
    elif "to int64" in message:
        _learn_fractions(lines, block, kinds)
    else:
        raise Unreadable


def _learn_fractions(lines: Sequence[bytes], block: pa.Buffer, kinds: Kinds) -> None:
    """Find the integers that are none here: Arrow does not say which, but can infer them afresh."""
    known = [kind for kind in ARROW_TYPES if kind is not Kind.INT]
    try:
        leaves = dict(_leaves(_read_json(block, kinds.schema(*known))))
    except pa.ArrowInvalid as problem:
        if "to int64" in str(problem):
            raise Unreadable from problem
        _learn_from_error(str(problem), lines, block, kinds)
        return
    for path, array in leaves.items():
        if kinds.of.get(path) is Kind.INT and array.type != pa.int64():
            kinds.learn(path, _inferred_kind(array.type))


def _paths_named(name: str, line: bytes) -> list[Path]:
    """The paths of a line that Arrow's message can mean: it joins keys, and array marks, by `/`."""
    return [
        path
        for path, value in flatten(decode(line.decode()))
        if (joined := "/" + "/".join(path)) == name
        or (isinstance(value, list) and name.startswith(joined + "/"))
    ]
