"""Follow a job on a cluster whose submitter is gone, by the handle that it stored."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from eventlake.errors import Cancelled, EventLakeError, Internal
from eventlake.lake import Lake
from eventlake.ledger import Lease, lease_path
from eventlake.model.job import JobState, Phase, Step
from eventlake.pipeline.finish import clean_up, finish_commit
from eventlake.pipeline.submit import job_path_of
from eventlake.ports import JobRunner, Progress
from eventlake.services.judge import Judgement, Verdict, read_report


@dataclass(frozen=True)
class SubmittedJob:
    """A run that was submitted as a job."""

    folder: str
    """That of its source."""
    run_id: str
    handle: str
    host: str
    pid: int
    """The process that submitted it."""


def follow_job(
    parts: Lake, runner: JobRunner, job: SubmittedJob, progress: Progress
) -> tuple[Judgement, EventLakeError | None]:
    """Wait for the end of a job, and judge its run; finish the run if it has committed.

    While the job waits on the cluster, its stage belongs to this process. If `progress` raises
    Cancelled, the job is cancelled. Returns an error with the state of a job that has neither
    committed nor written a report. Raises the runner's errors.
    """
    _take_stage(parts, job)
    try:
        state = _wait(parts, runner, job, progress)
    except Cancelled:
        with suppress(EventLakeError):
            parts.store.delete([job_path_of(parts.layout, job.run_id)])
        runner.cancel(job.handle)
        state = _wait(parts, runner, job, None)
    ledger = parts.ledger(job.folder)
    if report := read_report(parts, job.folder, job.run_id):
        return Judgement(verdict=Verdict.ENDED, report=report), None
    sequence = ledger.find_sequence(job.run_id, ledger.read_state())
    if sequence is None:
        ended = "ended" if state.phase is Phase.ENDED else f"failed ({state.reason})"
        log = runner.log(job.handle)
        problem = Internal(f"the job {ended} without a commit or a report; its log is {log}")
        return Judgement(verdict=Verdict.GONE), problem
    commit = ledger.read_commit(sequence)
    finished = finish_commit(parts, sequence, commit, progress)
    clean_up(parts, sequence, commit, finished, progress)
    report = read_report(parts, job.folder, job.run_id)
    return Judgement(verdict=Verdict.ENDED, report=report), None


def _wait(parts: Lake, runner: JobRunner, job: SubmittedJob, progress: Progress | None) -> JobState:
    while not (state := runner.state(job.handle)).is_over:
        if progress:
            progress.step(*(state.step or Step(state.phase)))
        _renew_stage(parts, job)
        parts.clock.sleep(runner.poll_seconds)
    return state


def _take_stage(parts: Lake, job: SubmittedJob) -> None:
    """Replace the lease of the submitter, unless the job has replaced it with its own."""
    path = lease_path(parts.layout, job.run_id)
    if not parts.store.exists(path):  # an update on disk would recreate its folder
        return
    theirs = Lease(folder=job.folder, host=job.host, pid=job.pid).to_json()
    parts.store.update(path, lambda data: _own_lease(job) if data == theirs else None)


def _renew_stage(parts: Lake, job: SubmittedJob) -> None:
    path, mine = lease_path(parts.layout, job.run_id), _own_lease(job)
    if parts.store.exists(path):
        parts.store.update(path, lambda data: mine if data == mine else None)


def _own_lease(job: SubmittedJob) -> bytes:
    return Lease(folder=job.folder, host=socket.gethostname(), pid=os.getpid()).to_json()
