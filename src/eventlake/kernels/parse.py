"""Lines of one table to columns of JSON kinds, with Arrow's reader, exactly.

Arrow reads a block fast, and faithfully when it is told each path's kind. What it is not told it
infers; inferred strings, integers and booleans are faithful, the rest is learnt and read again:

- a number with a fraction or exponent comes twice: as a double, which makes sure that every value
  is a JSON number (Arrow's decimals would take strings too), and then exactly, as a decimal;
- arrays, and paths of several kinds, are *awkward*: their raw text is cut out beforehand;
- a line that Arrow cannot read at all (a key given twice, a number beyond doubles, an object where
  the others have a value) is read on its own in Python. Few lines are like that.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from eventlake.kernels.awkward import OddLine, Sparse, Unreadable, cut, tree
from eventlake.kernels.jsontext import (
    MAX_LEVELS,
    TooDeep,
    decode,
    decode_line,
    encode,
    flatten,
    skim,
)
from eventlake.model.naming import Path
from eventlake.model.types import NumberText, Type, fits_bigint, observe

# Not decimal256, which would hold more: Arrow's division of those is wrong for some values
# (9223372036854775807 comes back as another number). What does not fit travels as text.
EXACT = pa.decimal128(38, 18)
EXACT_BOUND = 1e19
MONEY = pa.decimal128(38, 6)

SAMPLES = 32, 512
LEARN = 12
MAX_ODD_LINES = 20
"""Past so many lines that only Python can read, it reads all of the block."""
MAX_CELLS = 50_000_000
"""Rows times columns of one block: keys that are data would make a column of each."""
WIDE_LINE = 16 << 10
MANY_KEYS = 1000


class Kind(StrEnum):
    """What the values of a path are, and so how they travel."""

    INT = "int"
    NUMBER = "number"
    BOOL = "bool"
    STRING = "string"
    STRINGS = "strings"
    """Arrays of strings; they leave the parser as their JSON text."""
    TIME = "time"
    """Moments; only `receivedAt` travels so, as every event has been checked for it."""
    JSON = "json"
    """Text of any kind of value: compact JSON."""


_DOUBLE = pa.float64()
_ARROW = {
    Kind.INT: pa.int64(),
    Kind.NUMBER: _DOUBLE,
    Kind.BOOL: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.STRINGS: pa.list_(pa.string()),
}
_FAITHFUL = {pa.int64(): Kind.INT, pa.bool_(): Kind.BOOL, pa.string(): Kind.STRING}


@dataclass
class Kinds:
    """What is known of a table's paths; grows while its events are read."""

    of: dict[Path, Kind] = field(default_factory=dict)
    spelled: Callable[[Path], bool] = lambda _: False
    """Whether a number at this path must keep its spelling, since it may have to be rescued."""

    def learn(self, path: Path, kind: Kind) -> None:
        spelled = kind is Kind.NUMBER and self.spelled(path)
        self.of[path] = Kind.JSON if spelled else kind

    @property
    def awkward(self) -> list[Path]:
        return [path for path, kind in self.of.items() if kind is Kind.JSON]

    def schema(self, *kinds: Kind, number: pa.DataType = _DOUBLE) -> pa.Schema:
        """The explicit schema for the paths of these kinds."""
        types = {**_ARROW, Kind.NUMBER: number}
        return _nested({path: types[kind] for path, kind in self.of.items() if kind in kinds})


@dataclass(frozen=True)
class Parsed:
    """A block in columns: dense ones by path and kind, sparse ones as (row, JSON text)."""

    rows: int
    dense: dict[Path, tuple[Kind, pa.Array]]
    sparse: dict[Path, list[tuple[int, str]]]
    order: list[int]
    """For each row the line that it came from."""


def parse(lines: Sequence[bytes], kinds: Kinds) -> Parsed:
    """Columns of all lines; if one nests too deep, `TooDeep` is raised and nothing is learnt."""
    before = dict(kinds.of)
    try:
        return _parse(lines, kinds)
    except TooDeep:
        kinds.of = before
        raise


def _parse(lines: Sequence[bytes], kinds: Kinds) -> Parsed:
    odd = [at for at, line in enumerate(lines) if len(line) > WIDE_LINE and _many_keys(line)]
    fast = sorted(set(range(len(lines))).difference(odd)) if odd else list(range(len(lines)))
    if _too_wide(lines):
        fast, odd = [], fast + odd
    elif not kinds.of:
        _learn_sample(lines, kinds)
    while fast:
        try:
            block = lines if len(fast) == len(lines) else [lines[at] for at in fast]
            dense, sparse = _parse_block(block, kinds)
            break
        except OddLine as line:
            odd.append(fast.pop(line.row))
        except Unreadable:
            fast, odd = [], odd + fast
        if len(odd) > MAX_ODD_LINES:
            fast, odd = [], odd + fast
    if not fast:
        dense, sparse = {}, defaultdict(list)
    odd.sort()
    for row, at in enumerate(odd, len(fast)):
        for path, value in flatten(decode_line(lines[at])):
            sparse[path].append((row, encode(value)))
    return Parsed(len(lines), dense, sparse, fast + odd)


def _many_keys(line: bytes) -> bool:
    return line.count(b'":') > MANY_KEYS


