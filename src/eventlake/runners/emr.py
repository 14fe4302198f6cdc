"""Runs as steps of an EMR cluster: of one that stays, or of one made for a single run."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from eventlake.aws import Access, aws_errors, code
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.job import JobState, Phase
from eventlake.model.lake import AwsSettings
from eventlake.runners.package import Code
from eventlake.runners.spark_submit import conf, conf_arguments, job_arguments
from eventlake.stores import Store

DRIVER_ENV = "spark.yarn.appMasterEnv."
GONE = frozenset(("TERMINATING", "TERMINATED", "TERMINATED_WITH_ERRORS"))
PHASES: Mapping[str, Phase] = {
    "PENDING": Phase.WAITING,
    "CANCEL_PENDING": Phase.RUNNING,
    "RUNNING": Phase.RUNNING,
    "COMPLETED": Phase.ENDED,
}
"""A step in any other state has failed, or was cancelled."""
STEP = "AddJobFlowSteps"
REFUSED = frozenset(("InvalidRequestException", "ValidationException"))


@dataclass(frozen=True)
class EmrRunner:
    """A cluster that works off its steps one after the other, or several at a time."""

    settings: AwsSettings
    access: Access
    store: Store
    code: Code

    @property
    def id(self) -> str:
        return self.settings.emr_cluster_id

    def submit(self, name: str, job: str) -> str:
        step = {
            "Name": name,
            "ActionOnFailure": "CONTINUE",  # the other sources' steps are not to blame
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": self._command(job)},
        }
        with self._errors("submit a run to", STEP):
            added = self._emr.add_job_flow_steps(JobFlowId=self.id, Steps=[step])
        return str(added["StepIds"][0])

    def _command(self, job: str) -> list[str]:
        given = conf(self.code, self.settings.emr_python, DRIVER_ENV)
        # A second driver would begin with the stage that the first one left.
        given["spark.yarn.maxAppAttempts"] = "1"
        return [
            *("spark-submit", "--deploy-mode", "cluster", "--name", "eventlake"),
            *("--archives", self.code.archives),
            *conf_arguments(given),
            self.code.entrypoint,
            *job_arguments(self.code, self.settings, job),
        ]

    def state(self, handle: str) -> JobState:
        with self._errors("read the state of a run on", "DescribeStep"):
            found = self._emr.describe_step(ClusterId=self.id, StepId=handle)["Step"]["Status"]
        phase = PHASES.get(found["State"], Phase.FAILED)
        return JobState(phase, _why(found) if phase is Phase.FAILED else "")

    def cancel(self, handle: str) -> None:
        with self._errors("cancel a run on", "CancelSteps"):
            self._emr.cancel_steps(ClusterId=self.id, StepIds=[handle])

    def log(self, handle: str) -> str:
        """The step's own log, which comes some minutes late; Spark's is in `containers` beside."""
        home = re.sub(r"^s3[an]?://", "s3://", self._logs()).rstrip("/")
        folder = f"{home}/{self.id}/steps/{handle}"
        if not home:
            return f"not kept: the EMR cluster {self.id} has no place for logs"
        path = f"{folder}/stderr.gz".removeprefix(f"{self.store.root}/")
        with suppress(EventLakeError):  # to look for a log must not hide what went wrong
            if folder.startswith(f"{self.store.root}/") and self.store.exists(path):
                return self.store.uri(path)
        return f"{folder}/"

    def _logs(self) -> str:
        with suppress(EventLakeError):
            return str(described(self.access, self.id).get("LogUri") or "")
        return f"{self.store.root}/logs"

    @property
    def _emr(self) -> Any:
        return self.access.client("emr")

    def _errors(self, what: str, action: str) -> Any:
        return emr_errors(f"{what} the EMR cluster {self.id}", action, self.id)


def _why(status: Any) -> str:
    """What EMR says of a step that did not end well."""
    told = {**status.get("StateChangeReason", {}), **status.get("FailureDetails", {})}
    words = [status["State"].lower(), told.get("Reason"), told.get("Message")]
    return ": ".join(word for word in words if word)


@contextmanager
def emr_errors(what: str, action: str, cluster_id: str) -> Iterator[None]:
    """EMR's refusals in our words; it has one code for all that is wrong with a request."""
    with aws_errors(what, f"elasticmapreduce:{action}"):
        try:
            yield
        except ClientError as problem:
            if code(problem) not in REFUSED:
                raise
            told = problem.response["Error"].get("Message", "")
            raise InvalidSettings(f"emr_cluster_id is {cluster_id!r}: {told}") from problem


