"""Parse a block of one table's lines into columns by path, with every value exact.

1. `PathKinds` holds the JSON kind of each path of the table. If it is empty, a sample of the block
   is decoded in Python first, so that Arrow need not read the block once per kind to be learned.
2. `windows` reads the block with these kinds, learns new ones and reads again where needed.
   The result is a *dense* column, an Arrow array, for each path of one kind, and *sparse* values,
   (row, JSON text) pairs, for arrays and for paths of several kinds. A path of strings with a few
   other values has both.
3. Lines that Arrow cannot read take the slow path: Python decodes each of them and adds its values
   to the sparse ones. These are lines with a duplicate key, a number beyond doubles, an object
   where other lines have a scalar, or very many keys; and all lines of a block whose keys are
   data, as a column for each key would fill the memory.

The slow path takes some hundred bytes of memory per value, so it accepts `MAX_SLOW_BYTES` of lines;
with more, `BlockTooLarge` makes the caller split the block. Rows come in the order "fast lines,
then slow lines"; `ParsedBlock.order` maps them back to lines.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from eventlake.kernels.jsontext import TooDeep, decode_fast, decode_line, encode, flatten
from eventlake.kernels.kinds import PathKinds, ValueKind
from eventlake.kernels.raw_values import SparseValues, UnsupportedBlock
from eventlake.kernels.windows import TooManyColumns, read_columns
from eventlake.model.naming import Path
from eventlake.model.types import NumberText, Type, fits_bigint, observe

SAMPLE_LINES, SAMPLE_EVERY = 12, 100
"""Lines to sample from a first block: one in `SAMPLE_EVERY`, at least `SAMPLE_LINES`."""
MAX_SLOW_BYTES = 2 << 20
"""Most bytes of lines that one block may send to the slow path."""
WIDE_LINE_BYTES = 16 << 10
WIDE_LINE_KEYS = 1000
"""A line with more bytes and more keys than this takes the slow path."""


class BlockTooLarge(ValueError):
    """The values of these lines do not fit in memory together; parse fewer lines at once."""


@dataclass(frozen=True)
class ParsedBlock:
    """The values of a block: dense columns by path and kind, sparse values as (row, JSON text)."""

    rows: int
    dense: dict[Path, tuple[ValueKind, pa.Array]]
    sparse: dict[Path, list[tuple[int, str]]]
    order: list[int]
    """For each row, the index of its line in the block."""


def parse_lines(lines: Sequence[bytes], kinds: PathKinds) -> ParsedBlock:
    """Parse lines into columns; adds what it learns to `kinds`.

    Raises `TooDeep` if a line nests too deep, and `BlockTooLarge` if there are too many lines;
    `kinds.by_path` is then as before.
    """
    before = dict(kinds.by_path), set(kinds.exceptions)
    try:
        return _parse(lines, kinds)
    except (TooDeep, BlockTooLarge):
        kinds.by_path, kinds.exceptions = before
        raise


def _parse(lines: Sequence[bytes], kinds: PathKinds) -> ParsedBlock:
    """Do what `parse_lines` does, but leave `kinds` half changed if it raises.

    If Arrow cannot read the block, or it has too many columns, all lines take the slow path.
    """
    slow = [at for at, line in enumerate(lines) if len(line) > WIDE_LINE_BYTES and _is_wide(line)]
    fast = sorted(set(range(len(lines))).difference(slow)) if slow else list(range(len(lines)))
    before = dict(kinds.by_path), set(kinds.exceptions)
    if not kinds.by_path:
        count = max(SAMPLE_LINES, len(fast) // SAMPLE_EVERY)
        _learn_sample([lines[at] for at in fast[:: max(1, len(fast) // count)][:count]], kinds)
    try:
        block = lines if not slow else [lines[at] for at in fast]
        dense, sparse, slow_rows = read_columns(block, kinds, not before[0])
        slow += [fast[row] for row in slow_rows]
        kinds.too_many_paths = False
    except UnsupportedBlock:
        dense, sparse, slow = {}, defaultdict(list), list(range(len(lines)))
    except TooManyColumns:
        dense, sparse, slow = {}, defaultdict(list), list(range(len(lines)))
        kinds.too_many_paths = True
        kinds.by_path, kinds.exceptions = before
    slow.sort()
    fast = sorted(set(range(len(lines))).difference(slow)) if slow else fast
    _read_slow_lines([lines[at] for at in slow], len(fast), sparse)
    return ParsedBlock(len(lines), dense, sparse, fast + slow)


def _read_slow_lines(lines: list[bytes], first_row: int, sparse: SparseValues) -> None:
    """Decode lines in Python and add their values to `sparse`, as rows from `first_row` on.

    Raises `BlockTooLarge` for two or more lines of over `MAX_SLOW_BYTES` in all, and `TooDeep`.
    """
    if len(lines) > 1 and sum(map(len, lines)) > MAX_SLOW_BYTES:
        raise BlockTooLarge
    for row, line in enumerate(lines, first_row):
        for path, value in flatten(decode_line(line)):
            sparse[path].append((row, encode(value)))


def _is_wide(line: bytes) -> bool:
    """Whether a line has over `WIDE_LINE_KEYS` keys; counts `":`, which strings may have too."""
    return line.count(b'":') > WIDE_LINE_KEYS


def _learn_sample(sample: Sequence[bytes], kinds: PathKinds) -> None:
    """Learn the kinds of the paths in some lines; each kind spares a read of the whole block.

    A path of several kinds is NUMBER for integers and others, STRING with exceptions if most are
    strings, and else JSON; one that is an object in some lines is not learned. Raises `TooDeep`.
    """
    kinds_by_path: defaultdict[Path, _KindCounts] = defaultdict(_KindCounts)
    for line in sample:
        _collect_kinds(decode_fast(line), (), kinds_by_path)
    objects = {path[:n] for path in kinds_by_path for n in range(1, len(path))}
    mostly_strings = []
    for path, counts in kinds_by_path.items():
        if path in objects:
            continue
        if len(counts) > 1 and 2 * counts[ValueKind.STRING] > counts.total():
            mostly_strings.append(path)
        else:
            kinds.learn(path, _COMMON_KIND.get(frozenset(counts), ValueKind.JSON))
    for path in mostly_strings:
        if path not in kinds.exceptions:
            kinds.learn_exception(path)


class _KindSet(Protocol):
    """Collects the kinds of a path's values."""

    def add(self, kind: ValueKind, /) -> None: ...


