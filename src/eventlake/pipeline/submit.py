"""Run a sync elsewhere: submit its plan as a job, wait for it, read back the result.

The stage belongs to the submitter until the job takes it over, and then to the job. The job's
object in the stage says that the run is wanted: without it, a job neither begins nor commits.
"""

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from eventlake.clock import Clock
from eventlake.errors import EventLakeError, Internal, InvalidSettings
from eventlake.ledger import Lease, Ledger, is_running, lease_path, list_staged_runs, read_lease
from eventlake.model.commit import Commit
from eventlake.model.job import Job, JobState, Phase, Step, SubmittedJob
from eventlake.model.layout import Layout
from eventlake.model.report import FAILED, Line, Problems
from eventlake.pipeline.finish import FinishResult, clean_up, finish_commit
from eventlake.pipeline.sync import Run, fail_run
from eventlake.pipeline.table_format import check_tables
from eventlake.ports import JobRunner, Progress


@dataclass(frozen=True)
class SubmitterLease:
    """The submitter's lease of a stage, until the job replaces it with its own."""

    ledger: Ledger
    run_id: str
    lease: Lease

    @property
    def path(self) -> str:
        """The path of the lease in the stage, the same for submitter and job."""
        return lease_path(self.ledger.layout, self.run_id)

    def write(self) -> None:
        """Write the lease into the stage, whether there is one or not."""
        self.ledger.store.write(self.path, self.lease.to_json())

    def renew(self) -> None:
        """Renew the lease, unless the job has taken the stage over or removed it."""
        if not self.is_held:  # an update of an object on disk would recreate its folder
            return
        mine = self.lease.to_json()
        self.ledger.store.update(self.path, lambda data: mine if data == mine else None)

    def take_over(self, previous: Lease) -> None:
        """Replace the lease of a submitter that has died; another lease stays."""
        old, mine = previous.to_json(), self.lease.to_json()
        if read_lease(self.ledger, self.run_id) == previous:
            self.ledger.store.update(self.path, lambda data: mine if data == old else None)

    @property
    def is_held(self) -> bool:
        """Whether the job has not yet taken the stage over; False also if the stage is gone."""
        return read_lease(self.ledger, self.run_id) == self.lease


def submit_run(run: Run, runner: JobRunner) -> tuple[Commit, FinishResult]:
    """Execute a run with a runner and wait for it; returns and raises what `sync` would.

    An error of the runner while waiting leaves the job running, and its message says so. An
    interrupt cancels the job.
    """
    lease = _own_lease(run.ledger, run.plan.run_id)
    own = lease.lease
    try:
        check_tables(run.lake, run.plan)
        with run.time_step("submit"):
            lease.write()
            write_job(run)
            name = f"eventlake {run.plan.settings.source} {run.plan.run_id}"
            handle = runner.submit(name, job_path(run))
    except BaseException as problem:
        fail_run(run, problem)
        raise
    with suppress(EventLakeError):  # without it, only another process cannot follow the job
        _write_handle(run, SubmittedJob(handle=handle, host=own.host, pid=own.pid))
    return _follow_job(run, runner, handle, lease)


def attach_run(run: Run, runner: JobRunner, submitted: SubmittedJob) -> tuple[Commit, FinishResult]:
    """Wait for a job whose submitter has died; returns and raises what `submit_run` would.

    The stage stays this process's until the job takes it over, if it has not.
    """
    lease = take_stage(run.ledger, run.plan.run_id, submitted)
    own = lease.lease
    _write_handle(run, SubmittedJob(handle=submitted.handle, host=own.host, pid=own.pid))
    return _follow_job(run, runner, submitted.handle, lease)


def take_stage(ledger: Ledger, run_id: str, submitted: SubmittedJob) -> SubmitterLease:
    """Make a stage this process's, unless the job has taken it over from its dead submitter."""
    lease = _own_lease(ledger, run_id)
    lease.take_over(Lease(folder=ledger.folder, host=submitted.host, pid=submitted.pid))
    return lease


def _own_lease(ledger: Ledger, run_id: str) -> SubmitterLease:
    own = Lease(folder=ledger.folder, host=socket.gethostname(), pid=os.getpid())
    return SubmitterLease(ledger, run_id, own)


def find_detached_jobs(ledger: Ledger) -> dict[str, SubmittedJob]:
    """The jobs of a source whose submitter was on this machine and has died, by run."""
    found = {}
    for run_id in list_staged_runs(ledger):
        path = _handle_path(ledger.layout.stage_path(run_id))
        if not ledger.store.exists(path):
            continue
        job = SubmittedJob.from_json(ledger.store.read(path))
        if job.host == socket.gethostname() and not is_running(job.pid):
            found[run_id] = job
    return found


def read_stored_job(ledger: Ledger, run_id: str) -> Job | None:
    """The job in the stage of a run; None if it was cancelled."""
    path = job_path_of(ledger.layout, run_id)
    return Job.from_json(ledger.store.read(path)) if ledger.store.exists(path) else None


