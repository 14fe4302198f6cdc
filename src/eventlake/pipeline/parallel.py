"""Work for many tables at a time, such that one that fails does not stop the others."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from eventlake.errors import EventLakeError
from eventlake.model.report import Problems
from eventlake.ports import Progress

MAX_REQUESTS = 16
"""Requests to the store or the catalog at a time: they mostly wait."""

TableWork = tuple[str, Callable[[], None]]
"""A table, and something to do for it."""


def run_per_table(
    stage: str, work: Sequence[TableWork], problems: Problems, progress: Progress
) -> None:
    """Do all of the work, several tables at a time; add what fails to `problems` by table."""
    progress.step(stage, 0, len(work), 0)
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        tables = {pool.submit(job): table for table, job in work}
        for number, done in enumerate(as_completed(tables), 1):
            try:
                done.result()
            except EventLakeError as problem:
                problems[tables[done]] = (str(problem), problem.code)
            progress.step(stage, number, len(work), 0)
