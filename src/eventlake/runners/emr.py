"""Jobs as steps of an EMR cluster, either a running one or one created for a single run."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from eventlake.aws import Access, ClientError, aws_errors, error_code, policy_statement
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.job import JobState, Phase
from eventlake.runners.spark_submit import POLL_SECONDS, JobProgram, conf_arguments
from eventlake.stores import Store

DRIVER_ENV = "spark.yarn.appMasterEnv."
TERMINATED = frozenset(("TERMINATING", "TERMINATED", "TERMINATED_WITH_ERRORS"))
PHASES: Mapping[str, Phase] = {
    "PENDING": Phase.WAITING,
    "CANCEL_PENDING": Phase.RUNNING,
    "RUNNING": Phase.RUNNING,
    "COMPLETED": Phase.ENDED,
}
"""A step in any other state has failed or was cancelled."""
ADD_STEPS = "AddJobFlowSteps"
INVALID_REQUEST = frozenset(("InvalidRequestException", "ValidationException"))


@dataclass(frozen=True)
class EmrRunner:
    """Submits jobs as steps of a cluster."""

    id: str
    access: Access
    store: Store
    program: JobProgram
    poll_seconds = POLL_SECONDS
    reads_local_files = False

    def submit(self, name: str, job: str) -> str:
        step = {
            "Name": name,
            "ActionOnFailure": "CONTINUE",  # steps of other sources must go on
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": self._command(job)},
        }
        with self._errors("submit a run to", ADD_STEPS):
            result = self._emr.add_job_flow_steps(JobFlowId=self.id, Steps=[step])
        return str(result["StepIds"][0])

    def _command(self, job: str) -> list[str]:
        conf = self.program.conf(DRIVER_ENV)
        # A second attempt would find the stage of the first.
        conf["spark.yarn.maxAppAttempts"] = "1"
        return [
            *("spark-submit", "--deploy-mode", "cluster", "--name", "eventlake"),
            *("--archives", self.program.code.archives),
            *conf_arguments(conf),
            self.program.code.entrypoint,
            *self.program.arguments(job),
        ]

    def state(self, handle: str) -> JobState:
        with self._errors("read the state of a run on", "DescribeStep"):
            status = self._emr.describe_step(ClusterId=self.id, StepId=handle)["Step"]["Status"]
        phase = PHASES.get(status["State"], Phase.FAILED)
        return JobState(phase, _failure_reason(status) if phase is Phase.FAILED else "")

    def cancel(self, handle: str) -> None:
        with self._errors("cancel a run on", "CancelSteps"):
            self._emr.cancel_steps(ClusterId=self.id, StepIds=[handle])

    def log(self, handle: str) -> str:
        """The step's log, which EMR writes minutes later; Spark's is in `../containers`."""
        logs = re.sub(r"^s3[an]?://", "s3://", self._log_uri()).rstrip("/")
        folder = f"{logs}/{self.id}/steps/{handle}"
        if not logs:
            return f"none: the EMR cluster {self.id} has no log folder"
        path = f"{folder}/stderr.gz".removeprefix(f"{self.store.root}/")
        with suppress(EventLakeError):  # an error here must not hide the run's error
            if folder.startswith(f"{self.store.root}/") and self.store.exists(path):
                return self.store.uri(path)
        return f"{folder}/"

    def _log_uri(self) -> str:
        with suppress(EventLakeError):
            return str(describe_cluster(self.access, self.id).get("LogUri") or "")
        return f"{self.store.root}/logs"

    @property
    def _emr(self) -> Any:
        return self.access.client("emr")

    def _errors(self, what: str, action: str) -> Any:
        return emr_errors(self.access, f"{what} the EMR cluster {self.id}", action, self.id)


def _failure_reason(status: Any) -> str:
    """The state, reason and message of a failed or cancelled step."""
    details = {**status.get("StateChangeReason", {}), **status.get("FailureDetails", {})}
    words = [status["State"].lower(), details.get("Reason"), details.get("Message")]
    return ": ".join(word for word in words if word)


@contextmanager
def emr_errors(access: Access, what: str, action: str, cluster_id: str) -> Iterator[None]:
    """Raise EMR's exceptions as EventLake errors; an invalid request is an InvalidSettings."""
    permission = f"elasticmapreduce:{action}"
    partition = access.client("emr").meta.partition
    cluster = f"arn:{partition}:elasticmapreduce:{access.region}:*:cluster/{cluster_id}"
    with aws_errors(what, permission, policy_statement([permission], [cluster])):
        try:
            yield
        except ClientError as problem:
            if error_code(problem) not in INVALID_REQUEST:
                raise
            message = problem.response["Error"].get("Message", "")
            raise InvalidSettings(f"emr_cluster_id is {cluster_id!r}: {message}") from problem


def describe_cluster(access: Access, cluster_id: str) -> Any:
    with emr_errors(access, f"look at the EMR cluster {cluster_id}", "DescribeCluster", cluster_id):
        return access.client("emr").describe_cluster(ClusterId=cluster_id)["Cluster"]