def _handle_path(stage: str) -> str:
    return f"{stage}/submitted.json"


def _write_handle(run: Run, submitted: SubmittedJob) -> None:
    run.lake.store.write(_handle_path(run.stage), submitted.to_json())


def _follow_job(
    run: Run, runner: JobRunner, handle: str, lease: SubmitterLease
) -> tuple[Commit, FinishResult]:
    """Wait for a job and return its result; see `submit_run` for errors and interrupts."""
    try:
        state = wait_for_job(runner, handle, lease, run.progress, run.lake.clock)
    except EventLakeError as problem:
        raise type(problem)(f"{problem}; the job {handle} was not cancelled") from problem
    except BaseException as problem:
        cancel_job(run, runner, handle, lease, problem)
        raise
    return collect_result(run, runner, handle, lease, state)


def job_path(run: Run) -> str:
    """The path of the run's job; deleting this object cancels the run."""
    return job_path_of(run.lake.layout, run.plan.run_id)


def job_path_of(layout: Layout, run_id: str) -> str:
    """The path of the job of a run."""
    return f"{layout.stage_path(run_id)}/job.json"


def write_job(run: Run) -> None:
    """Write the run's plan and dead runs into the stage, as the job to submit."""
    job = Job(plan=run.plan, dead=run.dead)
    run.lake.store.write(job_path(run), job.to_json())


def wait_for_job(
    runner: JobRunner, handle: str, lease: SubmitterLease, progress: Progress, clock: Clock
) -> JobState:
    """Wait until a job has ended, well or not, and return its final state.

    Reports its steps to `progress`, and renews the lease so that other runs do not treat the
    waiting run as dead. Raises the runner's errors.
    """
    while not (state := runner.state(handle)).is_over:
        progress.step(*(state.step or Step(state.phase)))
        lease.renew()
        clock.sleep(runner.poll_seconds)
    return state


def cancel_job(
    run: Run, runner: JobRunner, handle: str, lease: SubmitterLease, problem: BaseException
) -> None:
    """Delete the job's object and cancel the job; fail the run if the job has not begun.

    A job that the runner cannot cancel stops when it finds its object deleted. Errors of these
    steps are ignored, so that the caller can raise `problem`.
    """
    with suppress(EventLakeError):
        run.lake.store.delete([job_path(run)])
    with suppress(EventLakeError):
        runner.cancel(handle)
    with suppress(EventLakeError):
        if lease.is_held:  # a job that has begun cleans up itself
            fail_run(run, problem)


def collect_result(
    run: Run, runner: JobRunner, handle: str, lease: SubmitterLease, state: JobState
) -> tuple[Commit, FinishResult]:
    """Read the result of an ended job from ledger and report, whatever its final state.

    Finishes a commit that has no report. Without a commit, raises the job's error, and fails the
    run if the job never took the stage over.
    """
    sequence = run.ledger.find_sequence(run.plan.run_id, run.ledger.read_state())
    report = read_report(run)
    if sequence is None:
        problem = job_error(report, runner, handle, state)
        if lease.is_held:
            fail_run(run, problem)
        raise problem
    commit = run.ledger.read_commit(sequence)
    if report is not None:
        return commit, FinishResult(_read_problems(report), run.report)
    finished = finish_commit(run.lake, sequence, commit, run.progress)
    clean_up(run.lake, sequence, commit, finished, run.progress)
    return commit, finished


def read_report(run: Run) -> list[Line] | None:
    """Read the lines of the run's report; None if there is none."""
    try:
        text = run.lake.store.read(run.report).decode()
    except InvalidSettings:
        return None
    return [json.loads(line) for line in text.splitlines()]


def _read_problems(report: list[Line]) -> Problems:
    """Return the errors by table from the lines of a report."""
    failed = [line for line in report if "error" in line]
    return Problems({line["table_name"]: (line["error"], line["error_code"]) for line in failed})


def job_error(
    report: list[Line] | None, runner: JobRunner, handle: str, state: JobState
) -> EventLakeError:
    """Return the error of a job that committed nothing: that of its report, or `Internal`.

    `Internal` names the job's log. Without a failure report, its text has the job's final state.
    """
    if report and report[0]["status"] == FAILED:
        error, message = _error_class(report[0]["error_code"]), str(report[0]["error"])
        if error is not Internal:
            return error(message)
        return Internal(f"{message}; the log of {handle} is {runner.log(handle)}")
    ended = "ended" if state.phase is Phase.ENDED else f"failed ({state.reason})"
    return Internal(
        f"the job {ended} without a commit or a report; the log of {handle} is {runner.log(handle)}"
    )


def _error_class(code: str) -> type[EventLakeError]:
    """The error class with this code; `Internal` if it is unknown."""
    return {error.code: error for error in EventLakeError.__subclasses__()}.get(code, Internal)
