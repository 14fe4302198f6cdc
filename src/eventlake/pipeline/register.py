"""Register new tables, columns and partitions in the catalog, as the ledger has them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from eventlake.errors import EventLakeError, MissingTable
from eventlake.lake import Lake
from eventlake.ledger import REPORTS, Ledger, Refusal
from eventlake.ledger.files import LiveFile
from eventlake.model import report
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import Commit, CommitKind, TableCommit
from eventlake.model.layout import partition_path, run_day
from eventlake.model.schema import Column, TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name, table_path
from eventlake.parallel import TableWork, run_per_table
from eventlake.ports import FollowsTables, NoProgress, Progress

Partition = Mapping[str, str]


def register(
    lake: Lake, commit: Commit, unpublished: Collection[str], progress: Progress
) -> dict[str, EventLakeError]:
    """Register what a commit added, or all tables with all partitions if their names changed.

    First removes from the catalog what the commit removed. Leaves out the tables in `unpublished`.
    Returns the errors by table; the key of the table of reports is `REPORTS`. Tables that someone
    dropped from the catalog are registered with all partitions. A compaction changes neither tables
    nor partitions, so it needs no catalog.
    """
    if commit.kind is CommitKind.COMPACT:
        return {}
    ledger = lake.ledger(commit.settings.folder)
    if commit.renamed or commit.is_whole:
        schemas = ledger.read_state().tables.values()
        tables = complete_tables(lake, ledger, commit.settings, schemas)
        _drop_outdated(lake, tables.values())
    else:
        tables = _changed_tables(lake, commit)
    withdrawals = _withdrawals(lake, ledger, commit)
    refused = run_per_table("register", withdrawals, NoProgress())
    left_out = {*unpublished, *refused}
    tables = {name: table for name, table in tables.items() if name not in left_out}
    if not tables and isinstance(lake.catalog, FollowsTables):
        return refused  # nothing is new, and the table of reports was registered with the first
    tables[REPORTS] = reports_table(lake, commit.settings, run_day(commit.run_id))
    errors = refused | _ensure(lake, tables, progress)
    missing = [
        one.table for one in commit.tables if isinstance(errors.get(one.table.name), MissingTable)
    ]
    if missing:  # dropped by hand, so earlier partitions are missing too
        again = complete_tables(lake, ledger, commit.settings, missing)
        errors = {name: one for name, one in errors.items() if name not in again}
        errors |= _ensure(lake, again, progress)
    return errors


def repeat_withdrawals(
    lake: Lake, commit: Commit, later: Sequence[Commit]
) -> dict[str, EventLakeError]:
    """Remove from the catalog again what later commits removed of the tables of a commit.

    Their runs may have done so before this one registered its tables, and so brought it back.
    Returns the errors by table.
    """
    is_complete = commit.renamed or commit.is_whole
    names = {one.table.name for one in commit.tables}
    removals = [
        (other, one)
        for other in later
        for one in other.tables
        if (one.removes or one.retyped or one.dropped) and (is_complete or one.table.name in names)
    ]
    if not removals or commit.kind is CommitKind.COMPACT:
        return {}
    ledger = lake.ledger(commit.settings.folder)
    files, state = ledger.list_live_files(), ledger.read_state()
    work = [
        (one.table.name, partial(_withdraw, lake, other, one, files.get(one.table.name, ())))
        for other, one in removals
    ]
    errors: dict[str, EventLakeError] = {}
    for withdrawal in work:  # one after the other: several may be of one table
        errors |= run_per_table("register", [withdrawal], NoProgress())
    removed = {one.table.name for _, one in removals}
    schemas = [table for name, table in state.tables.items() if name in removed]
    tables = complete_tables(lake, ledger, state.settings or commit.settings, schemas)
    return errors | _ensure(lake, tables, NoProgress())


def register_refused(
    lake: Lake, ledger: Ledger, refusals: Mapping[str, Refusal], progress: Progress
) -> dict[str, Refusal]:
    """Register the tables that the catalog refused earlier, with all partitions.

    Returns the refusals that have ended, also those of tables that no longer exist.
    """
    state = ledger.read_state()  # after the refusals, so it has the commits of their runs
    if state.settings is None:
        return {}
    schemas = [state.tables[name] for name in refusals if name in state.tables]
    tables = complete_tables(lake, ledger, state.settings, schemas)
    if REPORTS in refusals:
        days = sorted(set(map(run_day, refusals[REPORTS].runs)))
        tables[REPORTS] = reports_table(lake, state.settings, *days)
    errors = _ensure(lake, tables, progress)
    return {name: one for name, one in refusals.items() if name not in errors}


def _drop_outdated(lake: Lake, tables: Iterable[CatalogTable]) -> None:
    """Drop the catalog entries of `tables` in which a column has another type than in `tables`.

    Such entries are left from when the source had these names before. If they stayed, their old
    types would count as a person's change. Entries with another location stay. Errors are ignored,
    as registering the tables fails with the same error.
    """
    new = {table.full_name: table for table in tables}
    with suppress(EventLakeError):  # registering these tables fails with the same error
        for entry in lake.catalog.tables(next(iter(new.values())).database) if new else ():
            table = new.get(entry.full_name)
            if table and entry.location == table.location and _has_other_types(entry, table):
                lake.catalog.drop(entry)


def _has_other_types(entry: CatalogTable, table: CatalogTable) -> bool:
    """Whether a column that both have has another type in the catalog's entry."""
    types = {column.name: column.type for column in table.columns}
    return any(types.get(one.name, one.type) is not one.type for one in entry.columns)


