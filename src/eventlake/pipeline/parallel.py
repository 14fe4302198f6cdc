"""Work for many tables in parallel, where a failure does not stop the other tables."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from eventlake.errors import EventLakeError
from eventlake.model.report import Problems
from eventlake.ports import Progress

MAX_REQUESTS = 16
"""Parallel requests to a store or catalog."""

TableWork = tuple[str, Callable[[], None]]
"""A table's name, and the function to call for it."""


def run_per_table(
    stage: str, work: Sequence[TableWork], problems: Problems, progress: Progress
) -> None:
    """Call all functions, several at a time; add their errors to `problems` by table."""
    progress.step(stage, 0, len(work), 0)
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        tables = {pool.submit(function): table for table, function in work}
        for number, future in enumerate(as_completed(tables), 1):
            try:
                future.result()
            except EventLakeError as problem:
                problems[tables[future]] = (str(problem), problem.code)
            progress.step(stage, number, len(work), 0)
