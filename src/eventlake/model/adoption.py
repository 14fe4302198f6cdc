"""Work out a source's settings from tables that another program filled.

What the tables do not tell is a default. Where they contradict each other, the user decides.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from eventlake.errors import AmbiguousTables, InvalidSettings
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DatePartition, Layout
from eventlake.model.naming import PLURALS, Call, Naming, table_name
from eventlake.model.schema import TableSchema, new_table
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.model.tables import catalog_name, table_path

T = TypeVar("T")

_LOCATION = re.compile(r"(?P<data>.+)/(?P<source>[^/]+)/segment_type=(?P<type>[^/]+)")
_SUFFIX = "_partitioned"
"""What Segment appended to the names of some tables in the catalog."""
_ID_COLUMNS = {naming.id_column: naming for naming in (Naming.NATIVE, Naming.SEGMENT)}


@dataclass(frozen=True)
class FoundTable:
    """A table of the catalog, and what tells which events it has."""

    entry: CatalogTable
    files: Mapping[str, int] = field(default_factory=dict)
    """The sizes of its data files, by path in order."""
    types: frozenset[str] = frozenset()
    """Values of the column `type`."""
    events: frozenset[str] = frozenset()
    """Values of the column `event`."""
    foreign: tuple[str, ...] = ()
    """Its columns of types that EventLake does not write, described."""

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(column.name for column in self.entry.columns)

    @property
    def data_folder(self) -> str:
        return _match_location(self.entry.location)["data"]

    @property
    def folder_type(self) -> str:
        """The event type in the folder's name."""
        return _match_location(self.entry.location)["type"]

    @property
    def call(self) -> Call:
        """The call of its events: by their `type`, else by its columns and its folder's name."""
        sent = [call for call in Call if call in self.types]
        if len(sent) == 1:
            return sent[0]
        names = {name: call for call, plural in PLURALS.items() for name in (call.value, plural)}
        is_track = "event" in self.columns
        return Call.TRACK if is_track else names.get(self.folder_type, Call.TRACK)

    def name_by(self, naming: Naming) -> str:
        """The name that `naming` gives the table of its events, preferably its folder's."""
        guess = self.folder_type
        if naming is Naming.NATIVE:
            guess = guess.removeprefix("track_")
        events = sorted(self.events) if self.call is Call.TRACK and self.events else [guess]
        names = [table_name(self.call, event, naming) for event in events]
        return self.folder_type if self.folder_type in names else names[0]

    def prefixes(self, naming: Naming) -> list[str]:
        """What its name in the catalog has before the event type; empty if it is another name."""
        for event_type in (self.name_by(naming), self.folder_type):
            for name in (self.entry.name, self.entry.name.removesuffix(_SUFFIX)):
                if f"_{name}".endswith(f"_{event_type}"):
                    return [name.removesuffix(event_type).removesuffix("_")]
        return []


def source_of_location(location: str) -> str:
    """The source's folder in a table's location; empty if it is not a place of Segment's."""
    match = _LOCATION.fullmatch(location)
    return match["source"] if match else ""


def _match_location(location: str) -> "re.Match[str]":
    match = _LOCATION.fullmatch(location)
    if match is None:
        raise InvalidSettings(f"{location} is not the folder of an event type")
    return match


def settings_of_tables(
    settings: SourceSettings,
    tables: Sequence[FoundTable],
    changes: Mapping[str, object],
    layout: Layout,
) -> SourceSettings:
    """The settings with which the tables go on; `changes` are those that the user has set.

    Raises `AmbiguousTables` if the user has to set one more, and `InvalidSettings` if one that is
    set does not fit the tables.
    """
    decision = _Decision(settings, tables, changes)
    columns = decision.decide("column_naming", _column_namings, _both_id_columns(tables))
    naming = _decide_naming(decision, columns)
    data_folder = decision.decide("data_folder", lambda table: [table.data_folder], "")
    table_prefix = decision.decide(
        "table_prefix", lambda table: table.prefixes(naming), settings.table_prefix
    )
    date_partition = _partition_of_tables(tables)
    decision.check("date_partition", [date_partition])
    found = {
        "date_partition": date_partition,
        "naming": naming,
        "column_naming": None if naming.id_column == columns.id_column else columns,
        "data_folder": "" if data_folder == layout.data else data_folder,
        "table_prefix": table_prefix,
        "database": tables[0].entry.database,
    }
    source_settings(**{**settings.model_dump(), **found})  # names may be none that we accept
    return settings.model_copy(update=found)


@dataclass(frozen=True)
class _Decision:
    """Decides settings by tables, and by what the user has set."""

    settings: SourceSettings
    tables: Sequence[FoundTable]
    changes: Mapping[str, object]

    def decide(self, name: str, allowed: Callable[[FoundTable], Iterable[T]], default: T) -> T:
        """The value of a setting that all tables allow; those that allow none do not count.

        If they have none in common, the user's value; if they allow several, or none, `default`.
        """
        values = {table.entry.name: set(allowed(table)) for table in self.tables}
        given = [one for one in values.values() if one]
        if not given:
            return default
        common = set[T].intersection(*given)
        choices = {str(one): one for one in common or set[T].union(*given)}
        self.check(name, choices)
        if (user := self.user_value(name)) is not None:
            return choices[user]
        if len(choices) == 1 or default in common:
            return common.pop() if len(choices) == 1 else default
        rows = [(table, _join(one)) for table, one in sorted(values.items())]
        raise AmbiguousTables(
            f"the tables of {self.settings.source} differ in {name}: choose that of new tables "
            f"with --{name.replace('_', '-')}; the existing ones keep their own",
            [("table", name), *rows],
        )

    def check(self, name: str, allowed: Iterable[object]) -> None:
        """Raise `InvalidSettings` if the user has set a value that no table allows."""
        user = self.user_value(name)
        if user is not None and user not in set(map(str, allowed)):
            raise InvalidSettings(
                f"{name} is {user!r}, but the tables of {self.settings.source} were created with "
                f"{_join(allowed)}: omit it"
            )

    def user_value(self, name: str) -> str | None:
        """What the user has set, after validation; None if nothing."""
        return None if self.changes.get(name) is None else str(getattr(self.settings, name))


