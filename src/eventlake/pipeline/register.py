"""Register new tables, columns and partitions in the catalog, as the ledger has them."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from eventlake.errors import EventLakeError, InvalidSettings, MissingTable
from eventlake.lake import Lake
from eventlake.ledger import Ledger
from eventlake.ledger.files import LiveFile
from eventlake.model import report
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import Commit, TableCommit
from eventlake.model.layout import SYNC_REPORTS, run_day, table_path
from eventlake.model.naming import catalog_name
from eventlake.model.report import Problems
from eventlake.model.schema import Column, TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.pipeline.parallel import TableWork, run_per_table
from eventlake.ports import Progress

Partition = Mapping[str, str]


class PartitionHistory:
    """All partitions of a source's tables, read from the ledger on first use."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._partitions: dict[str, list[Partition]] | None = None

    def partitions(self, table: str) -> Sequence[Partition]:
        with self._lock:
            if self._partitions is None:
                live = self._ledger.list_live_files()
                self._partitions = {
                    table: _unique_partitions(files) for table, files in live.items()
                }
        return self._partitions.get(table, ())


def _unique_partitions(files: Iterable[LiveFile]) -> list[Partition]:
    """The distinct partitions of files."""
    unique = dict.fromkeys(tuple(file.partition.items()) for file in files)
    return [dict(items) for items in unique]


def register(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> tuple[str, ...]:
    """Register what a commit added, or all tables with all partitions if their names changed.

    Errors are added to `problems` by table. Returns messages for the user that need no retry.
    """
    ledger = Ledger(lake.store, commit.settings.folder)
    history = PartitionHistory(ledger)
    if commit.renamed:
        schemas = ledger.read_state().tables.values()
        work = [(one.name, partial(_register_all, lake, commit, one, history)) for one in schemas]
    else:
        work = [
            (one.table.name, partial(_register_change, lake, commit, one, history))
            for one in commit.tables
            if one.adds or one.new_columns
        ]
    if work:
        try:
            lake.catalog.database(commit.settings.database)
        except EventLakeError as problem:
            refusal = (str(problem), problem.code)
            problems.update({table: refusal for table, _ in work} | problems)
    remaining: list[TableWork] = [one for one in work if one[0] not in problems]
    notes: list[str] = []
    remaining.append((report.TABLE, partial(_register_reports, lake, commit, notes)))
    run_per_table("register", remaining, problems, progress)
    return tuple(notes)


def _register_change(
    lake: Lake, commit: Commit, change: TableCommit, history: PartitionHistory
) -> None:
    table = catalog_table(lake, commit.settings, change.table, change.partitions)
    if change.is_new:
        lake.catalog.create(table)
        return
    try:
        # Columns that another run has not registered are registered when its commit is finished.
        if change.new_columns:
            lake.catalog.add_columns(table, table.columns)
        if table.partitions:
            lake.catalog.add_partitions(table, table.partitions)
    except MissingTable:  # dropped by hand, so earlier partitions are missing too
        _register_all(lake, commit, change.table, history)


def _register_all(
    lake: Lake, commit: Commit, schema: TableSchema, history: PartitionHistory
) -> None:
    partitions = history.partitions(schema.name)
    lake.catalog.create(catalog_table(lake, commit.settings, schema, partitions))


def catalog_table(
    lake: Lake, settings: SourceSettings, schema: TableSchema, partitions: Iterable[Partition]
) -> CatalogTable:
    """Build the catalog entry of a table."""
    return CatalogTable(
        database=settings.database,
        name=catalog_name(schema.name, settings.table_prefix),
        source=settings.source,
        location=table_path(settings.folder, schema.name),
        columns=schema.columns,
        partition_columns=settings.date_partition.columns,
        partitions=tuple(map(dict, partitions)) if lake.format.needs_partitions else (),
    )


def _register_reports(lake: Lake, commit: Commit, notes: list[str]) -> None:
    """Register the report's partition; all lakes that use the catalog share the table."""
    table = reports_table(commit.settings, run_day(commit.run_id))
    lake.catalog.database(table.database)
    try:
        lake.catalog.create(table)
    except InvalidSettings as problem:  # another program's table: a retry would not help
        notes.append(f"the sync report is not registered in the catalog: {problem}")


def reports_table(settings: SourceSettings, *days: str) -> CatalogTable:
    """Build the catalog entry of the sync reports with a source's partitions of these days."""
    return CatalogTable(
        database=report.DATABASE,
        name=report.TABLE,
        source=settings.folder,
        location=SYNC_REPORTS,
        columns=tuple(Column(name=name, type=kind) for name, kind in report.COLUMNS.items()),
        partition_columns=report.PARTITIONS,
        partitions=tuple({"source_id": settings.source_id, "day": day} for day in days),
        format="json",
    )