def described(access: Access, cluster_id: str) -> Any:
    with emr_errors(f"look at the EMR cluster {cluster_id}", "DescribeCluster", cluster_id):
        return access.client("emr").describe_cluster(ClusterId=cluster_id)["Cluster"]


def check_cluster(access: Access, cluster_id: str) -> None:
    """Refuse a cluster that is not there, or not any more."""
    status = described(access, cluster_id)["Status"]
    if status["State"] in GONE:
        why = status.get("StateChangeReason", {}).get("Message") or ""
        raise InvalidSettings(
            f"emr_cluster_id is {cluster_id!r}: that cluster is {status['State']}"
            f"{f' ({why})' if why else ''}: name one that runs, or run here without the setting"
        )


def try_cluster(access: Access, cluster_id: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """What a run asks of a cluster, one thing at a time: a step of its own that does nothing."""
    emr, steps = access.client("emr"), list[str]()

    def look() -> str:
        check_cluster(access, cluster_id)
        return f"{cluster_id} takes steps"

    def submit() -> str:
        nothing = {"Jar": "command-runner.jar", "Args": ["true"]}
        step = {"Name": "eventlake check", "ActionOnFailure": "CONTINUE", "HadoopJarStep": nothing}
        with emr_errors(f"submit a run to the EMR cluster {cluster_id}", STEP, cluster_id):
            steps.extend(emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=[step])["StepIds"])
        return f"took the step {steps[0]}"

    def read() -> str:
        action = "DescribeStep"
        with emr_errors(f"read the state of a run on {cluster_id}", action, cluster_id):
            found = emr.describe_step(ClusterId=cluster_id, StepId=steps[0])
        return f"the step is {found['Step']['Status']['State']}"

    def cancel() -> str:
        with emr_errors(f"cancel a run on {cluster_id}", "CancelSteps", cluster_id):
            emr.cancel_steps(ClusterId=cluster_id, StepIds=steps)
        return "the step may be cancelled"

    yield "cluster", look
    yield "submit a step", submit
    yield "read a step's state", read
    yield "cancel a step", cancel


# A cluster for one run

IDLE = 900
"""Seconds after which a cluster ends itself, should its maker be killed."""
TAGS = {"for-use-with-amazon-emr-managed-policies": "true"}
OWNER_TAG = "eventlake-workspace"
NEEDED = ("emr_service_role", "emr_instance_profile", "emr_subnet_id")


def check_temporary(settings: AwsSettings) -> None:
    """Refuse settings that do not say enough to make a cluster."""
    missing = [name for name in NEEDED if not getattr(settings, name)]
    if missing:
        raise InvalidSettings(f"a temporary cluster needs the settings {', '.join(missing)}")


@contextmanager
def temporary_cluster(settings: AwsSettings, access: Access) -> Iterator[str]:
    """The id of a new cluster, which is ended whatever happens."""
    emr = access.client("emr")
    with aws_errors("make an EMR cluster", "elasticmapreduce:RunJobFlow and iam:PassRole"):
        made = str(emr.run_job_flow(**_request(settings))["JobFlowId"])
    try:
        yield made
    finally:
        with emr_errors(f"end the EMR cluster {made}", "TerminateJobFlows", made):
            emr.terminate_job_flows(JobFlowIds=[made])


def _request(settings: AwsSettings) -> dict[str, Any]:
    tags = TAGS | ({OWNER_TAG: settings.workspace_id} if settings.workspace_id else {})
    guarded = settings.emr_security_configuration
    return {
        "Name": "eventlake",
        "ReleaseLabel": settings.emr_release_label,
        "Applications": [{"Name": "Spark"}],
        "LogUri": f"s3://{settings.s3_bucket}/logs/",
        "ServiceRole": settings.emr_service_role,
        "JobFlowRole": settings.emr_instance_profile,
        "Instances": {
            "Ec2SubnetId": settings.emr_subnet_id,
            "InstanceGroups": [_group(settings, "MASTER"), _group(settings, "CORE")],
            "KeepJobFlowAliveWhenNoSteps": True,
            "TerminationProtected": False,
        },
        "ManagedScalingPolicy": {
            "ComputeLimits": {
                "UnitType": "Instances",
                "MinimumCapacityUnits": 1,
                "MaximumCapacityUnits": settings.emr_max_instances,
            }
        },
        "AutoTerminationPolicy": {"IdleTimeout": IDLE},
        "VisibleToAllUsers": True,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        **({"SecurityConfiguration": guarded} if guarded else {}),
    }


def _group(settings: AwsSettings, role: str) -> dict[str, Any]:
    return {
        "Name": role.lower(),
        "InstanceRole": role,
        "InstanceType": settings.emr_instance_type,
        "InstanceCount": 1,
    }
