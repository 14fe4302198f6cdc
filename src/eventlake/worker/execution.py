"""Executes a run: its settings and secrets, its work, and what the lake says of its end."""

import os
import traceback
from collections.abc import Callable
from functools import partial

from eventlake.control.connections import get_connection, list_connections, merge_settings
from eventlake.control.database import Session
from eventlake.control.endings import LOST
from eventlake.control.erasures import read_users
from eventlake.control.lakes import get_lake, has_landed, read_secrets
from eventlake.control.results import Outcome, read_outcome
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunState
from eventlake.control.supervisor import LOG
from eventlake.control.vault import Vault
from eventlake.errors import Cancelled, EventLakeError, Internal
from eventlake.ports import NoProgress, Progress
from eventlake.runners.local import log_folder
from eventlake.services.judge import Judgement, Verdict, judge_run
from eventlake.worker.clusters import choose_place, follow_run
from eventlake.worker.kinds import Hooks, Task, judge_erasure, work


def read_task(session: Session, run: Run, vault: Vault) -> Task:
    """The task of a run; raises InvalidSettings if a secret of the lake cannot be read."""
    connection = get_connection(session, run.source_id)
    lake = get_lake(session, connection.lake)
    secrets = read_secrets(session, lake.id, vault)
    source = connection.resolved
    if run.kind == Kind.REPLAY and (changes := run.parameters.get("settings")):
        _, source = merge_settings(session, connection, changes)
    is_used = has_landed(session, lake.id)
    task = Task(run, source, lake.model, (lake.id, lake.version), secrets, is_used)
    if run.kind != Kind.FORGET:
        return task
    near = [one.resolved for one in list_connections(session) if one.lake == connection.lake]
    folders = frozenset(name for one in near for name in (one.folder, one.source_id))
    return task._replace(users=read_users(session, run, vault), folders=folders)


def make_hooks(
    task: Task,
    progress: Progress,
    on_planned: Callable[[str], None],
    on_submitted: Callable[[str], None],
) -> Hooks:
    """The hooks of a run that is executed where its lake says."""
    return Hooks(
        progress, on_planned, partial(choose_place, task.lake, task.run.kind, on_submitted)
    )


def execute(task: Task, hooks: Hooks, read_run: Callable[[], Run] | None = None) -> Outcome | None:
    """Run a task in this process, which can have only one lake; return how the run ended.

    `read_run` gives the run as it is stored when the work has ended. None if the run goes on
    elsewhere. Raises an EventLakeError if the lake cannot say whether the run has committed.
    """
    os.environ.update(task.secrets)
    planned: list[str] = []

    def plan(run_id: str) -> None:
        hooks.on_planned(run_id)
        planned.append(run_id)

    has_returned = False
    try:
        ended = work(task, hooks._replace(on_planned=plan))
        has_returned = True
    except (EventLakeError, Cancelled) as problem:
        ended = fail(problem)
    except Exception as problem:  # a bug: the supervisor would only see that the process is gone
        traceback.print_exc()
        name = type(problem).__name__
        ended = fail(
            Internal(f"unexpected error ({name}); the traceback is in {log_folder() / LOG}")
        )
    if not planned:
        return ended
    if has_returned and task.run.kind == Kind.FORGET:
        return ended.model_copy(update={"lake_run": planned[-1]})
    run = task.run.model_copy(update={"lake_run": planned[-1]})
    if read_run and not has_returned:  # it may have a job on a cluster, which may go on
        run = read_run()
    return judge(task._replace(run=run), ended, hooks.progress)


def fail(problem: EventLakeError | Cancelled) -> Outcome:
    """The outcome of a run that ended with an error before it was planned."""
    return Outcome(state=RunState.FAILED, error_code=problem.code, error=str(problem))


def judge(
    task: Task, without_commit: Outcome = LOST, progress: Progress | None = None
) -> Outcome | None:
    """How a run ended by its report, or by its commit, which is finished then; None if it runs.

    A job on a cluster is followed to its end. If the lake has neither a report nor a commit, the
    outcome is `without_commit`.
    """
    lake_run = task.run.lake_run
    if not lake_run:
        return without_commit
    os.environ.update(task.secrets)
    if task.run.kind == Kind.FORGET:
        return judge_erasure(task, lake_run, without_commit)
    if task.run.handle and task.lake.has_cluster:
        listener = progress or NoProgress()
        found, problem = follow_run(task.lake, task.source.folder, task.run, listener)
        without_commit = fail(problem) if problem else without_commit
    else:
        found = judge_run(task.lake, task.source.folder, lake_run)
    return _read_judgement(found, lake_run, without_commit)


def _read_judgement(found: Judgement, lake_run: str, without_commit: Outcome) -> Outcome | None:
    if found.verdict is Verdict.RUNNING:
        return None
    if found.verdict is Verdict.GONE:
        return without_commit.model_copy(update={"lake_run": lake_run})
    result = without_commit.result
    if not found.report:
        return Outcome(state=RunState.FINISHED, lake_run=lake_run, result=result)
    return read_outcome(found.report).model_copy(update={"result": result})
