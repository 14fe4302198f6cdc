"""Jobs as one-time runs of a Databricks workspace, on a cluster of it or on one for each run."""

from dataclasses import dataclass
from uuid import uuid4

from eventlake.databricks.clusters import JobCluster
from eventlake.databricks.runs import (
    Program,
    cancel_run,
    run_address,
    run_state,
    submit_run,
    upload_files,
)
from eventlake.databricks.workspace import Workspace
from eventlake.model.job import JobState
from eventlake.runners.spark_submit import POLL_SECONDS
from eventlake.runners.wheel import JobFiles


@dataclass(frozen=True)
class DatabricksRunner:
    """Submits jobs to a cluster, by its id, or each to a cluster of its own."""

    workspace: Workspace
    cluster: str | JobCluster
    files: JobFiles
    settings: tuple[str, ...]
    """The lake's settings as words `name=value`, without secrets."""
    poll_seconds: float = POLL_SECONDS
    reads_local_files = False

    def submit(self, name: str, job: str) -> str:
        """Upload the code unless it is there, and submit the job; return the id of the run."""
        folder = f"/Workspace/Users/{self.workspace.user_name}/.eventlake/{self.files.version}"
        upload_files(self.workspace, folder, self.files.contents)
        program = Program(
            script=f"{folder}/{self.files.script}",
            arguments=(self.files.version, job, *self.settings),
            wheel=f"{folder}/{self.files.wheel}",
            requirements=f"{folder}/{self.files.requirements}",
        )
        # With the token, a submission that is repeated after a lost answer starts no second run.
        return submit_run(self.workspace, name, program, self.cluster, str(uuid4()))

    def state(self, handle: str) -> JobState:
        return run_state(self.workspace, handle)

    def cancel(self, handle: str) -> None:
        cancel_run(self.workspace, handle)

    def log(self, handle: str) -> str:
        return run_address(self.workspace, handle)
