"""A run on a cluster: what main.py starts there, with the plan that was left in the bucket."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from eventlake.archive import lake_input_stores
from eventlake.errors import Conflict, EventLakeError, InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger
from eventlake.model.job import Job
from eventlake.model.lake import lake_settings
from eventlake.pipeline.finish import FinishResult
from eventlake.pipeline.sync import Run, sync
from eventlake.ports import Progress
from eventlake.runners.submitted import SubmittedRunner
from eventlake.stores import Store

BEFORE_COMMIT = ("read", "dedupe", "evolve", "write", "commit")
"""The stages at whose beginning a run can still be stopped."""


def main(arguments: Sequence[str]) -> int:
    """Run a job: the path of its object, then the lake's settings as `name=value`."""
    path, *given = arguments
    say(f"eventlake {version('eventlake')} from {__file__}")
    try:
        finished = run_job(open_parts(lake_settings(dict(map(_setting, given)))), path)
    except EventLakeError as problem:
        say(f"error: {problem} ({problem.code})")
        return 1
    for table, (message, code) in finished.problems.items():
        say(f"left for the next run: {table}: {message} ({code})")
    say(f"{'partial' if finished.problems else 'finished'}: {finished.report}")
    return 0


def _setting(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def say(line: str) -> None:
    """A line for the cluster's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def run_job(lake: Lake, path: str) -> FinishResult:
    """Land what a job's plan says."""
    job = read_job(lake.store, path)
    run = Run(
        lake=lake,
        ledger=Ledger(lake.store, job.plan.settings.folder),
        runner=SubmittedRunner(),
        plan=job.plan,
        progress=Wanted(lake.store, path),
        suppressed=_suppressed(lake.store, job),
        dead=job.dead,
        stores=lake_input_stores(lake.store),
    )
    _, finished = sync(run)
    return finished


def read_job(store: Store, path: str) -> Job:
    try:
        return Job.from_json(store.read(path))
    except InvalidSettings as problem:
        raise _unwanted(path) from problem


def _suppressed(store: Store, job: Job) -> frozenset[str]:
    return frozenset(json.loads(store.read(job.suppressed)) if job.suppressed else ())


def _unwanted(path: str) -> Conflict:
    return Conflict(
        f"there is no {path} any more: the run was cancelled, or held for dead while it waited; "
        "nothing of it was landed: run it again"
    )


@dataclass
class Wanted(Progress):
    """Tells how far a run is, and stops one that is no longer wanted."""

    store: Store
    path: str
    stage: str = ""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:  # noqa: ARG002
        if stage == self.stage:
            return
        self.stage = stage
        say(stage)
        if stage in BEFORE_COMMIT and not self.store.exists(self.path):
            raise _unwanted(self.path)
