"""What follows a commit: publish, register, report, clean. Each may be done again after a crash."""

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from eventlake.errors import EventLakeError
from eventlake.lake import Lake
from eventlake.ledger import Ledger, remove_stage
from eventlake.model import report
from eventlake.model.commit import Commit, Move
from eventlake.model.layout import report_path
from eventlake.model.report import Problems, now, report_lines, to_lines
from eventlake.pipeline.parallel import run_per_table
from eventlake.pipeline.register import register
from eventlake.ports import Progress


@dataclass(frozen=True)
class Finished:
    """How a commit was carried out."""

    problems: Problems
    report: str
    notes: tuple[str, ...] = ()
    """What a user should know of and the next run need not do again."""


def finish(lake: Lake, commit: Commit, progress: Progress) -> Finished:
    """Carry out a commit; a table that fails is left for the next run, the others go on."""
    problems = Problems()
    publish(lake, commit, problems, progress)
    notes = register(lake, commit, problems, progress)
    return Finished(problems, write_report(lake, commit, problems, progress), notes)


def publish(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> None:
    """Move every staged file to its final path, the index and the quarantine first."""
    owners = {file.path: done.table.name for done in commit.tables for file in done.files}
    moves: defaultdict[str, list[Move]] = defaultdict(list)
    for move in commit.moves:
        moves[owners.get(move.final, "")].append(move)
    work = [(table, partial(lake.format.publish, files)) for table, files in moves.items()]
    run_per_table("publish", work, problems, progress)


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
    lake: Lake, ledger: Ledger, commit: Commit, finished: Finished, progress: Progress
) -> None:
    """Remove the stages of this run and of those it found dead, once all else is done.

    A stage that cannot be removed is a problem, and the next run tries again.
    """
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
