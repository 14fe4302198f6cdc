"""Find the column types that a person has changed in the catalog."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.lake import Lake
from eventlake.ledger import Ledger, State, list_staged_runs, read_refusals
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import TableSchema, standard_columns
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name, table_path
from eventlake.model.types import Type
from eventlake.ports import FollowsTables

Types = Mapping[str, Mapping[str, Type]]
"""Types by table and column."""


class CatalogTypes(NamedTuple):
    """The types that a run takes over from the catalog, and what to tell the user."""

    retyped: dict[str, dict[str, Type]]
    warnings: tuple[str, ...] = ()


class ColumnChange(NamedTuple):
    """A column whose type in the catalog is not that of the ledger."""

    table: str
    column: str
    before: Type
    now: Type
    problem: str
    """Why the change cannot be followed; empty if it can."""


def find_retyped(lake: Lake, ledger: Ledger, state: State) -> CatalogTypes:
    """Compare the types in the catalog with the ledger's, with one listing of the database.

    Raises `InvalidSettings` if a column has a type that EventLake does not write, or if it is a
    standard column, the types of which are fixed. With a catalog that cannot be read, returns no
    types and a warning: registering the run's tables fails with the same error. A catalog that
    follows the tables is not read.
    """
    if state.settings is None or not state.tables or isinstance(lake.catalog, FollowsTables):
        return CatalogTypes({})
    try:
        entries = {one.name: one for one in lake.catalog.tables(state.settings.database)}
    except EventLakeError as problem:
        return CatalogTypes({}, (f"types in the catalog were not checked: {problem}",))
    changes = list(_find_changes(lake, state, state.settings, entries))
    changes = _leave_out_unregistered(ledger, changes)
    if lake.format.versioned:
        return CatalogTypes({}, tuple(_describe_ignored(state, one) for one in changes))
    if problems := [one.problem for one in changes if one.problem]:
        raise InvalidSettings("; ".join(problems))
    retyped: dict[str, dict[str, Type]] = {}
    for one in changes:
        retyped.setdefault(one.table, {})[one.column] = one.now
    tables = state.tables
    warnings = (_describe_change(state.settings, tables[one.table], one) for one in changes)
    return CatalogTypes(retyped, tuple(warnings))


def _leave_out_unregistered(ledger: Ledger, changes: list[ColumnChange]) -> list[ColumnChange]:
    """Return the changes that were surely made by a person, not by a retype still to be registered.

    Returns none while a run of the source has a stage, and none of a table that the catalog
    refused.
    """
    if not changes or list_staged_runs(ledger):
        return []
    refused = read_refusals(ledger)
    return [one for one in changes if one.table not in refused]


def _find_changes(
    lake: Lake, state: State, settings: SourceSettings, entries: Mapping[str, CatalogTable]
) -> Iterator[ColumnChange]:
    """Yield the columns with another type than in the ledger; `entries` are by catalog name.

    Tables that the catalog lacks, or has at another location, are left out.
    """
    for schema in state.tables.values():
        entry = entries.get(catalog_name(settings, schema))
        if entry and entry.location == table_path(lake.layout, settings, schema):
            yield from _compare_types(settings, schema, entry)


def _compare_types(
    settings: SourceSettings, schema: TableSchema, entry: CatalogTable
) -> Iterator[ColumnChange]:
    """Yield the columns of one table that have another type in the catalog than in the ledger.

    `problem` is set for types that EventLake does not write, and for standard columns.
    """
    types = schema.types
    standard = {one.column for one in standard_columns(schema.call, settings.columns)}
    for column in entry.columns:
        before = types.get(column.name, column.type)
        # A table that another program created may have kept its types when it was adopted.
        foreign = entry.foreign.get(column.name, "") if entry.source else ""
        if before is column.type and not foreign:
            continue
        found = entry.foreign.get(column.name) or str(column.type)
        problem = (
            f"{entry.full_name}.{column.name} has the type {found} in the catalog, and was {before}"
        )
        if column.name in entry.foreign:
            allowed = ", ".join(map(str, Type))
            problem += f": EventLake writes {allowed}; choose one of these, or change it back"
        elif column.name in standard:
            problem += ": the types of standard columns are fixed; change it back"
        else:
            problem = ""
        yield ColumnChange(schema.name, column.name, before, column.type, problem)


def _describe_ignored(state: State, change: ColumnChange) -> str:
    """Return the warning that a type in the catalog is not that of the table's own log."""
    assert state.settings
    table = f"{state.settings.database}.{catalog_name(state.settings, state.tables[change.table])}"
    return (
        f"{table}.{change.column} was changed from {change.before} to {change.now} in the catalog, "
        "but the table's own log decides: use `eventlake retype --replay`, or change it back"
    )


def _describe_change(settings: SourceSettings, schema: TableSchema, change: ColumnChange) -> str:
    """Return the warning that a type was changed in the catalog, and what to do for old rows."""
    table = f"{settings.database}.{catalog_name(settings, schema)}"
    return (
        f"{table}.{change.column} was changed from {change.before} to {change.now} in the catalog: "
        "new rows have the new type; older partitions need a replay (`eventlake replay`), and "
        "until then Spark and Athena may refuse to read the column there"
    )