def _too_wide(lines: Sequence[bytes]) -> bool:
    """Whether the lines bring so many new keys that their columns would not fit in memory."""
    if len(lines) < MAX_CELLS**0.5 / 8:
        return False
    # Optional keys turn up late in a short sample too: a longer one tells them from keys of data.
    return all(_grows_too_wide(lines, sample) for sample in SAMPLES)


def _grows_too_wide(lines: Sequence[bytes], sample: int) -> bool:
    seen, halfway = set[Path](), 0
    for number, line in enumerate(lines[:: max(1, len(lines) // sample)][:sample]):
        halfway = len(seen) if number == sample // 2 else halfway
        seen.update(path for path, _ in flatten(decode_line(line)))
    growth = (len(seen) - halfway) / (sample // 2)
    return len(lines) * (len(seen) + growth * len(lines)) > MAX_CELLS


def _learn_sample(lines: Sequence[bytes], kinds: Kinds) -> None:
    """Most of what there is to learn, from few lines, before Arrow reads the many."""
    seen: defaultdict[Path, set[Kind]] = defaultdict(set)
    for line in lines[:: max(1, len(lines) // LEARN)][:LEARN]:
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
    fits = observe(value) is Type.BIGINT if isinstance(value, NumberText) else fits_bigint(value)
    return Kind.INT if fits else Kind.NUMBER


_SKIMMED = {str: Kind.STRING, bool: Kind.BOOL, msgspec.Raw: Kind.NUMBER}

_KIND_OF_SEVERAL = {
    **{frozenset({kind}): kind for kind in Kind},
    frozenset({Kind.INT, Kind.NUMBER}): Kind.NUMBER,
}


class _Relearnt(Exception):
    """The kinds have changed; read the block again."""


Dense = dict[Path, tuple[Kind, pa.Array]]


def _parse_block(lines: Sequence[bytes], kinds: Kinds) -> tuple[Dense, Sparse]:
    # Each turn learns a path's kind for good, and kinds only widen: it ends.
    for _ in range(1000):
        whole, sparse = cut(lines, kinds.awkward)
        try:
            return _read_dense(whole, kinds), sparse
        except _Relearnt:
            continue
    raise Unreadable


def _read_dense(lines: Sequence[bytes], kinds: Kinds) -> Dense:
    block = pa.py_buffer(b"\n".join(lines))
    try:
        table = _read_json(block, kinds.schema(*_ARROW))
    except pa.ArrowInvalid as problem:
        _learn_from_error(str(problem), lines, kinds)
        raise _Relearnt from problem
    leaves = dict(_leaves(table))
    _learn_from_types(leaves, kinds)
    _learn_large_numbers(leaves, kinds)
    leaves |= _read_numbers(block, kinds)
    return {path: _travelling(kinds.of[path], array) for path, array in leaves.items()}


def _travelling(kind: Kind, array: pa.Array) -> tuple[Kind, pa.Array]:
    """A path's values as they leave the parser."""
    if kind is Kind.JSON:
        raise Unreadable  # its key is spelt with escapes, so that it was not cut out
    return (Kind.JSON, _array_texts(array)) if kind is Kind.STRINGS else (kind, array)


def _array_texts(arrays: pa.ListArray) -> pa.StringArray:
    """Arrays of strings as compact JSON."""
    distinct = arrays.flatten().dictionary_encode()
    quoted = pa.array([encode(text) for text in distinct.dictionary.to_pylist()], pa.string())
    if distinct.null_count:
        quoted = pa.concat_arrays([quoted, pa.array(["null"])])
    items = quoted.take(distinct.indices.fill_null(len(distinct.dictionary)))
    # Arrow leaves the items of absent arrays out of `flatten`, and so do these offsets.
    sizes = pc.list_value_length(arrays).fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(sizes.to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    texts = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return pc.if_else(arrays.is_valid(), texts, pa.scalar(None, pa.string()))


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


def _inferred_kind(inferred: pa.DataType) -> Kind:
    if pa.types.is_floating(inferred):
        return Kind.NUMBER  # read exactly afterwards
    if pa.types.is_timestamp(inferred):
        return Kind.STRING
    return _FAITHFUL.get(inferred, Kind.JSON)


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
    return {path: _narrowed(array) for path, array in _leaves(exact)}


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
            _read_json(block, _nested({path: EXACT}), "ignore")
        except pa.ArrowInvalid:
            kinds.of[path] = Kind.JSON


_ROW = re.compile(r" in row (\d+)$")
_CHANGED = re.compile(r"Column\((.*)\) changed from (\w+) to (\w+) in row (\d+)$", re.DOTALL)


def _learn_from_error(message: str, lines: Sequence[bytes], kinds: Kinds) -> None:
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
        # Arrow does not say which column: let it infer the integers afresh.
        kinds.of = {path: kind for path, kind in kinds.of.items() if kind is not Kind.INT}
    else:
        raise Unreadable


def _paths_named(name: str, line: bytes) -> list[Path]:
    """The paths of a line that Arrow's message can mean: it joins keys, and array marks, by `/`."""
    return [
        path
        for path, value in flatten(decode(line.decode()))
        if (joined := "/" + "/".join(path)) == name
        or (isinstance(value, list) and name.startswith(joined + "/"))
    ]


def _nested(types: dict[Path, pa.DataType]) -> pa.Schema:
    return pa.schema(_fields(tree(types)))


def _fields(nested: dict[str, Any]) -> list[pa.Field]:
    return [
        pa.field(key, pa.struct(_fields(below)) if isinstance(below, dict) else below)
        for key, below in nested.items()
    ]
