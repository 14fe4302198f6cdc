"""The work of a run: the checks and the sync of its source, and what the lake says of its end."""

import os
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

from eventlake.control.connections import get_connection
from eventlake.control.database import Session
from eventlake.control.endings import LOST
from eventlake.control.lakes import get_lake, read_secrets
from eventlake.control.results import Outcome, read_outcome
from eventlake.control.runs import Run, RunState
from eventlake.control.supervisor import LOG
from eventlake.control.vault import Vault
from eventlake.errors import Cancelled, EventLakeError, Internal, InvalidSettings, NotFound
from eventlake.lakes import open_parts
from eventlake.model.lake import LakeSettings
from eventlake.model.settings import SourceSettings
from eventlake.ports import Progress
from eventlake.runners.local import log_folder
from eventlake.services.check import check
from eventlake.services.inputs import check_source
from eventlake.services.judge import Verdict, judge_run
from eventlake.services.load import sync


class Task(NamedTuple):
    """A run, and the settings with which it works."""

    run: Run
    source: SourceSettings
    lake: LakeSettings
    place: tuple[str, int]
    """The id and the version of the lake."""
    secrets: Mapping[str, str]
    """The environment in which the lake finds its secrets."""


def read_task(session: Session, run: Run, vault: Vault) -> Task:
    """The task of a run; raises InvalidSettings if a secret of the lake cannot be read."""
    connection = get_connection(session, run.source_id)
    lake = get_lake(session, connection.lake)
    secrets = read_secrets(session, lake.id, vault)
    return Task(run, connection.resolved, lake.model, (lake.id, lake.version), secrets)


def execute(task: Task, progress: Progress, on_planned: Callable[[str], None]) -> Outcome | None:
    """Run a task in this process, which can have only one lake; return how the run ended.

    `on_planned` is called with the lake's id of the run before anything is written. None if the
    run goes on elsewhere, such as on a cluster. Raises an EventLakeError if the lake cannot say
    whether the run has committed.
    """
    os.environ.update(task.secrets)
    planned: list[str] = []

    def plan(run_id: str) -> None:
        on_planned(run_id)
        planned.append(run_id)

    try:
        _work(task, progress, plan)
        ended = Outcome(state=RunState.FINISHED)
    except (EventLakeError, Cancelled) as problem:
        ended = fail(problem)
    except Exception as problem:  # a bug: the supervisor would only see that the process is gone
        traceback.print_exc()
        name = type(problem).__name__
        ended = fail(
            Internal(f"unexpected error ({name}); the traceback is in {log_folder() / LOG}")
        )
    return judge(task, planned[0], ended) if planned else ended


def fail(problem: EventLakeError | Cancelled) -> Outcome:
    """The outcome of a run that ended with an error before it was planned."""
    return Outcome(state=RunState.FAILED, error_code=problem.code, error=str(problem))


def judge(task: Task, lake_run: str, without_commit: Outcome = LOST) -> Outcome | None:
    """How a run ended by its report, or by its commit, which is finished then; None if it runs.

    If the lake has neither, the outcome is `without_commit`.
    """
    if not lake_run:
        return without_commit
    os.environ.update(task.secrets)
    found = judge_run(task.lake, task.source.folder, lake_run)
    if found.verdict is Verdict.RUNNING:
        return None
    if found.verdict is Verdict.GONE:
        return without_commit.model_copy(update={"lake_run": lake_run})
    if not found.report:
        return Outcome(state=RunState.FINISHED, lake_run=lake_run)
    return read_outcome(found.report)


def _work(task: Task, progress: Progress, on_planned: Callable[[str], None]) -> None:
    if task.run.kind != "sync":
        raise InvalidSettings(f"this version cannot execute runs of the kind {task.run.kind}")
    if task.run.check_first:
        _check(task.lake)
    try:
        check_source(open_parts(task.lake, make=True), task.source)
    except NotFound:  # no event has come yet
        return
    sync(
        task.source.source,
        lake=task.lake,
        changes=task.source.model_dump(),
        progress=progress,
        on_planned=on_planned,
    )


def _check(lake: LakeSettings) -> None:
    """Raise InvalidSettings with the first check that fails.

    Tables that the catalog refused do not count, because only a sync tries them again.
    """
    for one in check(lake, refusals=False):
        if not one.ok:
            raise InvalidSettings(f"the check {one.name!r} fails: {one.detail}")
