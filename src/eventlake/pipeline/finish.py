"""What follows a commit: publish, register, report, clean. Each may be done again after a crash."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial

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
    workspace: str = ""
    """The workspace that the lake belongs to, when its settings say so."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What reports tell of the lake itself."""


AT_ONCE = 16
"""Requests to the store or the catalog that are under way at a time: they mostly wait."""

Job = tuple[str, Callable[[], None]]
"""A table, and something to be done for it."""


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
    owners = {file.path: done.table.name for done in commit.tables for file in done.files}
    moves: defaultdict[str, list[Move]] = defaultdict(list)
    for move in commit.moves:
        moves[owners.get(move.final, "")].append(move)
    jobs = [(table, partial(lake.format.publish, found)) for table, found in moves.items()]
    _carry_out("publish", jobs, problems, progress)


def register(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> None:
    """Tell the catalog of new tables, columns and partitions."""
    wanted = [done for done in commit.tables if done.files or done.new_columns]
    if wanted:
        try:
            lake.catalog.database(commit.settings.database)
        except EventLakeError as problem:
            noted = (str(problem), problem.code)
            problems.update({done.table.name: noted for done in wanted} | problems)
    jobs = [
        (done.table.name, partial(_register, lake, commit, done))
        for done in wanted
        if done.table.name not in problems
    ]
    jobs.append((report.TABLE, partial(_register_reports, lake, commit)))
    _carry_out("register", jobs, problems, progress)


def _carry_out(stage: str, jobs: Sequence[Job], problems: Problems, progress: Progress) -> None:
    """Do jobs, several at a time; what fails is noted with the table it was for."""
    progress.step(stage, 0, len(jobs), 0)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tables = {pool.submit(work): table for table, work in jobs}
        for number, done in enumerate(as_completed(tables), 1):
            try:
                done.result()
            except EventLakeError as problem:
                problems[tables[done]] = (str(problem), problem.code)
            progress.step(stage, number, len(jobs), 0)


def _register(lake: Lake, commit: Commit, done: TableCommit) -> None:
    settings = commit.settings
    table = CatalogTable(
        database=settings.database,
        name=done.table.name,
        source=settings.source,
        location=table_path(settings.folder, done.table.name),
        columns=done.table.columns,
        partition_columns=settings.date_partition.columns,
        partitions=done.partitions if lake.format.needs_partitions else (),
    )
    if done.is_new:
        lake.catalog.create(table)
        return
    # Whoever left a column unregistered has its own commit to finish: none has to be looked for.
    if done.new_columns:
        lake.catalog.add_columns(table, table.columns)
    if table.partitions:
        lake.catalog.add_partitions(table, table.partitions)


def write_report(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> str:
    """Where the report is; one that cannot be written is left for the next run too."""
    progress.step("report", 0, 1, 0)
    path = report_path(commit.settings.folder, commit.run_id)
    try:
        lake.store.write(path, to_lines(report_lines(commit, now(), problems, lake.facts)))
    except EventLakeError as problem:
        problems.setdefault(report.TABLE, (str(problem), problem.code))
        path = ""
    progress.step("report", 1, 1, 0)
    return path


def _register_reports(lake: Lake, commit: Commit) -> None:
    """The reports are a table too."""
    table = CatalogTable(
        database=report.DATABASE,
        name=report.TABLE,
        source=commit.settings.folder,
        location=REPORTS,
        columns=tuple(Column(name=name, type=kind) for name, kind in report.COLUMNS.items()),
        partition_columns=report.PARTITIONS,
        partitions=({"source_id": commit.settings.source_id, "day": run_day(commit.run_id)},),
        format="json",
    )
    lake.catalog.database(table.database)
    lake.catalog.create(table)


def clean(
    lake: Lake, ledger: Ledger, commit: Commit, finished: Finished, progress: Progress
) -> None:
    """Remove the stages of this run and of those that were found dead, once nothing is left in
    them to be done; what may not be removed is noted, and the next run tries it again."""
    if finished.problems:
        return
    progress.step("clean", 0, 1, 0)
    try:
        ledger.snapshot()
        for run_id in (*commit.abandons, commit.run_id):
            remove_stage(lake.store, run_id)
    except EventLakeError as problem:
        finished.problems[""] = (str(problem), problem.code)
    progress.step("clean", 1, 1, 0)
