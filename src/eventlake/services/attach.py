"""Follow jobs whose submitter died, such as a process that was restarted."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from eventlake.errors import EventLakeError
from eventlake.ledger import Ledger
from eventlake.pipeline.submit import attach_run, find_detached_jobs, read_stored_job
from eventlake.pipeline.sync import Run
from eventlake.ports import JobRunner


def attach_jobs(
    ledger: Ledger,
    make_run: Callable[..., Run],
    open_runner: Callable[[], AbstractContextManager[JobRunner] | None],
) -> None:
    """Wait for jobs of a source that a process of this machine submitted before it died.

    How they ended is in their reports. Errors are ignored: the run that follows finds the same.
    """
    for run_id, submitted in find_detached_jobs(ledger).items():
        job, runner = read_stored_job(ledger, run_id), open_runner()
        if job is None or runner is None:  # it was cancelled, or runs are on this machine now
            continue
        with suppress(EventLakeError), runner as ready:
            attach_run(make_run(plan=job.plan, dead=job.dead), ready, submitted)
