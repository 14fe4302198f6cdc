"""The columns of tables: the standard ones, then those of the events' own fields."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from eventlake.model.naming import RESCUED, Call, Naming, Path
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel


class Column(FrozenModel):
    """A column and its type, which only a retype changes."""

    name: str
    type: Type


@lru_cache(maxsize=1 << 16)
def column(name: str, kind: Type) -> Column:
    """A cached Column: most tables have many columns in common."""
    return Column(name=name, type=kind)


class TableSchema(FrozenModel):
    """A table's columns without its partition columns, which depend on the settings."""

    name: str
    """The name that the naming gives it, without prefix."""
    call: Call
    columns: tuple[Column, ...]
    location: str = ""
    """Its path, if it was adopted and is not where the settings would put it."""
    catalog_name: str = ""
    """Its name in the catalog, if it was adopted and the settings would give it another."""

    @property
    def types(self) -> dict[str, Type]:
        return {column.name: column.type for column in self.columns}

    def with_columns(self, columns: tuple[Column, ...]) -> "TableSchema":
        return self.model_copy(update={"columns": self.columns + columns})

    def with_types(self, types: Mapping[str, Type]) -> "TableSchema":
        """The table with other types of some of its columns."""
        if not types:
            return self
        columns = tuple(column(one.name, types.get(one.name, one.type)) for one in self.columns)
        return self.model_copy(update={"columns": columns})


@dataclass(frozen=True)
class SchemaChange:
    """A table's schema after a run, and the columns that the run added."""

    schema: TableSchema
    added: tuple[Column, ...] = ()

    @classmethod
    def add_columns(cls, before: TableSchema, columns: Iterable[Column]) -> "SchemaChange":
        """Add columns to a table, sorted by name."""
        added = tuple(sorted(columns, key=lambda column: column.name))
        return cls(before.with_columns(added), added)

    def with_rescued(self) -> "SchemaChange":
        """Add `_rescued_data` to the new columns, unless the table has it."""
        if RESCUED in self.schema.types:
            return self
        existing = tuple(c for c in self.schema.columns if c not in self.added)
        before = self.schema.model_copy(update={"columns": existing})
        return self.add_columns(before, (*self.added, column(RESCUED, Type.STRING)))


class StandardColumn(NamedTuple):
    """A standard column and the top-level field that it is filled from."""

    column: str
    key: str
    type: Type

    @property
    def path(self) -> Path:
        return (self.key,)


_CALL_COLUMNS: Mapping[Call, tuple[tuple[str, str], ...]] = {
    Call.TRACK: (("event", "event"),),
    Call.IDENTIFY: (),
    Call.PAGE: (("name", "name"), ("category", "category")),
    Call.SCREEN: (("name", "name"), ("category", "category")),
    Call.GROUP: (("group_id", "groupId"),),
    Call.ALIAS: (("previous_id", "previousId"),),
}


@lru_cache
def standard_columns(call: Call, naming: Naming) -> tuple[StandardColumn, ...]:
    """The first columns of every table of this call, in order."""
    identity = naming.id_column
    strings = (
        (identity, "messageId"),
        ("anonymous_id", "anonymousId"),
        ("user_id", "userId"),
        *_CALL_COLUMNS[call],
        ("type", "type"),
        ("channel", "channel"),
        ("version", "version"),
        ("project_id", "projectId"),
    )
    times = (
        ("received_at", "receivedAt"),
        ("sent_at", "sentAt"),
        ("original_timestamp", "originalTimestamp"),
        ("timestamp", "timestamp"),
    )
    return (
        *(StandardColumn(column, key, Type.STRING) for column, key in strings),
        *(StandardColumn(column, key, Type.TIMESTAMP) for column, key in times),
    )


def find_fixed_columns(call: Call, naming: Naming) -> frozenset[str]:
    """The columns whose types are the same in every table of this call and cannot be changed."""
    return frozenset({one.column for one in standard_columns(call, naming)} | {RESCUED})


def new_table(name: str, call: Call, naming: Naming) -> TableSchema:
    """A table with the standard columns only."""
    standard = standard_columns(call, naming)
    return TableSchema(
        name=name, call=call, columns=tuple(column(one.column, one.type) for one in standard)
    )


def budget_used(columns: Collection[str]) -> int:
    """Number of columns that count towards `max_columns`: all but `_rescued_data`."""
    return len(columns) - (RESCUED in columns)
