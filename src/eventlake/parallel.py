"""Work for many tables in parallel, where a failure does not stop the other tables."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from eventlake.errors import EventLakeError
from eventlake.ports import Progress

MAX_REQUESTS = 16
"""Parallel requests to a store or catalog."""

TableWork = tuple[str, Callable[[], None]]
"""A table's name, and the function to call for it."""


def run_per_table(
    stage: str, work: Sequence[TableWork], progress: Progress
) -> dict[str, EventLakeError]:
    """Call all functions, several at a time; return the errors by table."""
    errors: dict[str, EventLakeError] = {}
    progress.step(stage, 0, len(work), 0)
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        tables = {pool.submit(function): table for table, function in work}
        for number, future in enumerate(as_completed(tables), 1):
            try:
                future.result()
            except EventLakeError as problem:
                errors[tables[future]] = problem
            progress.step(stage, number, len(work), 0)
    return errors
