"""One-time runs of a workspace: upload files, submit, state, cancel."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import Library
from databricks.sdk.service.jobs import (
    Run,
    RunLifeCycleState,
    RunResultState,
    SparkPythonTask,
    SubmitTask,
)
from databricks.sdk.service.workspace import ImportFormat, ObjectInfo

from eventlake.databricks.clusters import JobCluster
from eventlake.databricks.workspace import Workspace, is_missing
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.job import JobState, Phase

TASK = "eventlake"
_STATES = RunLifeCycleState
PHASES: Mapping[RunLifeCycleState, Phase] = {
    **dict.fromkeys(
        (_STATES.QUEUED, _STATES.PENDING, _STATES.BLOCKED, _STATES.WAITING_FOR_RETRY),
        Phase.WAITING,
    ),
    **dict.fromkeys((_STATES.RUNNING, _STATES.TERMINATING), Phase.RUNNING),
}
"""A run in any other state is over."""
_MAY_RUN = (
    "give the principal the permission 'Can Restart' on the cluster, or, for a job cluster, the "
    "entitlement 'Unrestricted cluster creation' (allow-cluster-create) or a databricks_policy_id"
)


class Program(NamedTuple):
    """A Python script in the workspace's files, and what it needs."""

    script: str
    arguments: Sequence[str]
    wheel: str
    requirements: str


def upload_files(workspace: Workspace, folder: str, files: Mapping[str, bytes]) -> None:
    """Write files into a folder of the workspace, unless they are there."""
    needs = f"give {workspace.client_id or 'the principal'} 'Can Edit' on the folder {folder}"
    with workspace.errors(f"upload to {folder}", needs):
        if {one.path for one in _list_folder(workspace, folder)} >= {
            f"{folder}/{name}" for name in files
        }:
            return
        workspace.client.workspace.mkdirs(folder)
        for name, content in files.items():
            workspace.client.workspace.import_(
                f"{folder}/{name}",
                content=b64encode(content).decode(),
                format=ImportFormat.AUTO,
                overwrite=True,
            )


def _list_folder(workspace: Workspace, folder: str) -> list[ObjectInfo]:
    try:
        return list(workspace.client.workspace.list(folder))
    except DatabricksError as problem:
        if is_missing(problem):
            return []
        raise


def submit_run(
    workspace: Workspace, name: str, program: Program, cluster: str | JobCluster, token: str
) -> str:
    """Submit a program to a cluster; return the run's id. A repeated token submits nothing."""
    task = SubmitTask(
        task_key=TASK,
        libraries=[Library(requirements=program.requirements), Library(whl=program.wheel)],
        spark_python_task=SparkPythonTask(program.script, parameters=list(program.arguments)),
        max_retries=0,
    )
    if isinstance(cluster, JobCluster):
        task.new_cluster = cluster.spec()
    else:
        task.existing_cluster_id = cluster
    with workspace.errors("submit a run", _MAY_RUN):
        submitted = workspace.client.jobs.submit(
            run_name=name, tasks=[task], idempotency_token=token
        )
    return str(submitted.run_id)


def run_state(workspace: Workspace, run_id: str) -> JobState:
    """The state of a run, with the reason if it failed."""
    run = _get_run(workspace, run_id)
    life = run.state.life_cycle_state if run.state else None
    if life is not None and life in PHASES:
        return JobState(PHASES[life])
    if run.state and run.state.result_state is RunResultState.SUCCESS:
        return JobState(Phase.ENDED)
    return JobState(Phase.FAILED, _failure_reason(workspace, run))


def _get_run(workspace: Workspace, run_id: str) -> Run:
    with workspace.errors(
        f"read the state of the run {run_id}", "give the principal 'Can View' on the run"
    ):
        try:
            return workspace.client.jobs.get_run(int(run_id))
        except DatabricksError as problem:
            if not is_missing(problem):
                raise
            raise InvalidSettings(
                f"the workspace {workspace.host} has no run {run_id}: it was deleted, or belongs "
                "to another workspace"
            ) from problem


def _failure_reason(workspace: Workspace, run: Run) -> str:
    """How a run ended, what the workspace says of it, and the last error of its program."""
    state = run.state
    ended = state and (state.result_state or state.life_cycle_state)
    words = [ended.value.lower() if ended else "", (state and state.state_message) or ""]
    for task in run.tasks or ():
        with suppress(DatabricksError, EventLakeError):  # a cancelled run has no output
            output = workspace.client.jobs.get_run_output(task.run_id or 0)
            words.append(output.error.splitlines()[0] if output.error else "")
    return ": ".join(dict.fromkeys(word for word in words if word))


def cancel_run(workspace: Workspace, run_id: str) -> None:
    """Cancel a run; one that has ended stays as it is."""
    needs = "give the principal 'Can Manage Run' on the run"
    with workspace.errors(f"cancel the run {run_id}", needs):
        workspace.client.jobs.cancel_run(int(run_id))


def run_address(workspace: Workspace, run_id: str) -> str:
    """The address of a run's page, which has its logs."""
    with suppress(EventLakeError):  # an error here must not hide the run's error
        if url := _get_run(workspace, run_id).run_page_url:
            return url
    return f"{workspace.host}/jobs/runs/{run_id}"
