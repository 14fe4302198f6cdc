"""What follows a commit: publish, register, report, clean. Each may be done again after a crash."""

from dataclasses import dataclass
from functools import partial

from eventlake.errors import EventLakeError
from eventlake.lake import Lake
from eventlake.ledger import Ledger, remove_stage
from eventlake.model import report
from eventlake.model.commit import Commit, TableChange, TableCommit, Transaction
from eventlake.model.layout import report_path, table_path
from eventlake.model.report import Problems, now, report_lines, to_lines
from eventlake.pipeline.parallel import TableWork, run_per_table
from eventlake.pipeline.register import register
from eventlake.ports import Progress


@dataclass(frozen=True)
class Finished:
    """How a commit was carried out."""

    problems: Problems
    report: str
    notes: tuple[str, ...] = ()
    """What a user should know of and the next run need not do again."""


def finish(lake: Lake, sequence: int, commit: Commit, progress: Progress) -> Finished:
    """Carry out a commit; a table that fails is left for the next run, the others go on."""
    problems = Problems()
    publish(lake, sequence, commit, problems, progress)
    notes = register(lake, commit, problems, progress)
    return Finished(problems, write_report(lake, commit, problems, progress), notes)


def publish(
    lake: Lake, sequence: int, commit: Commit, problems: Problems, progress: Progress
) -> None:
    """Put the id index, the quarantine and every table's files in place."""
    transaction = Transaction(
        source=commit.settings.folder, run_id=commit.run_id, sequence=sequence
    )
    work: list[TableWork] = [("", partial(_publish_own_files, lake, commit))]
    removed = _removed_since(lake, sequence, commit)
    for done in commit.tables:
        change = _change(commit, done, removed)
        if change.adds or change.removes or change.new_columns:
            work.append((done.table.name, partial(lake.format.publish, change, transaction)))
    run_per_table("publish", work, problems, progress)


def _publish_own_files(lake: Lake, commit: Commit) -> None:
    """Put what is no table's in place; the next run needs the index."""
    for ids in (*commit.ids, *(merge.file for merge in commit.merges)):
        lake.store.publish(ids.staged, ids.path)
    if commit.quarantine:
        lake.store.publish(commit.quarantine.staged, commit.quarantine.path)


def _removed_since(lake: Lake, sequence: int, commit: Commit) -> frozenset[str]:
    """Files of this commit that a later one has removed: a late publish must not restore them."""
    later = Ledger(lake.store, commit.settings.folder).since(sequence)
    files = (file for _, one in later for done in one.tables for file in done.removes)
    return frozenset(file.path for file in files)


def _change(commit: Commit, done: TableCommit, removed: frozenset[str]) -> TableChange:
    return TableChange(
        location=table_path(commit.settings.folder, done.table.name),
        table=done.table,
        partition_columns=commit.settings.date_partition.columns,
        new_columns=done.new_columns,
        adds=tuple(file for file in done.adds if file.path not in removed),
        removes=done.removes,
    )


def write_report(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> str:
    """Write the report and return its path; "" if it could not be written."""
    progress.step("report", 0, 1, 0)
    path = report_path(commit.settings.folder, commit.run_id)
    try:
        lake.store.write(path, to_lines(report_lines(commit, now(), problems, lake.facts)))
    except EventLakeError as problem:
        problems.setdefault(report.TABLE, (str(problem), problem.code))
        path = ""
    progress.step("report", 1, 1, 0)
    return path


def clean(
    lake: Lake, sequence: int, commit: Commit, finished: Finished, progress: Progress
) -> None:
    """Remove the stages of this run and of those it found dead, once all else is done.

    A stage that cannot be removed is a problem, and the next run tries again.
    """
    if finished.problems:
        return
    progress.step("clean", 0, 1, 0)
    try:
        Ledger(lake.store, commit.settings.folder).snapshot(sequence)
        lake.store.delete(commit.deletes)
        for run_id in (*commit.abandons, commit.run_id):
            remove_stage(lake.store, run_id)
    except EventLakeError as problem:
        finished.problems[""] = (str(problem), problem.code)
    progress.step("clean", 1, 1, 0)
