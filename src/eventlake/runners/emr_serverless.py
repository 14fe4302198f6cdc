"""Jobs as job runs of an EMR Serverless application."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from eventlake.aws import Access, ClientError, aws_errors, error_code
from eventlake.errors import InvalidSettings
from eventlake.model.job import JobState, Phase
from eventlake.runners.spark_submit import POLL_SECONDS, JobProgram, conf_arguments
from eventlake.stores import Store

DRIVER_ENV = "spark.emr-serverless.driverEnv."
PHASES: Mapping[str, Phase] = {
    **dict.fromkeys(("SUBMITTED", "PENDING", "SCHEDULED", "QUEUED"), Phase.WAITING),
    **dict.fromkeys(("RUNNING", "CANCELLING"), Phase.RUNNING),
    "SUCCESS": Phase.ENDED,
}
"""A job run in any other state has failed or was cancelled."""


@dataclass(frozen=True)
class EmrServerlessRunner:
    """Submits jobs to an application, which run with the role `role_arn`."""

    id: str
    role_arn: str
    access: Access
    store: Store
    program: JobProgram
    poll_seconds = POLL_SECONDS
    reads_local_files = False

    def submit(self, name: str, job: str) -> str:
        code, conf = self.program.code, self.program.conf(DRIVER_ENV)
        driver = {
            "entryPoint": code.entrypoint,
            "entryPointArguments": self.program.arguments(job),
            "sparkSubmitParameters": " ".join(["--archives", code.archives, *conf_arguments(conf)]),
        }
        logs = {"s3MonitoringConfiguration": {"logUri": f"{self.store.root}/logs/"}}
        with self._errors("submit a run to", "emr-serverless:StartJobRun and iam:PassRole"):
            started = self._emr.start_job_run(
                applicationId=self.id,
                clientToken=str(uuid4()),
                executionRoleArn=self.role_arn,
                name=name,
                jobDriver={"sparkSubmit": driver},
                configurationOverrides={"monitoringConfiguration": logs},
            )
        return str(started["jobRunId"])

    def state(self, handle: str) -> JobState:
        with self._errors("read the state of a run on", "emr-serverless:GetJobRun"):
            job_run = self._emr.get_job_run(applicationId=self.id, jobRunId=handle)["jobRun"]
        phase = PHASES.get(job_run["state"], Phase.FAILED)
        words = [job_run["state"].lower(), job_run.get("stateDetails")]
        return JobState(phase, ": ".join(filter(None, words)) if phase is Phase.FAILED else "")

    def cancel(self, handle: str) -> None:
        with self._errors("cancel a run on", "emr-serverless:CancelJobRun"):
            self._emr.cancel_job_run(applicationId=self.id, jobRunId=handle)

    def log(self, handle: str) -> str:
        return f"{self.store.root}/logs/applications/{self.id}/jobs/{handle}/"

    @property
    def _emr(self) -> Any:
        return self.access.client("emr-serverless")

    @contextmanager
    def _errors(self, what: str, needs: str) -> Iterator[None]:
        with aws_errors(f"{what} the EMR Serverless application {self.id}", needs):
            try:
                yield
            except ClientError as problem:
                if error_code(problem) not in ("ResourceNotFoundException", "ValidationException"):
                    raise
                message = problem.response["Error"].get("Message", "")
                raise InvalidSettings(
                    f"emr_serverless_application_id is {self.id!r}: {message}"
                ) from problem
