"""Follow jobs on clusters whose submitter is gone, by the handles that it stored."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from eventlake.errors import Cancelled, EventLakeError, Internal
from eventlake.lake import Lake
from eventlake.ledger import Ledger
from eventlake.model.job import Phase, SubmittedJob
from eventlake.pipeline.finish import clean_up, finish_commit
from eventlake.pipeline.submit import (
    attach_run,
    find_detached_jobs,
    job_path_of,
    read_stored_job,
    take_stage,
    wait_for_job,
)
from eventlake.pipeline.sync import Run
from eventlake.ports import JobRunner, NoProgress, Progress
from eventlake.services.judge import Judgement, Verdict, read_report


@dataclass(frozen=True)
class LostRun:
    """A run that was submitted as a job by a process that is gone."""

    folder: str
    """That of its source."""
    run_id: str
    job: SubmittedJob


def follow_detached_jobs(
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


def follow_job(
    parts: Lake, runner: JobRunner, run: LostRun, progress: Progress
) -> tuple[Judgement, EventLakeError | None]:
    """Wait for the end of a job, and judge its run; finish the run if it has committed.

    While the job waits on the cluster, its stage belongs to this process. If `progress` raises
    Cancelled, the job is cancelled. Returns an error with the state of a job that has neither
    committed nor written a report. Raises the runner's errors.
    """
    ledger, handle = parts.ledger(run.folder), run.job.handle
    lease = take_stage(ledger, run.run_id, run.job)
    try:
        state = wait_for_job(runner, handle, lease, progress, parts.clock)
    except Cancelled:
        with suppress(EventLakeError):
            parts.store.delete([job_path_of(parts.layout, run.run_id)])
        runner.cancel(handle)
        state = wait_for_job(runner, handle, lease, NoProgress(), parts.clock)
    if report := read_report(parts, run.folder, run.run_id):
        return Judgement(verdict=Verdict.ENDED, report=report), None
    sequence = ledger.find_sequence(run.run_id, ledger.read_state())
    if sequence is None:
        ended = "ended" if state.phase is Phase.ENDED else f"failed ({state.reason})"
        log = runner.log(handle)
        problem = Internal(f"the job {ended} without a commit or a report; its log is {log}")
        return Judgement(verdict=Verdict.GONE), problem
    commit = ledger.read_commit(sequence)
    finished = finish_commit(parts, sequence, commit, progress)
    clean_up(parts, sequence, commit, finished, progress)
    report = read_report(parts, run.folder, run.run_id)
    return Judgement(verdict=Verdict.ENDED, report=report), None
