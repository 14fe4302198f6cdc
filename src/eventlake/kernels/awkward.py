"""Awkward values, arrays and paths of several kinds: taken out of the lines before Arrow reads."""

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

Sparse = defaultdict[Path, list[tuple[int, str]]]
"""JSON texts by path, each with its row."""

_OBJECT, _ARRAY = b"{["
_UNNAMEABLE = re.compile(r'["\\\x00-\x1f]')


class OddLine(Exception):
    """A line that only Python can read."""

    def __init__(self, row: int) -> None:
        self.row = row


class Unreadable(Exception):
    """A block that only Python can read."""


def cut(lines: Sequence[bytes], awkward: list[Path]) -> tuple[Sequence[bytes], Sparse]:
    """Awkward values out of the lines, `null` in their place, and their text by path."""
    sparse: Sparse = defaultdict(list)
    if not awkward:
        return lines, sparse
    extract, out = _extractor(tuple(awkward)), []
    for row, line in enumerate(lines):
        try:
            found = extract(line)
        except msgspec.MsgspecError as problem:
            raise OddLine(row) from problem  # what holds the path is no object here
        if not found:
            out.append(line)
            continue
        views = [pa.py_buffer(raw) for _, raw in found]
        out.append(_without(line, views))
        for (path, raw), view in zip(found, views, strict=True):
            if view.size != 4 or bytes(raw) != b"null":
                _note(bytes(raw), path, row, sparse)
    return out, sparse


def _note(raw: bytes, path: Path, row: int, sparse: Sparse) -> None:
    first = raw[0]
    if first in (_OBJECT, _ARRAY) and raw.count(b"{") + raw.count(b"[") > MAX_LEVELS - len(path):
        check_levels("[" * len(path) + raw.decode() + "]" * len(path))
    if first != _OBJECT:
        sparse[path].append((row, compact(raw) if len(raw) > SHORT else _compact_again(raw)))
        return
    for below, value in flatten(decode(raw.decode()), path):
        sparse[below].append((row, encode(value)))


SHORT = 512
# Filters, tags and the like come again and again.
_compact_again = lru_cache(maxsize=8192)(compact)


def _without(line: bytes, views: list[pa.Buffer]) -> bytes:
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


# Making one takes as long as a hundred lines; many tables have the same awkward paths.
@lru_cache(maxsize=512)
def _extractor(awkward: tuple[Path, ...]) -> Extract:
    """Finds the raw values of these paths in a line."""
    tops = [path for path in awkward if not any(path[:n] in awkward for n in range(1, len(path)))]
    if any(_UNNAMEABLE.search(key) for path in tops for key in path):
        raise Unreadable  # msgspec does not take such a name for a field
    nested = tree({path: path for path in tops})
    read = msgspec.json.Decoder(_struct(nested)).decode
    holders = list(_holders(nested))

    def extract(line: bytes) -> list[tuple[Path, msgspec.Raw]]:
        whole = read(line)
        found = []
        for way, fields in holders:
            holder: Any = whole
            for name in way:
                holder = getattr(holder, name)
                if holder is None or holder is msgspec.UNSET:
                    break
            else:
                for name, path in fields:
                    raw = getattr(holder, name)
                    if raw is not msgspec.UNSET:
                        found.append((path, raw))
        return found

    return extract


Holder = tuple[tuple[str, ...], list[tuple[str, Path]]]


def _holders(nested: dict[str, Any], way: tuple[str, ...] = ()) -> Iterator[Holder]:
    """The objects that hold raw values: the attributes that lead there, then those values."""
    names = {f"f{number}": below for number, below in enumerate(nested.values())}
    fields = [(name, below) for name, below in names.items() if not isinstance(below, dict)]
    if fields:
        yield way, fields
    for name, below in names.items():
        if isinstance(below, dict):
            yield from _holders(below, (*way, name))


def _struct(nested: dict[str, Any]) -> type[msgspec.Struct]:
    fields = [
        (f"f{number}", _field(below), msgspec.UNSET) for number, below in enumerate(nested.values())
    ]
    keys = {f"f{number}": key for number, key in enumerate(nested)}
    return msgspec.defstruct("Found", fields, rename=keys, gc=False)


def _field(below: Any) -> Any:
    if isinstance(below, dict):
        return _struct(below) | None | msgspec.UnsetType
    return msgspec.Raw | msgspec.UnsetType


def tree(leaves: dict[Path, Any]) -> dict[str, Any]:
    """Paths as nested dictionaries with the given leaves."""
    root: dict[str, Any] = {}
    for path, value in leaves.items():
        node = root
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    return root


def array_texts(arrays: pa.ListArray) -> pa.StringArray:
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
