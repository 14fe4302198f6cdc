"""A table's columns: the standard ones every table has, then what its events brought."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from eventlake.model.naming import RESCUED, Call, Naming, Path
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel


class Column(FrozenModel):
    """A column and the type it keeps for good."""

    name: str
    type: Type


@lru_cache(maxsize=1 << 16)
def column(name: str, kind: Type) -> Column:
    """A column; most tables have many of theirs in common with others, and share them."""
    return Column(name=name, type=kind)


class TableSchema(FrozenModel):
    """A table without its partition columns, which its source's settings decide."""

    name: str
    call: Call
    columns: tuple[Column, ...]

    @property
    def types(self) -> dict[str, Type]:
        return {column.name: column.type for column in self.columns}

    def with_columns(self, columns: tuple[Column, ...]) -> "TableSchema":
        return self.model_copy(update={"columns": self.columns + columns})


class Standard(NamedTuple):
    """A standard column and the one top-level field that fills it."""

    column: str
    key: str
    type: Type

    @property
    def path(self) -> Path:
        return (self.key,)


_OWN: Mapping[Call, tuple[tuple[str, str], ...]] = {
    Call.TRACK: (("event", "event"),),
    Call.IDENTIFY: (),
    Call.PAGE: (("name", "name"), ("category", "category")),
    Call.SCREEN: (("name", "name"), ("category", "category")),
    Call.GROUP: (("group_id", "groupId"),),
    Call.ALIAS: (("previous_id", "previousId"),),
}


@lru_cache
def standard_columns(call: Call, naming: Naming) -> tuple[Standard, ...]:
    """The columns that come first in every table of this call, in order."""
    identity = "id" if naming is Naming.WAREHOUSE else "message_id"
    strings = (
        (identity, "messageId"),
        ("anonymous_id", "anonymousId"),
        ("user_id", "userId"),
        *_OWN[call],
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
        *(Standard(column, key, Type.STRING) for column, key in strings),
        *(Standard(column, key, Type.TIMESTAMP) for column, key in times),
    )


def new_table(name: str, call: Call, naming: Naming) -> TableSchema:
    """A table as it is before its first event's own columns."""
    standard = standard_columns(call, naming)
    return TableSchema(
        name=name, call=call, columns=tuple(column(one.column, one.type) for one in standard)
    )


def budget_used(columns: Collection[str]) -> int:
    """How many of `max_columns` a table has taken; `_rescued_data` is always allowed."""
    return len(columns) - (RESCUED in columns)
