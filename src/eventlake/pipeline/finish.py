"""What follows a commit: publish, register, report, clean. Each may be done again after a crash."""

from collections.abc import Iterator
from dataclasses import dataclass

from eventlake.errors import EventLakeError
from eventlake.ledger import Ledger, remove_stage
from eventlake.model import report
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import Commit, Move, TableCommit
from eventlake.model.layout import REPORTS, report_path, run_day, table_path
from eventlake.model.report import Problems, now, report_lines, to_lines
from eventlake.model.schema import Column
from eventlake.ports import Catalog, Progress, TableFormat
from eventlake.stores import Store


@dataclass(frozen=True)
class Lake:
    """Everything that a run needs of a lake."""

    store: Store
    catalog: Catalog
    format: TableFormat


@dataclass(frozen=True)
class Finished:
    """How a commit was carried out."""

    problems: Problems
    report: str


def finish(lake: Lake, commit: Commit, progress: Progress) -> Finished:
    """Carry out a commit; a table that fails is left for the next run, the others go on."""
    problems = Problems()
    publish(lake, commit, problems, progress)
    register(lake, commit, problems, progress)
    return Finished(problems, write_report(lake, commit, problems, progress))


def publish(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> None:
    """Bring every staged file to its place, the index and the quarantine first."""
    total = len(commit.moves)
    done = 0
    for table, moves in _moves_by_table(commit):
        try:
            for move in moves:
                progress.step("publish", done, total, 0)
                lake.format.publish([move])
                done += 1
        except EventLakeError as problem:
            problems[table] = (str(problem), problem.code)
    progress.step("publish", done, total, 0)


def _moves_by_table(commit: Commit) -> Iterator[tuple[str, list[Move]]]:
    owners = {file.path: done.table.name for done in commit.tables for file in done.files}
    moves: dict[str, list[Move]] = {"": []}
    for move in commit.moves:
        moves.setdefault(owners.get(move.final, ""), []).append(move)
    yield from moves.items()


def register(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> None:
    """Tell the catalog of new tables, columns and partitions."""
    wanted = [done for done in commit.tables if done.files or done.new_columns]
    if wanted:
        lake.catalog.database(commit.settings.database)
    for number, done in enumerate(wanted):
        progress.step("register", number, len(wanted), 0)
        if done.table.name in problems:
            continue
        try:
            _register(lake, commit, done)
        except EventLakeError as problem:
            problems[done.table.name] = (str(problem), problem.code)
    try:
        _register_reports(lake, commit)
    except EventLakeError as problem:
        problems[report.TABLE] = (str(problem), problem.code)
    progress.step("register", len(wanted), len(wanted), 0)


def _register(lake: Lake, commit: Commit, done: TableCommit) -> None:
    settings = commit.settings
    table = CatalogTable(
        database=settings.database,
        name=done.table.name,
        source=settings.source,
        location=table_path(settings.folder, done.table.name),
        columns=done.table.columns,
        partition_columns=settings.date_partition.columns,
    )
    if lake.catalog.table(table.database, table.name) is None:
        lake.catalog.create(table)
    lake.catalog.add_columns(table, table.columns)
    if lake.format.needs_partitions:
        lake.catalog.add_partitions(table, done.partitions)


def write_report(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> str:
    progress.step("report", 0, 1, 0)
    path = report_path(commit.settings.folder, commit.run_id)
    lake.store.write(path, to_lines(report_lines(commit, now(), problems)))
    progress.step("report", 1, 1, 0)
    return path


def _register_reports(lake: Lake, commit: Commit) -> None:
    """The reports are a table too."""
    table = CatalogTable(
        database=report.DATABASE,
        name=report.TABLE,
        source="",
        location=REPORTS,
        columns=tuple(Column(name=name, type=kind) for name, kind in report.COLUMNS.items()),
        partition_columns=report.PARTITIONS,
        format="json",
    )
    lake.catalog.database(table.database)
    if lake.catalog.table(table.database, table.name) is None:
        lake.catalog.create(table)
    partition = {"source_id": commit.settings.source_id, "day": run_day(commit.run_id)}
    lake.catalog.add_partitions(table, [partition])


def clean(lake: Lake, ledger: Ledger, commit: Commit, progress: Progress) -> None:
    """Remove the stages of this run and of those that were found dead."""
    progress.step("clean", 0, 1, 0)
    ledger.snapshot()
    for run_id in (*commit.abandons, commit.run_id):
        remove_stage(lake.store, run_id)
    progress.step("clean", 1, 1, 0)