def _join(values: Iterable[object]) -> str:
    return " or ".join(sorted(repr(str(value)) for value in values))


# The naming


def _column_namings(table: FoundTable) -> list[Naming]:
    return [naming for column, naming in _ID_COLUMNS.items() if column in table.columns]


def _both_id_columns(tables: Sequence[FoundTable]) -> Naming:
    """The naming of columns if all tables have `id` and `message_id`; checks that each has one.

    Raises `InvalidSettings` if a table has neither, or if some have only one and some the other.
    """
    namings = {table.entry.name: _column_namings(table) for table in tables}
    if not set(Naming).intersection(*namings.values()):
        shown = (
            f"{name} has {' and '.join(one.id_column for one in found) or 'neither'}"
            for name, found in sorted(namings.items())
        )
        raise InvalidSettings(
            "the message id must be in the column `id` of all tables, or in `message_id` of all "
            f"tables: {', '.join(shown)}"
        )
    own = ("properties_", "traits_")
    prefixed = any(column.startswith(own) for table in tables for column in table.columns)
    return Naming.NATIVE if prefixed else Naming.SEGMENT


def _decide_naming(decision: _Decision, columns: Naming) -> Naming:
    """The naming that gives the tables the names of their folders."""
    tables = {table.entry.name: table for table in decision.tables}
    fits = {
        naming: {name for name, one in tables.items() if one.name_by(naming) == one.folder_type}
        for naming in Naming
    }
    fitting = [naming for naming in Naming if fits[naming]] or list(Naming)
    decision.check("naming", fitting)
    if (user := decision.user_value("naming")) is not None:
        return Naming(user)
    best = [one for one in fitting if not any(fits[one] < fits[other] for other in fitting)]
    if any(fits[one] != fits[best[0]] for one in best):
        rows = [
            (name, table.folder_type, _join(one for one in fitting if name in fits[one]))
            for name, table in sorted(tables.items())
        ]
        raise AmbiguousTables(
            f"no naming gives all tables of {decision.settings.source} their names: choose that of "
            "new tables with --naming; the existing ones keep their own",
            [("table", "event type", "naming"), *rows],
        )
    tracks = [table.folder_type for table in tables.values() if table.call is Call.TRACK]
    is_native = all(name.startswith("track_") for name in tracks) and (
        bool(tracks) or columns is Naming.NATIVE
    )
    return Naming.NATIVE if is_native and Naming.NATIVE in best else best[0]


def _partition_of_tables(tables: Sequence[FoundTable]) -> DatePartition:
    examples = {table.entry.partition_columns: table.entry.name for table in tables}
    supported = {one.columns: one for one in DatePartition}
    if len(examples) > 1 or next(iter(examples)) not in supported:
        listed = "; ".join(f"{name} by {', '.join(columns)}" for columns, name in examples.items())
        raise InvalidSettings(
            f"all tables must have the same partition columns, of a supported kind: {listed}"
        )
    return supported[next(iter(examples))]


# The tables


def map_tables(
    layout: Layout, settings: SourceSettings, tables: Sequence[FoundTable]
) -> list[tuple[TableSchema, FoundTable]]:
    """Each table with its schema, by name: its own columns, then missing standard columns.

    Raises `AmbiguousTables` if several are for the same events.
    """
    by_name: defaultdict[str, list[FoundTable]] = defaultdict(list)
    for table in tables:
        by_name[table.name_by(settings.naming)].append(table)
    rows = [
        (name, table.entry.name, table.entry.location)
        for name, same in sorted(by_name.items())
        for table in same
        if len(same) > 1
    ]
    if rows:
        raise AmbiguousTables(
            "several tables are for the same events: leave out all but one of each event type "
            "with --leave-out TABLE",
            [("event type", "table", "folder"), *rows],
        )
    return [
        (_schema_of(layout, settings, name, table), table)
        for name, (table,) in sorted(by_name.items())
    ]


def check_left_out(
    settings: SourceSettings, adopted: Iterable[TableSchema], left_out: Iterable[FoundTable]
) -> None:
    """Raise `InvalidSettings` if a table that is left out is the only one for its events."""
    names = {schema.name for schema in adopted}
    for table in left_out:
        if table.name_by(settings.naming) not in names:
            raise InvalidSettings(
                f"--leave-out is {table.entry.name!r}: no other table is for its events, and new "
                "ones would go to the same folder; omit it, or list the events in --skip-event"
            )


def _schema_of(
    layout: Layout, settings: SourceSettings, name: str, table: FoundTable
) -> TableSchema:
    entry, schema = table.entry, new_table(name, table.call, settings.columns)
    by_rule = table_path(layout, settings, schema), catalog_name(settings, schema)
    own = {
        "location": "" if entry.location == by_rule[0] else entry.location,
        "catalog_name": "" if entry.name == by_rule[1] else entry.name,
        "columns": entry.columns + entry.missing_columns(schema.columns),
    }
    return schema.model_copy(update=own)
