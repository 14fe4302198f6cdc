"""Read a block of lines into columns, in windows that fit in memory.

Arrow allocates a cell for every row and key of one read, so lines whose keys are data (ids used as
keys) could fill the memory. Lines are therefore read in windows:

- an inferring window may contain new keys; it has so few rows that even if every key in it were
  new, the cells would stay below `MAX_INFER_CELLS`;
- a strict window is large; its schema lists all keys so far and Arrow fails at any other, in which
  case inferring windows read these lines.

All windows together are bounded by `max_cells` and `MAX_PATHS`; beyond, `TooManyColumns`. A window
is read again as long as that changes the kind of a path; a line that Arrow cannot read with any
schema is removed and returned as a slow row. At the end the windows' columns are concatenated.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eventlake.kernels.arrow_reader import (
    EXACT_DECIMAL,
    MAX_PATHS,
    KindsChanged,
    NewKey,
    narrow_decimals,
    read_leaves,
)
from eventlake.kernels.jsontext import KeyTree, decode_fast, flatten
from eventlake.kernels.kinds import PathKinds, ValueKind
from eventlake.kernels.raw_values import (
    SparseValues,
    UnsupportedBlock,
    UnsupportedLine,
    extract_raw_values,
    string_lists_to_json,
)
from eventlake.model.naming import Path

INFER_ROWS = 1000
"""Most rows of an inferring window."""
STRICT_FACTOR = 4
"""Rows of a strict window after an inferring one, as a multiple of that one's rows."""
MIN_KEY_BYTES = 5
"""Fewest bytes of a key and its value in a line: `"":0,`."""
MAX_INFER_CELLS = 30_000_000
"""Most rows times keys of an inferring window; inferring takes more memory per cell."""
MAX_SLOW_LINES = 20
"""Most lines that are left to Python one by one; with more, it reads the whole block."""
MAX_READS = 100
"""Most attempts to read a window before Python reads the block."""

DenseColumns = dict[Path, tuple[ValueKind, pa.Array]]


class TooManyColumns(Exception):
    """The lines have too many keys to make a column of each."""


class Columns(NamedTuple):
    """The columns of all lines but the slow ones."""

    dense: DenseColumns
    sparse: SparseValues
    """The values of JSON paths."""
    slow_rows: list[int]
    """The lines that Arrow cannot read."""


def read_columns(lines: Sequence[bytes], kinds: PathKinds, first: bool) -> Columns:
    """Read lines into columns; adds the kinds of new paths to `kinds`.

    `first` says that the table has no earlier block, so that a strict read would fail. Raises
    `TooManyColumns`, `TooDeep`, and `UnsupportedBlock` when Python has to read all the lines.
    """
    windows: list[_Window] = []
    at = infer_until = 0
    strict_rows, infer_rows = 0 if first else len(lines), INFER_ROWS
    while at < len(lines):
        window = None
        if at >= infer_until and strict_rows > infer_rows:
            window = _read_strict(lines[at : at + strict_rows], at, kinds)
            if window is None:
                strict_rows = min(strict_rows, STRICT_FACTOR * infer_rows)
                infer_until = at + strict_rows
        if window is None:
            infer_rows = _count_fitting_rows(lines[at : at + infer_rows], len(kinds.by_path))
            window = _Window(lines[at : at + infer_rows], at)
            window.read(kinds)
            strict_rows = strict_rows or STRICT_FACTOR * infer_rows
        windows.append(window)
        at += len(window)
        if len(kinds.by_path) > MAX_PATHS or len(lines) * len(kinds.by_path) > kinds.max_cells:
            raise TooManyColumns
    slow_rows = [row for window in windows for row in window.slow_rows]
    if len(slow_rows) > MAX_SLOW_LINES:
        raise UnsupportedBlock
    return Columns(_concat_dense(windows), _concat_sparse(windows), slow_rows)


def _read_strict(lines: Sequence[bytes], start: int, kinds: PathKinds) -> "_Window | None":
    """Read lines as one strict window; None if they have new keys or too many cells.

    `start` is the first line's position in the block. Raises `UnsupportedBlock` and `TooDeep`.
    """
    if len(lines) * (len(kinds.by_path) + len(kinds.empty_paths)) > kinds.max_cells:
        return None
    window = _Window(lines, start, strict=True)
    try:
        window.read(kinds)
    except NewKey:
        return None
    return window