def _ensure(
    lake: Lake, tables: Mapping[str, CatalogTable], progress: Progress
) -> dict[str, EventLakeError]:
    """Register tables in the catalog; return the errors by the keys of `tables`.

    Those without an error are registered.
    """
    errors = lake.catalog.ensure(list(tables.values()), progress)
    return {
        name: errors[table.full_name] for name, table in tables.items() if table.full_name in errors
    }


def _withdrawals(lake: Lake, ledger: Ledger, commit: Commit) -> list[TableWork]:
    """Return, by table, the calls of `_withdraw` that a commit needs; runs none of them.

    Those are for tables of which it removed files, changed types, or which it dropped.
    """
    changed = [one for one in commit.tables if one.removes or one.retyped or one.dropped]
    if not changed:
        return []
    files = ledger.list_live_files()
    return [
        (one.table.name, partial(_withdraw, lake, commit, one, files.get(one.table.name, ())))
        for one in changed
    ]


def _withdraw(lake: Lake, commit: Commit, one: TableCommit, files: Sequence[LiveFile]) -> None:
    """Remove from the catalog what a commit removed of one table; `files` are its live files.

    Drops a table that is gone, or that is rebuilt with other columns or partition columns, to be
    registered again. Otherwise changes types and removes partitions without live files.
    """
    live = {partition_path(file.partition) for file in files}
    gone = [file.partition for file in one.removes if partition_path(file.partition) not in live]
    table = catalog_table(lake, commit.settings, one.table, gone)
    if commit.is_whole or one.dropped:
        entry = lake.catalog.table(table.database, table.name)
        is_gone = one.dropped and not files  # a later commit may have made it again
        if entry and _has_moved(entry, table, one):
            lake.catalog.drop(entry)
            return
        if entry and entry.location == table.location and (is_gone or _is_obsolete(entry, table)):
            lake.catalog.drop(entry)
            return
    if one.retyped:
        lake.catalog.retype(table)
    if table.partitions:
        lake.catalog.remove_partitions(table)
        _restore_partitions(lake, commit, one, table)


def _restore_partitions(lake: Lake, commit: Commit, one: TableCommit, table: CatalogTable) -> None:
    """Register removed partitions again that another run has added files to meanwhile.

    Raises the catalog's error.
    """
    files = lake.ledger(commit.settings.folder).list_live_files().get(one.table.name, ())
    live = {partition_path(file.partition) for file in files}
    again = tuple(partition for partition in table.partitions if partition_path(partition) in live)
    if again:
        change = {"partitions": again, "is_partial": True}
        for error in lake.catalog.ensure([table.model_copy(update=change)], NoProgress()).values():
            raise error


def _has_moved(entry: CatalogTable, table: CatalogTable, one: TableCommit) -> bool:
    """Whether the catalog's entry is of the folder that a commit has moved the table from."""
    removed = (file.path for file in one.removes)
    return entry.location != table.location and any(
        path.startswith(f"{entry.location}/") for path in removed
    )


def _is_obsolete(entry: CatalogTable, table: CatalogTable) -> bool:
    """Whether the catalog's entry has other partition columns, another order, or more columns."""
    is_same_key = entry.partition_columns == table.partition_columns
    shared = {column.name for column in entry.columns}
    order = [column.name for column in table.columns if column.name in shared]
    return not is_same_key or order != [column.name for column in entry.columns]


def _changed_tables(lake: Lake, commit: Commit) -> dict[str, CatalogTable]:
    """Build the catalog entries of the tables that a commit changed, by table, with new partitions.

    Those of tables that existed before are partial. Dropped tables are left out.
    """
    return {
        one.table.name: catalog_table(lake, commit.settings, one.table, one.partitions).model_copy(
            update={"is_partial": not one.is_new}
        )
        for one in commit.tables
        if _has_news(lake, one) and not one.dropped
    }


def _has_news(lake: Lake, one: TableCommit) -> bool:
    """Whether a commit has something of a table that the catalog must be told of."""
    if isinstance(lake.catalog, FollowsTables):
        return one.is_new or bool(one.new_columns)
    return bool(one.adds or one.new_columns)


def complete_tables(
    lake: Lake, ledger: Ledger, settings: SourceSettings, schemas: Iterable[TableSchema]
) -> dict[str, CatalogTable]:
    """Build the catalog entries of tables, by table, with all partitions that have live files."""
    files = ledger.list_live_files()
    return {
        schema.name: catalog_table(
            lake, settings, schema, (file.partition for file in files.get(schema.name, ()))
        )
        for schema in schemas
    }


def catalog_table(
    lake: Lake, settings: SourceSettings, schema: TableSchema, partitions: Iterable[Partition]
) -> CatalogTable:
    """Build the catalog entry of a table; partitions may be named several times.

    It has none if the table format needs none in the catalog. Registers nothing.
    """
    unique = dict.fromkeys(tuple(one.items()) for one in partitions)
    return CatalogTable(
        database=settings.database,
        name=catalog_name(settings, schema),
        source=settings.source,
        location=table_path(lake.layout, settings, schema),
        columns=schema.columns,
        partition_columns=settings.date_partition.columns,
        partitions=tuple(map(dict, unique)) if lake.format.needs_partitions else (),
        format=lake.format.name,
    )


def reports_table(lake: Lake, settings: SourceSettings, *days: str) -> CatalogTable:
    """Build the catalog entry of the sync reports, with a source's partitions of these days."""
    return CatalogTable(
        database=report.DATABASE,
        name=report.TABLE,
        source=settings.folder,
        location=lake.layout.sync_reports,
        columns=tuple(Column(name=name, type=kind) for name, kind in report.COLUMNS.items()),
        partition_columns=report.PARTITIONS,
        partitions=tuple({"source_id": settings.source_id, "day": day} for day in days),
        format="json",
    )
