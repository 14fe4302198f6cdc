"""What the values of a path are, and how Arrow reads them exactly."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from eventlake.kernels.awkward import tree
from eventlake.model.naming import Path


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
ARROW_TYPES = {
    Kind.INT: pa.int64(),
    Kind.NUMBER: _DOUBLE,
    Kind.BOOL: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.STRINGS: pa.list_(pa.string()),
}
FAITHFUL = {pa.int64(): Kind.INT, pa.bool_(): Kind.BOOL, pa.string(): Kind.STRING}


@dataclass
class Kinds:
    """What is known of a table's paths; grows while its events are read."""

    of: dict[Path, Kind] = field(default_factory=dict)
    empty: dict[Path, pa.DataType] = field(default_factory=dict)
    """Paths that have only been null, or an object without keys, and their Arrow types."""
    crowded: bool = False
    """Whether the last lines had too many paths for columns."""
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
        types = {**ARROW_TYPES, Kind.NUMBER: number}
        return nested_schema({path: types[kind] for path, kind in self.of.items() if kind in kinds})

    def closed_schema(self) -> pa.Schema:
        """The explicit schema of all paths that were seen: any other key is a new one."""
        types = {path: ARROW_TYPES.get(kind, pa.null()) for path, kind in self.of.items()}
        types = {**self.empty, **types}
        objects = {path[:n] for path in types for n in range(1, len(path))}
        return nested_schema({path: one for path, one in types.items() if path not in objects})


def nested_schema(types: dict[Path, pa.DataType]) -> pa.Schema:
    return pa.schema(_fields(tree(types)))


def _fields(nested: dict[str, Any]) -> list[pa.Field]:
    return [
        pa.field(key, pa.struct(_fields(below)) if isinstance(below, dict) else below)
        for key, below in nested.items()
    ]
