"""The clusters of lakes: jobs whose handles are stored, and followed when their worker is gone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run
from eventlake.errors import EventLakeError, Internal
from eventlake.lakes import open_job_runner, open_parts
from eventlake.model.job import JobState, SubmittedJob
from eventlake.model.lake import LakeSettings
from eventlake.ports import JobRunner, Progress
from eventlake.services.follow import LostRun, follow_job
from eventlake.services.judge import Judgement
from eventlake.services.load import Where

LOCAL_KINDS = (Kind.REDRIVE, Kind.FORGET, Kind.VERIFY)
"""The kinds of runs that do not run on clusters."""


@dataclass(frozen=True)
class RecordingRunner:
    """A cluster that reports the handle of each job as soon as it is submitted."""

    runner: JobRunner
    on_submitted: Callable[[str], None]

    @property
    def poll_seconds(self) -> float:
        return self.runner.poll_seconds

    @property
    def reads_local_files(self) -> bool:
        return self.runner.reads_local_files

    def submit(self, name: str, job: str) -> str:
        handle = self.runner.submit(name, job)
        self.on_submitted(handle)
        return handle

    def state(self, handle: str) -> JobState:
        return self.runner.state(handle)

    def cancel(self, handle: str) -> None:
        self.runner.cancel(handle)

    def log(self, handle: str) -> str:
        return self.runner.log(handle)


@contextmanager
def open_runner(lake: LakeSettings) -> Iterator[JobRunner]:
    """The runner of a lake that has a cluster."""
    store = open_parts(lake, make=True).store
    context = open_job_runner(lake, store, temporary=False)
    if context is None:
        raise Internal("the lake has no cluster")
    with context as runner:
        yield runner


@contextmanager
def choose_place(
    lake: LakeSettings, kind: str, on_submitted: Callable[[str], None]
) -> Iterator[Where]:
    """Where a run of a kind is executed: this machine, or the lake's cluster."""
    if not lake.has_cluster or kind in LOCAL_KINDS:
        yield "local[*]"
        return
    with open_runner(lake) as runner:
        yield RecordingRunner(runner, on_submitted)


def follow_run(
    lake: LakeSettings, folder: str, run: Run, progress: Progress
) -> tuple[Judgement, EventLakeError | None]:
    """Follow the job of a run that has a handle to its end, as `follow_job`."""
    host, _, pid = run.owner.rpartition(":")
    lost = LostRun(folder, run.lake_run, SubmittedJob(handle=run.handle, host=host, pid=int(pid)))
    with open_runner(lake) as runner:
        return follow_job(open_parts(lake), runner, lost, progress)
