"""Read lines with Arrow's JSON reader so that no value changes.

Arrow reads a path exactly if the explicit schema gives its kind, or if it infers a string, integer
or boolean. Whatever else it infers, and every error it raises about a value, changes `PathKinds`;
the caller then reads the same lines again with the new schema (`KindsChanged`):

- numbers with a fraction or exponent are read as doubles first, which accepts JSON numbers only
  (Arrow's decimals accept strings too), then a second time as exact decimals;
- numbers that the exact decimal cannot hold, arrays other than of strings, and paths of several
  kinds become JSON: `raw_values` extracts their text before Arrow reads the lines;
- of strings with a few other values it only extracts those.

Arrow reports problems as text only, so its messages are matched by regular expressions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from eventlake.kernels.jsontext import MAX_LEVELS, TooDeep, decode, flatten
from eventlake.kernels.kinds import (
    ARROW_BY_KIND,
    KIND_BY_ARROW,
    PathKinds,
    ValueKind,
    nested_schema,
)
from eventlake.kernels.raw_values import UnsupportedBlock, UnsupportedLine
from eventlake.model.naming import Path

# Not decimal256, which would hold more: Arrow's division of those is wrong for some values
# (9223372036854775807 comes back as another number). Larger numbers stay JSON text.
EXACT_DECIMAL = pa.decimal128(38, 18)
MAX_EXACT_NUMBER = 1e19
COLUMN_DECIMAL = pa.decimal128(38, 6)

MAX_PATHS = 4000
"""Most columns; lines with more use data as keys."""


class NewKey(Exception):
    """The lines of a strict read contain a key that the schema does not have."""


class KindsChanged(Exception):
    """The kind of a path has changed; read the lines again."""


_NEW_KEY = re.compile("unexpected field|changed from null")


def read_leaves(lines: Sequence[bytes], kinds: PathKinds, strict: bool) -> dict[Path, pa.Array]:
    """Return the values of each path that has some, as an array with an element for each line.

    Adds the kinds of new paths to `kinds`. Raises `KindsChanged` if the lines must be read again
    with the changed `kinds`; `NewKey` if strict, for a key that `kinds` does not have; and
    `UnsupportedLine`, `UnsupportedBlock` or `TooDeep` for lines that Arrow cannot read with any
    kinds.
    """
    if not lines:
        return {}
    block = pa.py_buffer(b"\n".join(lines))
    try:
        if strict:
            table = _read_json(block, kinds.strict_schema(), "error")
        else:
            table = _read_json(block, kinds.schema(*ARROW_BY_KIND))
    except pa.ArrowInvalid as problem:
        if strict and _NEW_KEY.search(str(problem)):
            raise NewKey from problem
        _learn_from_error(str(problem), lines, block, kinds)
        raise KindsChanged from problem
    leaves = dict(_find_leaves(table))
    _learn_inferred(leaves, kinds)
    if not strict:
        _learn_empty(table.schema, (), kinds)
    _learn_large_numbers(leaves, kinds)
    return leaves | _read_decimals(block, kinds)


def _read_json(block: pa.Buffer, schema: pa.Schema, unexpected: str = "infer") -> pa.Table:
    """Read a block of lines; raises `ArrowInvalid` for a value that is not of the schema's type.

    `unexpected` is what to do with keys that the schema does not have: "infer", "ignore" or
    "error".
    """
    # `read_json` starts a thread for each block and waits for it, which is slow for small blocks.
    with pj.open_json(
        pa.BufferReader(block),
        pj.ReadOptions(use_threads=False, block_size=max(block.size + 1, 1024)),
        pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    ) as reader:
        return reader.read_all()


def _find_leaves(table: pa.Table) -> Iterator[tuple[Path, pa.Array]]:
    """Yield every array that is not a struct and not all null, with its path; raises `TooDeep`."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.chunk(0) if column.num_chunks else column.combine_chunks()
        yield from _find_leaves_below((name,), array)


def _find_leaves_below(path: Path, array: pa.Array) -> Iterator[tuple[Path, pa.Array]]:
    """Yield the array with its path, or the arrays in it if it is a struct; none that is all null.

    Raises `TooDeep` if there are more than `MAX_LEVELS` levels, those of arrays included.
    """
    if len(path) >= MAX_LEVELS and pa.types.is_nested(array.type):
        raise TooDeep(f"over {MAX_LEVELS} levels")
    if isinstance(array, pa.StructArray):
        for child, below in zip(array.type, array.flatten(), strict=True):
            yield from _find_leaves_below((*path, child.name), below)
    elif array.null_count < len(array):
        yield path, array


def _learn_inferred(leaves: dict[Path, pa.Array], kinds: PathKinds) -> None:
    """Add the kinds of new paths to `kinds`, from the types that Arrow inferred.

    Then raises `KindsChanged` if one of them is JSON or was inferred as a timestamp: those values
    are not exact and must be read again.
    """
    read_again = False
    for path, array in leaves.items():
        if path not in kinds.by_path:
            kinds.learn(path, _choose_kind(array.type))
            read_again |= kinds.by_path[path] is ValueKind.JSON
            read_again |= pa.types.is_timestamp(array.type)
    if read_again:
        raise KindsChanged


def _learn_empty(fields: Iterable[pa.Field], parent: Path, kinds: PathKinds) -> None:
    """Record paths that had only null or objects without keys, in `kinds.empty_paths`.

    A strict read then does not fail at them. Goes down from `fields`, whose path is `parent`; stops
    at `MAX_PATHS` paths.
    """
    for field in fields:
        path = (*parent, field.name)
        if pa.types.is_struct(field.type) and field.type.num_fields:
            _learn_empty(field.type, path, kinds)
        elif path not in kinds.by_path and len(kinds.empty_paths) < MAX_PATHS:
            kinds.empty_paths[path] = field.type if pa.types.is_struct(field.type) else pa.null()


