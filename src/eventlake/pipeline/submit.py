"""A run that a cluster does: its plan is handed over, followed, and what came of it read back.

The stage is the submitter's until the job takes it over, and the job's from then on. The job's own
object in it says that the run is wanted: without it, a job does not begin, and does not commit.
"""

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from eventlake.errors import EventLakeError, Internal, InvalidSettings
from eventlake.ledger import Lease, lease_path, read_lease
from eventlake.model.commit import Commit
from eventlake.model.job import Job, JobState, Phase, job_path, suppressed_path
from eventlake.model.layout import report_path
from eventlake.model.report import FAILED, Line, Problems
from eventlake.pipeline.finish import Finished, clean, finish
from eventlake.pipeline.sync import Run, give_up
from eventlake.ports import JobRunner
from eventlake.stores import Store

EVERY = 5.0
"""Seconds between two looks at a job."""


@dataclass(frozen=True)
class Hold:
    """The submitter's lease of a stage, which ends when the job takes the stage over."""

    store: Store
    run_id: str
    lease: Lease

    def take(self) -> None:
        self.store.write(lease_path(self.run_id), self.lease.to_json())

    def renew(self) -> None:
        """Say that the run still waits; nothing when the stage is the job's, or gone with it."""
        mine = self.lease.to_json()
        self.store.update(lease_path(self.run_id), lambda known: mine if known == mine else None)

    @property
    def is_ours(self) -> bool:
        return read_lease(self.store, self.run_id) == self.lease


def submit(
    run: Run, cluster: JobRunner, sleep: Callable[[float], None] = time.sleep
) -> tuple[Commit, Finished]:
    """Have a cluster do a run; the end is the same as if it had been done here."""
    hold = _hold(run)
    try:
        with run.timed("submit"):
            hand_over(run, hold)
            name = f"eventlake {run.plan.settings.source} {run.plan.run_id}"
            handle = cluster.submit(name, job_path(run.plan.run_id))
    except BaseException as problem:
        give_up(run, problem)
        raise
    try:
        state = follow(run, cluster, handle, hold, sleep)
    except EventLakeError as problem:
        raise type(problem)(f"{problem}; the run itself goes on, as {handle}") from problem
    except BaseException as problem:
        recall(run, cluster, handle, hold, problem)
        raise
    return outcome(run, cluster, handle, hold, state)


def _hold(run: Run) -> Hold:
    here = Lease(folder=run.ledger.folder, host=socket.gethostname(), pid=os.getpid())
    return Hold(run.lake.store, run.plan.run_id, here)


def hand_over(run: Run, hold: Hold) -> None:
    """Put what the job needs into its stage, the job's own object last."""
    hold.take()
    run_id, suppressed = run.plan.run_id, ""
    if run.suppressed:
        suppressed = suppressed_path(run_id)
        run.lake.store.write(suppressed, json.dumps(sorted(run.suppressed)).encode())
    job = Job(plan=run.plan, dead=run.dead, suppressed=suppressed)
    run.lake.store.write(job_path(run_id), job.to_json())


def follow(
    run: Run, cluster: JobRunner, handle: str, hold: Hold, sleep: Callable[[float], None]
) -> JobState:
    """How a job ended; until it begins, its stage is kept from being taken for a dead one's."""
    while not (state := cluster.state(handle)).is_over:
        run.progress.step(state.phase, 0, 0, 0)
        hold.renew()
        sleep(EVERY)
    return state


def recall(run: Run, cluster: JobRunner, handle: str, hold: Hold, problem: BaseException) -> None:
    """Stop a job. What cannot be reached, such as a step's application, stops itself."""
    with suppress(EventLakeError):
        run.lake.store.delete([job_path(run.plan.run_id)])
    with suppress(EventLakeError):
        cluster.cancel(handle)
    with suppress(EventLakeError):
        if hold.is_ours:  # it has not begun; one that has cleans up itself
            give_up(run, problem)


def outcome(
    run: Run, cluster: JobRunner, handle: str, hold: Hold, state: JobState
) -> tuple[Commit, Finished]:
    """What the ledger and the report say of a job that has ended, whatever its cluster says."""
    sequence = run.ledger.sequence_of(run.plan.run_id, run.ledger.state())
    report = read_report(run)
    if sequence is None:
        problem = failure(report, cluster, handle, state)
        if hold.is_ours:
            give_up(run, problem)
        raise problem
    commit = run.ledger.commit(sequence)
    if report is None:
        return commit, _finished_here(run, sequence, commit)
    return commit, Finished(_problems(report), _report_path(run))


def _finished_here(run: Run, sequence: int, commit: Commit) -> Finished:
    """Carry out a commit whose job was stopped right after it."""
    finished = finish(run.lake, sequence, commit, run.progress)
    clean(run.lake, sequence, commit, finished, run.progress)
    return finished


def _report_path(run: Run) -> str:
    return report_path(run.plan.settings.folder, run.plan.run_id)


def read_report(run: Run) -> list[Line] | None:
    try:
        text = run.lake.store.read(_report_path(run)).decode()
    except InvalidSettings:  # there is none
        return None
    return [json.loads(line) for line in text.splitlines()]


def _problems(report: list[Line]) -> Problems:
    """What went wrong by table, the run's own line first."""
    told = [line for line in report if "error" in line]
    return Problems({line["table_name"]: (line["error"], line["error_code"]) for line in told})


def failure(
    report: list[Line] | None, cluster: JobRunner, handle: str, state: JobState
) -> EventLakeError:
    """The error of a job that committed nothing, as it would be raised here."""
    if report and report[0]["status"] == FAILED:
        kind, message = _kind(report[0]["error_code"]), str(report[0]["error"])
        if kind is not Internal:
            return kind(message)
        return Internal(f"{message}; the log of {handle} is {cluster.log(handle)}")
    ended = "ended" if state.phase is Phase.ENDED else f"did not end well ({state.reason})"
    return Internal(
        f"the run {ended} and left neither a commit nor a report; the log of {handle} is "
        f"{cluster.log(handle)}"
    )


def _kind(code: str) -> type[EventLakeError]:
    return {kind.code: kind for kind in EventLakeError.__subclasses__()}.get(code, Internal)
