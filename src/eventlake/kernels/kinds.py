"""The JSON kind of each path of a table, and the Arrow schemas that read those kinds exactly.

A path is the list of keys that leads to a value. `PathKinds` is what the parser has learned about
one table: it starts empty, gets an entry for every path that had a value, and is reused for the
table's next block of lines. A path's kind only ever widens (INT to NUMBER, STRING to STRING with
exceptions, anything to JSON), so re-reading a block after a change always ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from eventlake.kernels.raw_values import nest_paths
from eventlake.model.naming import Path


class ValueKind(StrEnum):
    """The JSON kind of a path's values; it decides the Arrow type that holds them."""

    INT = "int"
    NUMBER = "number"
    BOOL = "bool"
    STRING = "string"
    STRINGS = "strings"
    """Arrays of strings; the parser returns them as JSON text."""
    TIME = "time"
    """Timestamps; only `receivedAt`, which routing has already parsed."""
    JSON = "json"
    """Values of any kind, as compact JSON text."""


_DOUBLE = pa.float64()
ARROW_BY_KIND = {
    ValueKind.INT: pa.int64(),
    ValueKind.NUMBER: _DOUBLE,
    ValueKind.BOOL: pa.bool_(),
    ValueKind.STRING: pa.string(),
    ValueKind.STRINGS: pa.list_(pa.string()),
}
KIND_BY_ARROW = {
    pa.int64(): ValueKind.INT,
    pa.bool_(): ValueKind.BOOL,
    pa.string(): ValueKind.STRING,
}
"""The types that Arrow infers without changing a value."""


MANY_PATHS = 2000
"""Paths of a table after which their kinds are learned again."""


@dataclass
class PathKinds:
    """The kinds of one table's paths; updated while its lines are parsed."""

    by_path: dict[Path, ValueKind] = field(default_factory=dict)
    exceptions: set[Path] = field(default_factory=set)
    """Paths of kind STRING that have a few values of other kinds, which are extracted as JSON."""
    empty_paths: dict[Path, pa.DataType] = field(default_factory=dict)
    """Arrow types of paths that have only been null, or an object without keys."""
    too_many_paths: bool = False
    """Whether the last block had too many paths for columns."""
    keeps_number_text: Callable[[Path], bool] = lambda _: False
    """Whether numbers at a path must keep the text that was sent, as they may be rescued."""
    max_cells: int = 50_000_000
    """Most rows times columns of a block, to bound the memory of reading it."""

    def learn(self, path: Path, kind: ValueKind) -> None:
        """Set the kind of a path, whatever it was; JSON for numbers that must keep their text."""
        as_text = kind is ValueKind.NUMBER and self.keeps_number_text(path)
        self.by_path[path] = ValueKind.JSON if as_text else kind
        self.exceptions.discard(path)

    def learn_exception(self, path: Path) -> None:
        """Allow other values at a path of strings; a path that allows them already becomes JSON.

        Also allows them at the other paths of strings in the same object, which often have some
        too: Arrow names one path for each read that fails.
        """
        if path in self.exceptions:
            self.by_path[path] = ValueKind.JSON
            self.exceptions.remove(path)
            return
        self.by_path[path] = ValueKind.STRING
        self.exceptions |= {
            other
            for other, kind in self.by_path.items()
            if kind is ValueKind.STRING and other[:-1] == path[:-1]
        }

    def forget_if_many(self) -> None:
        """Forget all kinds if there are over `MANY_PATHS`: keys of earlier lines that were data."""
        if len(self.by_path) > MANY_PATHS:
            self.by_path, self.empty_paths, self.exceptions = {}, {}, set()

    @property
    def raw_paths(self) -> list[Path]:
        """The paths of kind JSON: their raw text is extracted before Arrow reads the lines."""
        return [path for path, kind in self.by_path.items() if kind is ValueKind.JSON]

    def schema(self, *kinds: ValueKind, number: pa.DataType = _DOUBLE) -> pa.Schema:
        """Build the explicit schema of the paths of these kinds; `number` is NUMBER's type."""
        types = {**ARROW_BY_KIND, ValueKind.NUMBER: number}
        return nested_schema(
            {path: types[kind] for path, kind in self.by_path.items() if kind in kinds}
        )

    def strict_schema(self) -> pa.Schema:
        """Build the explicit schema of every path so far, for a read that fails at any other.

        The type of JSON paths is null, as their values are extracted before the read.
        """
        types = {path: ARROW_BY_KIND.get(kind, pa.null()) for path, kind in self.by_path.items()}
        types = {**self.empty_paths, **types}
        objects = {path[:n] for path in types for n in range(1, len(path))}
        return nested_schema({path: arrow for path, arrow in types.items() if path not in objects})


def nested_schema(types: dict[Path, pa.DataType]) -> pa.Schema:
    """Build a schema from types by path, with a struct for each object on the paths."""
    return pa.schema(_make_fields(nest_paths(types)))


def _make_fields(nested: dict[str, Any]) -> list[pa.Field]:
    """Make the fields of a schema from nested dictionaries of types, which become structs."""
    return [
        pa.field(key, pa.struct(_make_fields(below)) if isinstance(below, dict) else below)
        for key, below in nested.items()
    ]
