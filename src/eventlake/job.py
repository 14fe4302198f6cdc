"""A job: runs the plan that `pipeline.submit` stored in the stage, on a cluster or this machine.

The runner of this machine starts it as a module, with the log, master and memory of its Spark
before the other arguments.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from eventlake.errors import Cancelled, Conflict, EventLakeError, InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import open_input_stores, open_parts, parse_settings
from eventlake.model.job import Job, Step
from eventlake.pipeline.finish import FinishResult
from eventlake.pipeline.sync import Run, sync
from eventlake.ports import NoProgress, Progress, SparkProvider
from eventlake.runners.local import LocalSpark
from eventlake.runners.spark_submit import SubmittedSpark
from eventlake.stores import Store

BEFORE_COMMIT = ("read", "index", "dedupe", "evolve", "write", "compact", "commit")
"""The stages before which a run can still be cancelled."""
CANCELLED = "the run was cancelled; it landed nothing: run it again"


def main(
    arguments: Sequence[str],
    provide_spark: Callable[[Mapping[str, str]], SparkProvider] = SubmittedSpark,
    listener: Progress | None = None,
) -> int:
    """Run a job and return the exit status.

    `arguments` are the path of the job's object, then the lake's settings as `name=value`.
    `provide_spark` gets the Spark settings of the lake; `listener` hears of each step before it
    is logged.
    """
    path, *settings = arguments
    say(f"eventlake {version('eventlake')} from {__file__}")
    try:
        lake = open_parts(parse_settings(settings))
        progress = JobProgress(lake.store, path, listener or NoProgress())
        finished = run_job(lake, path, provide_spark(lake.spark_settings), progress)
    except (EventLakeError, Cancelled) as problem:
        say(f"error: {problem} ({problem.code})")
        return 1
    for table, (message, code) in finished.problems.items():
        say(f"not finished, the next run continues: {table}: {message} ({code})")
    say(f"{'partial' if finished.problems else 'finished'}: {finished.report}")
    return 0


def say(line: str) -> None:
    """Write a line to the job's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def run_job(lake: Lake, path: str, spark: SparkProvider, progress: "JobProgress") -> FinishResult:
    """Land what a job's plan says. From here on, SIGTERM cancels the run."""
    if threading.current_thread() is threading.main_thread():  # a cluster's shell may use another
        signal.signal(signal.SIGTERM, progress.cancel)
    job = read_job(lake.store, path)
    run = Run(
        lake=lake,
        ledger=lake.ledger(job.plan.settings.folder),
        runner=spark,
        plan=job.plan,
        progress=progress,
        dead=job.dead,
        stores=open_input_stores((one.uri for one in job.plan.inputs), lake.store),
    )
    _, finished = sync(run)
    return finished


def read_job(store: Store, path: str) -> Job:
    """The job at `path`; raises Conflict if its object is gone."""
    try:
        return Job.from_json(store.read(path))
    except InvalidSettings as problem:
        raise _cancelled(path) from problem


def _cancelled(path: str) -> Conflict:
    return Conflict(
        f"{path} is gone: the run was cancelled, or treated as abandoned while it waited; "
        "it landed nothing: run it again"
    )


@dataclass
class JobProgress(Progress):
    """Logs each step as a line of JSON, and ends a run that was cancelled before its commit."""

    store: Store
    path: str
    listener: Progress
    stage: str = ""
    is_cancelled: bool = False

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """Log a step; raise Conflict if the job's object is gone."""
        self.listener.step(stage, done, total, rows)
        say(json.dumps(Step(stage, done, total, rows)._asdict()))
        if stage == self.stage:
            return
        self.stage = stage
        if stage in BEFORE_COMMIT:
            if self.is_cancelled:  # a library has ignored the exception of `cancel`
                raise Cancelled(CANCELLED)
            if not self.store.exists(self.path):
                raise _cancelled(self.path)

    def cancel(self, *_: object) -> None:
        """Handle SIGTERM: raise Cancelled, or go on if the commit may have been made."""
        if self.stage in ("", *BEFORE_COMMIT[:-1]) and not self.is_cancelled:
            self.is_cancelled = True
            raise Cancelled(CANCELLED)


if __name__ == "__main__":
    log, master, memory, *rest = sys.argv[1:]
    sys.exit(main(rest, partial(LocalSpark, master, memory=memory, log=Path(log))))