def _count_fitting_rows(lines: Sequence[bytes], path_count: int) -> int:
    """Count the first lines that fit in `MAX_INFER_CELLS` even if every key in them is new.

    At least 1, if there are lines. `path_count` is the number of paths known before.
    """
    if len(lines) * (path_count + sum(map(len, lines)) // MIN_KEY_BYTES) <= MAX_INFER_CELLS:
        return len(lines)
    while len(lines) > 1:
        # There is one colon for each key, and some more in strings.
        colons = np.count_nonzero(np.frombuffer(b"".join(lines), np.uint8) == ord(":"))
        cells = len(lines) * (path_count + int(colons))
        if cells <= MAX_INFER_CELLS:
            break
        # The cells grow with the square of the rows.
        lines = lines[: int(len(lines) * min(0.99, (MAX_INFER_CELLS / cells) ** 0.5)) or 1]
    return len(lines)


class _Window:
    """Lines that Arrow reads in one call, and their columns once they are read."""

    def __init__(self, lines: Sequence[bytes], start: int, strict: bool = False) -> None:
        self.lines, self.strict = list(lines), strict
        self.rows = list(range(start, start + len(lines)))
        """The position of each line in the block."""
        self.slow_rows: list[int] = []
        """The positions of lines that were removed because Arrow cannot read them."""
        self.dense: DenseColumns = {}
        self.sparse: SparseValues = defaultdict(list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.slow_rows)

    def read(self, kinds: PathKinds) -> None:
        """Fill `dense` and `sparse`, reading again as long as kinds change or a line is removed.

        Changes `kinds`, and moves lines that Arrow cannot read to `slow_rows`. Raises
        `UnsupportedBlock` if they are too many or the kinds do not settle, `TooDeep`, `NewKey` if
        strict, and `TooManyColumns` if not.
        """
        for attempt in range(MAX_READS):
            # Arrow takes seconds for thousands of keys: count them before it reads them again.
            if not self.strict and (kinds.too_many_paths if attempt == 0 else attempt == 1):
                self._check_path_count(kinds)
            try:
                stripped, self.sparse = extract_raw_values(
                    self.lines, kinds.raw_paths, frozenset(kinds.exceptions)
                )
                leaves = read_leaves(stripped, kinds, self.strict)
            except KindsChanged:
                continue
            except UnsupportedLine as unsupported:
                del self.lines[unsupported.row]
                self.slow_rows.append(self.rows.pop(unsupported.row))
                if len(self.slow_rows) > MAX_SLOW_LINES:
                    break
            else:
                self.dense = {path: (kinds.by_path[path], leaves[path]) for path in leaves}
                return
        raise UnsupportedBlock

    def _check_path_count(self, kinds: PathKinds) -> None:
        """Raise `TooManyColumns` if `kinds` and the lines have over `MAX_PATHS` paths together.

        Changes nothing. Raises `TooDeep` for a line that nests too deep.
        """
        keys = KeyTree()
        for line in self.lines:
            keys.add(decode_fast(line))
            if keys.count + len(kinds.by_path) > MAX_PATHS:
                break
        else:
            return
        paths = set(kinds.by_path)
        for line in self.lines:
            paths.update(path for path, _ in flatten(decode_fast(line)))
            if len(paths) > MAX_PATHS:
                raise TooManyColumns


def _concat_dense(windows: list[_Window]) -> DenseColumns:
    """Concatenate the dense columns of each path, null for the windows that do not have it.

    A path that became JSON has its values before that here, and the later ones in `sparse`. Slow
    lines have no row.
    """
    columns: defaultdict[Path, list[tuple[int, ValueKind, pa.Array]]] = defaultdict(list)
    rows = 0
    for window in windows:
        for path, (kind, array) in window.dense.items():
            columns[path].append((rows, kind, array))
        rows += len(window.rows)
    return {path: _concat_column(parts, rows) for path, parts in columns.items()}


def _concat_column(
    parts: list[tuple[int, ValueKind, pa.Array]], rows: int
) -> tuple[ValueKind, pa.Array]:
    """Concatenate a path's arrays, each with its first row, widened to the last one's kind.

    Returns lists of strings as JSON text of kind JSON, and decimals as decimal(38,6) if that is
    exact. Raises `UnsupportedBlock` if the last kind is JSON.
    """
    kind = parts[-1][1]
    if kind is ValueKind.JSON:
        raise UnsupportedBlock  # a key written with escapes, which `extract_raw_values` misses
    widened = [
        (start, array.cast(EXACT_DECIMAL) if (before, kind) == _INT_TO_NUMBER else array)
        for start, before, array in parts
    ]
    array = _concat_arrays(widened, rows)
    if kind is ValueKind.STRINGS:
        return ValueKind.JSON, string_lists_to_json(array)
    return kind, narrow_decimals(array) if kind is ValueKind.NUMBER else array


_INT_TO_NUMBER = (ValueKind.INT, ValueKind.NUMBER)


def _concat_arrays(parts: list[tuple[int, pa.Array]], rows: int) -> pa.Array:
    """Concatenate arrays that start at the given rows, with nulls in the gaps, to `rows` rows."""
    if len(parts[0][1]) == rows:
        return parts[0][1]
    arrow_type, arrays, at = parts[0][1].type, [], 0
    for start, array in parts:
        if start > at:
            arrays.append(pa.nulls(start - at, arrow_type))
        arrays.append(array)
        at = start + len(array)
    if at < rows:
        arrays.append(pa.nulls(rows - at, arrow_type))
    return pa.concat_arrays(arrays)


def _concat_sparse(windows: list[_Window]) -> SparseValues:
    """Concatenate the windows' sparse values, with rows that count from the first window on."""
    if len(windows) == 1:
        return windows[0].sparse
    sparse: SparseValues = defaultdict(list)
    rows = 0
    for window in windows:
        for path, values in window.sparse.items():
            sparse[path] += [(rows + row, text) for row, text in values]
        rows += len(window.rows)
    return sparse
