"""Extract the raw JSON text of chosen paths from lines, so that Arrow does not read those values.

Arrow's reader cannot hold an array of mixed items, or a path that is a number in one line and a
string in the next. For such paths a msgspec struct type is generated whose fields are `Raw`: one
decode of a line gives views of the values' bytes. Each value is stored as compact JSON text under
its path and row, and replaced in the line by `null`, so that Arrow reads the rest of the line.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.jsontext import (
    MAX_LEVELS,
    check_levels,
    compact,
    decode,
    encode,
    flatten,
)
from eventlake.model.naming import Path

SparseValues = defaultdict[Path, list[tuple[int, str]]]
"""JSON texts by path, each with its row."""
MAX_CACHED_BYTES = 512
"""Longest raw value whose compact form is cached."""

_OBJECT, _ARRAY = b"{["
_NOT_A_FIELD_NAME = re.compile(r'["\\\x00-\x1f]')


class UnsupportedLine(Exception):
    """A line that Arrow cannot read exactly; Python has to read it."""

    def __init__(self, row: int) -> None:
        self.row = row


class UnsupportedBlock(Exception):
    """A block of lines that Arrow cannot read exactly; Python has to read all of them."""


def extract_raw_values(
    lines: Sequence[bytes], paths: list[Path], exceptions: frozenset[Path] = frozenset()
) -> tuple[Sequence[bytes], SparseValues]:
    """Return the lines with `null` at these paths, and the values that were there as JSON text.

    At the paths of `exceptions`, strings stay in the line.
    An object's values are returned one by one, under their own paths. Raises `UnsupportedLine` for
    a line with a scalar or array where a path needs an object, `UnsupportedBlock` for a key that
    msgspec does not accept, and `TooDeep`.
    """
    sparse: SparseValues = defaultdict(list)
    if not paths and not exceptions:
        return lines, sparse
    extract, stripped = _make_extractor(tuple(paths), exceptions), []
    for row, line in enumerate(lines):
        try:
            values = extract(line)
        except msgspec.MsgspecError as problem:
            raise UnsupportedLine(row) from problem
        if not values:
            stripped.append(line)
            continue
        views = [pa.py_buffer(raw) for _, raw in values]
        stripped.append(_replace_with_null(line, views))
        for (path, raw), view in zip(values, views, strict=True):
            if view.size != 4 or bytes(raw) != b"null":
                _add_value(bytes(raw), path, row, sparse)
    return stripped, sparse


def _add_value(raw: bytes, path: Path, row: int, sparse: SparseValues) -> None:
    """Add a value to `sparse`; an object's values one by one, each under its own path.

    Raises `TooDeep` if its levels and those of its path are more than `MAX_LEVELS`.
    """
    first = raw[0]
    if first in (_OBJECT, _ARRAY) and raw.count(b"{") + raw.count(b"[") > MAX_LEVELS - len(path):
        check_levels("[" * len(path) + raw.decode() + "]" * len(path))
    if first != _OBJECT:
        text = compact(raw) if len(raw) > MAX_CACHED_BYTES else _compact_cached(raw)
        sparse[path].append((row, text))
        return
    for below, value in flatten(decode(raw.decode()), path):
        sparse[below].append((row, encode(value)))


# Short arrays such as tags and filters repeat from event to event.
_compact_cached = lru_cache(maxsize=8192)(compact)


def _replace_with_null(line: bytes, views: list[pa.Buffer]) -> bytes:
    """Return the line with `null` where the views are, which point into it in any order."""
    base, at = pa.py_buffer(line).address, 0
    pieces: list[bytes] = []
    if len(views) > 1:
        views = sorted(views, key=lambda view: view.address)
    for view in views:
        start = view.address - base
        pieces += (line[at:start], b"null")
        at = start + view.size
    pieces.append(line[at:])
    return b"".join(pieces)


Extract = Callable[[bytes], list[tuple[Path, msgspec.Raw]]]


# Generating a struct type costs as much as decoding a hundred lines; many tables share theirs.
@lru_cache(maxsize=512)
def _make_extractor(paths: tuple[Path, ...], exceptions: frozenset[Path]) -> Extract:
    """Make a function that returns the raw values, null too, of these paths in a line.

    Of the paths of `exceptions`, it returns the values that are not strings. A decoder that only
    accepts strings there reads most lines; those that it refuses are read again.

    A path below another of the paths is part of that one's value. Raises `UnsupportedBlock` for a
    key that msgspec does not accept as a field name; the function raises `MsgspecError` for a line
    with a scalar or array where a path needs an object.
    """
    every = {*paths, *exceptions}
    tops = [
        path
        for path in (*paths, *sorted(exceptions))
        if not any(path[:n] in every for n in range(1, len(path)))
    ]
    if any(_NOT_A_FIELD_NAME.search(key) for path in tops for key in path):
        raise UnsupportedBlock
    extract_all = _make_field_reader({path: path for path in tops}, _RAW)
    if not exceptions:
        return extract_all
    extract_raw = _make_field_reader(
        {path: None if path in exceptions else path for path in tops}, _STRING
    )

    def extract(line: bytes) -> list[tuple[Path, msgspec.Raw]]:
        try:
            return extract_raw(line)
        except msgspec.MsgspecError:
            values = extract_all(line)
        return [
            (path, raw)
            for path, raw in values
            if path not in exceptions or not bytes(raw).startswith(b'"')
        ]

    return extract


_RAW = msgspec.Raw | msgspec.UnsetType
_STRING = str | None | msgspec.UnsetType


def _make_field_reader(leaves: dict[Path, Path | None], other: Any) -> Extract:
    """Make a function that returns the raw values of the paths of `leaves` in a line.

    Paths with None are only decoded, as the type `other`.
    """
    nested = nest_paths(leaves)
    read = msgspec.json.Decoder(_make_struct(nested, other)).decode
    objects = list(_list_raw_fields(nested))

    def extract(line: bytes) -> list[tuple[Path, msgspec.Raw]]:
        event = read(line)
        values = []
        for attributes, fields in objects:
            parent: Any = event
            for name in attributes:
                parent = getattr(parent, name)
                if parent is None or parent is msgspec.UNSET:
                    break
            else:
                for name, path in fields:
                    raw = getattr(parent, name)
                    if raw is not msgspec.UNSET:
                        values.append((path, raw))
        return values

    return extract


ObjectFields = tuple[tuple[str, ...], list[tuple[str, Path]]]
"""The attributes that lead to an object, and its raw fields with their paths."""


def _list_raw_fields(
    nested: dict[str, Any], attributes: tuple[str, ...] = ()
) -> Iterator[ObjectFields]:
    """Yield each object with raw fields, by the names f0, f1, … that `_make_struct` gives them.

    `attributes` are those that lead to `nested`.
    """
    names = {f"f{number}": below for number, below in enumerate(nested.values())}
    fields = [(name, below) for name, below in names.items() if isinstance(below, tuple)]
    if fields:
        yield attributes, fields
    for name, below in names.items():
        if isinstance(below, dict):
            yield from _list_raw_fields(below, (*attributes, name))


def _make_struct(nested: dict[str, Any], other: Any) -> type[msgspec.Struct]:
    """Make a struct type with fields f0, f1, … for the keys; a nested struct for each object.

    All fields are optional. Fields of paths are raw text, those of None have the type `other`.
    """
    fields = [
        (f"f{number}", _field_type(below, other), msgspec.UNSET)
        for number, below in enumerate(nested.values())
    ]
    keys = {f"f{number}": key for number, key in enumerate(nested)}
    return msgspec.defstruct("RawFields", fields, rename=keys, gc=False)


def _field_type(below: Any, other: Any) -> Any:
    """Return the type of an optional field: a struct or null for a dictionary."""
    if isinstance(below, dict):
        return _make_struct(below, other) | None | msgspec.UnsetType
    return other if below is None else _RAW


def nest_paths(leaves: dict[Path, Any]) -> dict[str, Any]:
    """Turn values by path into nested dictionaries by key; no path may begin with another."""
    root: dict[str, Any] = {}
    for path, value in leaves.items():
        node = root
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    return root


def string_lists_to_json(arrays: pa.ListArray) -> pa.StringArray:
    """Encode lists of strings as compact JSON; a null list stays null, a null item is `null`."""
    distinct = arrays.flatten().dictionary_encode()
    quoted = pa.array([encode(text) for text in distinct.dictionary.to_pylist()], pa.string())
    if distinct.null_count:
        quoted = pa.concat_arrays([quoted, pa.array(["null"])])
    items = quoted.take(distinct.indices.fill_null(len(distinct.dictionary)))
    # `flatten` omits the items of null lists, so the offsets must count them as empty.
    sizes = pc.list_value_length(arrays).fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(sizes.to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    texts = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return pc.if_else(arrays.is_valid(), texts, pa.scalar(None, pa.string()))