def _choose_kind(inferred: pa.DataType) -> ValueKind:
    """Return the kind to read a path as: NUMBER for doubles, STRING for strings and timestamps.

    INT and BOOL for their types, and JSON for all others, which Arrow may not hold exactly.
    """
    if pa.types.is_floating(inferred):
        return ValueKind.NUMBER  # `_read_decimals` reads it exactly
    if pa.types.is_timestamp(inferred):
        return ValueKind.STRING
    return KIND_BY_ARROW.get(inferred, ValueKind.JSON)


def _learn_large_numbers(leaves: dict[Path, pa.Array], kinds: PathKinds) -> None:
    """Set NUMBER paths with a value of `MAX_EXACT_NUMBER` or more to JSON; raise `KindsChanged`.

    Does nothing if there are none. Reading such values as the exact decimal would overflow.
    """
    large = [
        path
        for path, array in leaves.items()
        if kinds.by_path[path] is ValueKind.NUMBER
        and pc.max(pc.abs(array)).as_py() >= MAX_EXACT_NUMBER
    ]
    kinds.by_path.update(dict.fromkeys(large, ValueKind.JSON))
    if large:
        raise KindsChanged


def _read_decimals(block: pa.Buffer, kinds: PathKinds) -> dict[Path, pa.Array]:
    """Read the NUMBER paths again, as exact decimals, and return their arrays.

    If some have too many decimal places, makes them JSON in `kinds` and raises `KindsChanged`.
    """
    schema = kinds.schema(ValueKind.NUMBER, number=EXACT_DECIMAL)
    if not len(schema):
        return {}
    try:
        exact = _read_json(block, schema, "ignore")
    except pa.ArrowInvalid as problem:
        _learn_fine_numbers(block, kinds)
        raise KindsChanged from problem
    return dict(_find_leaves(exact))


def _learn_fine_numbers(block: pa.Buffer, kinds: PathKinds) -> None:
    """Set NUMBER paths with more decimal places than the exact decimal to JSON, in `kinds`.

    Reads the block once for each NUMBER path to find out.
    """
    for path in [path for path, kind in kinds.by_path.items() if kind is ValueKind.NUMBER]:
        try:
            _read_json(block, nested_schema({path: EXACT_DECIMAL}), "ignore")
        except pa.ArrowInvalid:
            kinds.by_path[path] = ValueKind.JSON


_ROW = re.compile(r" in row (\d+)$")
_KIND_CHANGE = re.compile(r"Column\((.*)\) changed from (\w+) to (\w+) in row (\d+)$", re.DOTALL)


def _learn_from_error(
    message: str, lines: Sequence[bytes], block: pa.Buffer, kinds: PathKinds
) -> None:
    """Widen the kind of the paths that Arrow's message can mean: to JSON, or INT to NUMBER.

    Changes `kinds`. Raises `UnsupportedLine` if wider kinds do not help the line that the message
    names, and `UnsupportedBlock` if it names none and is not about integers.
    """
    change, row = _KIND_CHANGE.search(message), _ROW.search(message)
    if change and "object" not in change.group(2, 3):
        paths = _find_paths_named(change[1], lines[int(change[4])])
        if not paths or all(kinds.by_path.get(path) is ValueKind.JSON for path in paths):
            raise UnsupportedLine(int(change[4]))
        for path in paths:
            if (
                change[2] == "string"
                and kinds.by_path.get(path, ValueKind.STRING) is ValueKind.STRING
            ):
                kinds.learn_exception(path)
            else:
                kinds.learn(path, ValueKind.JSON)
    elif row:
        raise UnsupportedLine(int(row[1]))
    elif "to int64" in message:
        _learn_fractions(lines, block, kinds)
    else:
        raise UnsupportedBlock


def _learn_fractions(lines: Sequence[bytes], block: pa.Buffer, kinds: PathKinds) -> None:
    """Widen the INT paths that have other numbers: Arrow does not name them, but can infer them.

    Changes `kinds`; raises as `_learn_from_error` does.
    """
    others = [kind for kind in ARROW_BY_KIND if kind is not ValueKind.INT]
    try:
        leaves = dict(_find_leaves(_read_json(block, kinds.schema(*others))))
    except pa.ArrowInvalid as problem:
        if "to int64" in str(problem):
            raise UnsupportedBlock from problem
        _learn_from_error(str(problem), lines, block, kinds)
        return
    for path, array in leaves.items():
        if kinds.by_path.get(path) is ValueKind.INT and array.type != pa.int64():
            kinds.learn(path, _choose_kind(array.type))


def _find_paths_named(name: str, line: bytes) -> list[Path]:
    """Find the paths of a line that Arrow's name for a column can mean: keys joined by `/`.

    Keys may contain `/`, so there can be several. A name below an array means the array.
    """
    return [
        path
        for path, value in flatten(decode(line.decode()))
        if (joined := "/" + "/".join(path)) == name
        or (isinstance(value, list) and name.startswith(joined + "/"))
    ]


def narrow_decimals(numbers: pa.Array) -> pa.Array:
    """Cast to the column type decimal(38,6) if no value loses a digit, else keep the type."""
    try:
        return numbers.cast(COLUMN_DECIMAL)
    except pa.ArrowInvalid:
        return numbers
