"""Lines of one table to columns of JSON kinds, with Arrow's reader, exactly.

Arrow reads a block fast, and faithfully when it is told each path's kind. What it is not told it
infers; inferred strings, integers and booleans are faithful, the rest is learnt and read again:

- a number with a fraction or exponent comes twice: as a double, which makes sure that every value
  is a JSON number (Arrow's decimals would take strings too), and then exactly, as a decimal;
- arrays, and paths of several kinds, are *awkward*: their raw text is cut out beforehand;
- a line that Arrow cannot read at all (a key given twice, a number beyond doubles, an object where
  the others have a value) is read on its own in Python. Few lines are like that.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from eventlake.kernels.awkward import Sparse, Unreadable
from eventlake.kernels.dense import MAX_PATHS, TooManyColumns, read_columns
from eventlake.kernels.jsontext import TooDeep, decode_line, encode, flatten, skim
from eventlake.kernels.kinds import Kind, Kinds
from eventlake.model.naming import Path
from eventlake.model.types import Num, Type, fits_bigint, observe

LEARN, LEARN_EVERY = 12, 100
"""Lines, and one of so many lines, whose kinds are looked at before Arrow reads all."""
MAX_SLOW_BYTES = 2 << 20
"""Bytes of lines that Python reads at once: it takes some hundred bytes for each value."""
WIDE_LINE = 16 << 10
MANY_KEYS = 1000


class TooWide(ValueError):
    """Lines whose values do not fit in memory together: parse fewer at once."""


@dataclass(frozen=True)
class Parsed:
    """A block in columns: dense ones by path and kind, sparse ones as (row, JSON text)."""

    rows: int
    dense: dict[Path, tuple[Kind, pa.Array]]
    sparse: dict[Path, list[tuple[int, str]]]
    order: list[int]
    """For each row the line that it came from."""


def parse(lines: Sequence[bytes], kinds: Kinds) -> Parsed:
    """Columns of all lines.

    Raises `TooDeep` if one nests too deep, `TooWide` if they are too many to be parsed at once.
    """
    if len(kinds.of) > MAX_PATHS // 2:
        kinds.of, kinds.empty = {}, {}  # mostly keys of earlier lines that were data
    before = dict(kinds.of)
    try:
        return _parse(lines, kinds)
    except (TooDeep, TooWide):
        kinds.of = before
        raise


def _parse(lines: Sequence[bytes], kinds: Kinds) -> Parsed:
    odd = [at for at, line in enumerate(lines) if len(line) > WIDE_LINE and _many_keys(line)]
    fast = sorted(set(range(len(lines))).difference(odd)) if odd else list(range(len(lines)))
    before = dict(kinds.of)
    if not kinds.of:
        sample = max(LEARN, len(fast) // LEARN_EVERY)
        _learn_sample([lines[at] for at in fast[:: max(1, len(fast) // sample)][:sample]], kinds)
    try:
        block = lines if not odd else [lines[at] for at in fast]
        dense, sparse, left_out = read_columns(block, kinds, not before)
        odd += [fast[row] for row in left_out]
        kinds.crowded = False
    except Unreadable:
        dense, sparse, odd = {}, defaultdict(list), list(range(len(lines)))
    except TooManyColumns:
        dense, sparse, odd = {}, defaultdict(list), list(range(len(lines)))
        kinds.of, kinds.crowded = before, True
    odd.sort()
    fast = sorted(set(range(len(lines))).difference(odd)) if odd else fast
    _read_slowly([lines[at] for at in odd], len(fast), sparse)
    return Parsed(len(lines), dense, sparse, fast + odd)


def _read_slowly(lines: list[bytes], row: int, sparse: Sparse) -> None:
    """Add the values of lines that only Python can read, from a row on."""
    if len(lines) > 1 and sum(map(len, lines)) > MAX_SLOW_BYTES:
        raise TooWide
    for number, line in enumerate(lines, row):
        for path, value in flatten(decode_line(line)):
            sparse[path].append((number, encode(value)))


def _many_keys(line: bytes) -> bool:
    return line.count(b'":') > MANY_KEYS


def _learn_sample(sample: Sequence[bytes], kinds: Kinds) -> None:
    """Most of what there is to learn, from few lines, before Arrow reads the many."""
    seen: defaultdict[Path, set[Kind]] = defaultdict(set)
    for line in sample:
        _see_kinds(skim(line), (), seen)
    objects = {path[:n] for path in seen for n in range(1, len(path))}
    for path, found in seen.items():
        if path not in objects:
            kinds.learn(path, _KIND_OF_SEVERAL.get(frozenset(found), Kind.JSON))


def _see_kinds(event: dict[str, Any], path: Path, seen: defaultdict[Path, set[Kind]]) -> None:
    for key, value in event.items():
        if isinstance(value, dict):
            _see_kinds(value, (*path, key), seen)
        elif value is not None:
            seen[(*path, key)].add(_SKIMMED.get(type(value)) or _kind_of(value))


def _kind_of(value: Any) -> Kind:
    """The kind of an array or a number that was skimmed."""
    if isinstance(value, list):
        return Kind.STRINGS if all(type(item) is str for item in value) else Kind.JSON
    fits = observe(value) is Type.BIGINT if isinstance(value, Num) else fits_bigint(value)
    return Kind.INT if fits else Kind.NUMBER


_SKIMMED = {str: Kind.STRING, bool: Kind.BOOL, msgspec.Raw: Kind.NUMBER}

_KIND_OF_SEVERAL = {
    **{frozenset({kind}): kind for kind in Kind},
    frozenset({Kind.INT, Kind.NUMBER}): Kind.NUMBER,
}