class _KindCounts(Counter[ValueKind]):
    """How many values of a path are of each kind."""

    def add(self, kind: ValueKind) -> None:
        self[kind] += 1


def _collect_kinds(
    event: dict[str, Any], parent: Path, kinds_by_path: Mapping[Path, _KindSet]
) -> None:
    """Add to each path's kinds those of its values in an object decoded by `decode_fast`.

    `parent` is the object's own path. Null has no kind.
    """
    for key, value in event.items():
        if isinstance(value, dict):
            _collect_kinds(value, (*parent, key), kinds_by_path)
        elif value is not None:
            kind = _KIND_BY_CLASS.get(type(value)) or _kind_of(value)
            kinds_by_path[(*parent, key)].add(kind)


def _kind_of(value: Any) -> ValueKind:
    """Return the kind of an array or integer from `decode_fast`.

    STRINGS if all items are strings, else JSON; INT if it fits in 64 bits, else NUMBER.
    """
    if isinstance(value, list):
        strings = all(type(item) is str for item in value)
        return ValueKind.STRINGS if strings else ValueKind.JSON
    fits = observe(value) is Type.BIGINT if isinstance(value, NumberText) else fits_bigint(value)
    return ValueKind.INT if fits else ValueKind.NUMBER


_KIND_BY_CLASS = {
    str: ValueKind.STRING,
    bool: ValueKind.BOOL,
    msgspec.Raw: ValueKind.NUMBER,
}

_COMMON_KIND = {
    **{frozenset({kind}): kind for kind in ValueKind},
    frozenset({ValueKind.INT, ValueKind.NUMBER}): ValueKind.NUMBER,
}
