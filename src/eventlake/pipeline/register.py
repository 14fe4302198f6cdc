"""Register: tell the catalog of new tables, columns and partitions, as the ledger has them."""

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
from eventlake.model.layout import REPORTS, run_day, table_path
from eventlake.model.naming import catalog_name
from eventlake.model.report import Problems
from eventlake.model.schema import Column, TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.pipeline.parallel import TableWork, run_per_table
from eventlake.ports import Progress

Partition = Mapping[str, str]


class History:
    """Every partition that a source's tables have, read from the ledger when first needed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._partitions: dict[str, list[Partition]] | None = None

    def partitions(self, table: str) -> Sequence[Partition]:
        with self._lock:
            if self._partitions is None:
                live = self._ledger.live_files()
                self._partitions = {table: _partitions(files) for table, files in live.items()}
        return self._partitions.get(table, ())


def _partitions(files: Iterable[LiveFile]) -> list[Partition]:
    """The partitions of files, each once."""
    unique = dict.fromkeys(tuple(file.partition.items()) for file in files)
    return [dict(items) for items in unique]


def register(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> tuple[str, ...]:
    """Register what a commit added; all tables with their history when their names changed.

    Returns what a user should know of and the next run need not do again.
    """
    ledger = Ledger(lake.store, commit.settings.folder)
    history = History(ledger)
    if commit.renamed:
        schemas = ledger.state().tables.values()
        work = [(one.name, partial(_register_all, lake, commit, one, history)) for one in schemas]
    else:
        changed = [done for done in commit.tables if done.adds or done.new_columns]
        work = [
            (done.table.name, partial(_register_change, lake, commit, done, history))
            for done in changed
        ]
    if work:
        try:
            lake.catalog.database(commit.settings.database)
        except EventLakeError as problem:
            refusal = (str(problem), problem.code)
            problems.update({table: refusal for table, _ in work} | problems)
    jobs: list[TableWork] = [(table, job) for table, job in work if table not in problems]
    notes: list[str] = []
    jobs.append((report.TABLE, partial(_register_reports, lake, commit, notes)))
    run_per_table("register", jobs, problems, progress)
    return tuple(notes)


def _register_change(lake: Lake, commit: Commit, done: TableCommit, history: History) -> None:
    table = catalog_table(lake, commit.settings, done.table, done.partitions)
    if done.is_new:
        lake.catalog.create(table)
        return
    try:
        # A run that left a column unregistered finishes its own commit: none has to be looked for.
        if done.new_columns:
            lake.catalog.add_columns(table, table.columns)
        if table.partitions:
            lake.catalog.add_partitions(table, table.partitions)
    except MissingTable:  # dropped by hand: with this commit's partitions alone it would lack rows
        _register_all(lake, commit, done.table, history)


def _register_all(lake: Lake, commit: Commit, schema: TableSchema, history: History) -> None:
    partitions = history.partitions(schema.name)
    lake.catalog.create(catalog_table(lake, commit.settings, schema, partitions))


def catalog_table(
    lake: Lake, settings: SourceSettings, schema: TableSchema, partitions: Iterable[Partition]
) -> CatalogTable:
    """A table as the catalog should have it."""
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
    """Register the report's partition; the table serves every lake that uses the catalog."""
    table = reports_table(commit.settings, run_day(commit.run_id))
    lake.catalog.database(table.database)
    try:
        lake.catalog.create(table)
    except InvalidSettings as problem:  # somebody else's table: nothing that a run could finish
        notes.append(f"the sync report is not registered in the catalog: {problem}")


def reports_table(settings: SourceSettings, *days: str) -> CatalogTable:
    """The table of sync reports with a source's partitions of these days."""
    return CatalogTable(
        database=report.DATABASE,
        name=report.TABLE,
        source=settings.folder,
        location=REPORTS,
        columns=tuple(Column(name=name, type=kind) for name, kind in report.COLUMNS.items()),
        partition_columns=report.PARTITIONS,
        partitions=tuple({"source_id": settings.source_id, "day": day} for day in days),
        format="json",
    )
