"""A job on a cluster: runs the plan that `pipeline.submit` stored in the stage."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from eventlake.archive import lake_input_stores
from eventlake.errors import Conflict, EventLakeError, InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.model.job import Job
from eventlake.model.lake import lake_settings
from eventlake.pipeline.finish import FinishResult
from eventlake.pipeline.sync import Run, sync
from eventlake.ports import Progress
from eventlake.runners.spark_submit import SubmittedSpark
from eventlake.stores import Store

BEFORE_COMMIT = ("read", "dedupe", "evolve", "write", "commit")
"""The stages before which a run can still be cancelled."""


def main(arguments: Sequence[str]) -> int:
    """Run a job and return the exit status.

    `arguments` are the path of the job's object, then the lake's settings as `name=value`.
    """
    path, *settings = arguments
    say(f"eventlake {version('eventlake')} from {__file__}")
    try:
        finished = run_job(open_parts(lake_settings(dict(map(_parse_setting, settings)))), path)
    except EventLakeError as problem:
        say(f"error: {problem} ({problem.code})")
        return 1
    for table, (message, code) in finished.problems.items():
        say(f"not finished, the next run continues: {table}: {message} ({code})")
    say(f"{'partial' if finished.problems else 'finished'}: {finished.report}")
    return 0


def _parse_setting(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def say(line: str) -> None:
    """Write a line to the cluster's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def run_job(lake: Lake, path: str) -> FinishResult:
    """Land what a job's plan says."""
    job = read_job(lake.store, path)
    run = Run(
        lake=lake,
        ledger=lake.ledger(job.plan.settings.folder),
        runner=SubmittedSpark(),
        plan=job.plan,
        progress=CancellationCheck(lake.store, path),
        suppressed=_read_suppressed(lake.store, job),
        dead=job.dead,
        stores=lake_input_stores(lake.store),
    )
    _, finished = sync(run)
    return finished


def read_job(store: Store, path: str) -> Job:
    """The job at `path`; raises Conflict if its object is gone."""
    try:
        return Job.from_json(store.read(path))
    except InvalidSettings as problem:
        raise _cancelled(path) from problem


def _read_suppressed(store: Store, job: Job) -> frozenset[str]:
    return frozenset(json.loads(store.read(job.suppressed)) if job.suppressed else ())


def _cancelled(path: str) -> Conflict:
    return Conflict(
        f"{path} is gone: the run was cancelled, or treated as abandoned while it waited; "
        "it landed nothing: run it again"
    )


@dataclass
class CancellationCheck(Progress):
    """Logs the stages of a run, and raises Conflict if the run was cancelled."""

    store: Store
    path: str
    stage: str = ""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:  # noqa: ARG002
        if stage == self.stage:
            return
        self.stage = stage
        say(stage)
        if stage in BEFORE_COMMIT and not self.store.exists(self.path):
            raise _cancelled(self.path)