def check_cluster(access: Access, cluster_id: str, check_label: Callable[[str], None]) -> None:
    """Raise InvalidSettings if a cluster does not exist or is terminated, or what `check_label`
    raises for its release label.
    """
    cluster = describe_cluster(access, cluster_id)
    status = cluster["Status"]
    if status["State"] in TERMINATED:
        reason = status.get("StateChangeReason", {}).get("Message") or ""
        raise InvalidSettings(
            f"emr_cluster_id is {cluster_id!r}: that cluster is {status['State']}"
            f"{f' ({reason})' if reason else ''}: set a running one, or "
            "remove the setting to run here"
        )
    check_label(str(cluster.get("ReleaseLabel") or ""))


def try_cluster(
    access: Access, cluster_id: str, check_label: Callable[[str], None]
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each EMR call of a run, and a function that tries it with an empty step.

    The functions return a text to show, and each needs the one before.
    """
    emr, steps = access.client("emr"), list[str]()

    def describe() -> str:
        check_cluster(access, cluster_id, check_label)
        return f"{cluster_id} accepts steps"

    def submit() -> str:
        no_op = {"Jar": "command-runner.jar", "Args": ["true"]}
        step = {"Name": "eventlake check", "ActionOnFailure": "CONTINUE", "HadoopJarStep": no_op}
        with emr_errors(
            access, f"submit a run to the EMR cluster {cluster_id}", ADD_STEPS, cluster_id
        ):
            steps.extend(emr.add_job_flow_steps(JobFlowId=cluster_id, Steps=[step])["StepIds"])
        return f"added the step {steps[0]}"

    def read() -> str:
        action = "DescribeStep"
        with emr_errors(access, f"read the state of a run on {cluster_id}", action, cluster_id):
            result = emr.describe_step(ClusterId=cluster_id, StepId=steps[0])
        return f"the step is {result['Step']['Status']['State']}"

    def cancel() -> str:
        with emr_errors(access, f"cancel a run on {cluster_id}", "CancelSteps", cluster_id):
            emr.cancel_steps(ClusterId=cluster_id, StepIds=steps)
        return "cancelled the step"

    yield "cluster", describe
    yield "submit a step", submit
    yield "read a step's state", read
    yield "cancel a step", cancel


# A cluster for one run

IDLE_SECONDS = 900
"""A cluster terminates itself after this time, in case the process that created it is killed."""
TAGS = {"for-use-with-amazon-emr-managed-policies": "true"}
OWNER_TAG = "eventlake-workspace"


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """A cluster to create for one run."""

    release_label: str
    instance_type: str
    max_instances: int
    service_role: str
    instance_profile: str
    subnet_id: str
    security_configuration: str = ""
    log_uri: str
    workspace: str = ""


@contextmanager
def temporary_cluster(spec: ClusterSpec, access: Access) -> Iterator[str]:
    """Create a cluster, yield its id, and terminate it in any case."""
    emr = access.client("emr")
    with aws_errors("create an EMR cluster", "elasticmapreduce:RunJobFlow and iam:PassRole"):
        cluster_id = str(emr.run_job_flow(**_request(spec))["JobFlowId"])
    try:
        yield cluster_id
    finally:
        with emr_errors(
            access, f"terminate the EMR cluster {cluster_id}", "TerminateJobFlows", cluster_id
        ):
            emr.terminate_job_flows(JobFlowIds=[cluster_id])


def _request(spec: ClusterSpec) -> dict[str, Any]:
    tags = TAGS | ({OWNER_TAG: spec.workspace} if spec.workspace else {})
    security = spec.security_configuration
    return {
        "Name": "eventlake",
        "ReleaseLabel": spec.release_label,
        "Applications": [{"Name": "Spark"}],
        "LogUri": spec.log_uri,
        "ServiceRole": spec.service_role,
        "JobFlowRole": spec.instance_profile,
        "Instances": {
            "Ec2SubnetId": spec.subnet_id,
            "InstanceGroups": [_group(spec, "MASTER"), _group(spec, "CORE")],
            "KeepJobFlowAliveWhenNoSteps": True,
            "TerminationProtected": False,
        },
        "ManagedScalingPolicy": {
            "ComputeLimits": {
                "UnitType": "Instances",
                "MinimumCapacityUnits": 1,
                "MaximumCapacityUnits": spec.max_instances,
            }
        },
        "AutoTerminationPolicy": {"IdleTimeout": IDLE_SECONDS},
        "VisibleToAllUsers": True,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        **({"SecurityConfiguration": security} if security else {}),
    }


def _group(spec: ClusterSpec, role: str) -> dict[str, Any]:
    return {
        "Name": role.lower(),
        "InstanceRole": role,
        "InstanceType": spec.instance_type,
        "InstanceCount": 1,
    }
