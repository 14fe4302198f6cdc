"""Runs on EMR Serverless, and on a cluster that is made for one run."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import eventlake.services.load
from eventlake.errors import InsufficientPermissions, Internal, InvalidSettings
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.runners import package
from eventlake.runners.emr import EmrRunner
from eventlake.runners.emr_serverless import EmrServerlessRunner
from eventlake.services.load import LoadResult
from tests import lakes, processes
from tests.aws.answers import Answer, refusal
from tests.aws.calls import Call
from tests.aws.emr import (
    Steps,
    Told,
    run_step,
    steps_of,
    wait_for_step,
    wait_until,
    write_little,
)
from tests.aws.moto import ACCOUNT, Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Forward

ROLE = f"arn:aws:iam::{ACCOUNT}:role/runs"


@pytest.fixture
def loads(
    aws: Aws, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["Loads"]:
    for runner in (EmrRunner, EmrServerlessRunner):
        monkeypatch.setattr(runner, "poll_seconds", 0.1)
    monkeypatch.setattr(package, "write_environment", write_little)
    lakes.small_sample(tmp_path / "raw")
    with ThreadPoolExecutor(1) as pool:
        yield Loads(aws, proxy, tmp_path, pool)


@dataclass
class Loads:
    """Loads that go on beside the test."""

    aws: Aws
    proxy: Proxy
    folder: Path
    pool: ThreadPoolExecutor

    def load(self, lake: AwsSettings, **options: Any) -> LoadResult:
        given = {"lake": lake, "settings": lakes.SETTINGS, **options}
        return eventlake.services.load.load([self.folder / "raw"], **given)

    def begin(self, lake: AwsSettings, **options: Any) -> "Future[LoadResult]":
        return self.pool.submit(self.load, lake, **options)

    def run(self, step: dict[str, Any]) -> int:
        process = run_step(self.aws, step, self.folder / "job.log")
        with processes.ended(process):
            return processes.finish(process)

    def stage(self) -> list[str]:
        given = {"Bucket": self.aws.bucket, "Prefix": "segment-stage/"}
        found = self.aws.client("s3").list_objects_v2(**given).get("Contents", ())
        return [one["Key"] for one in found if "/code/" not in one["Key"]]


# Serverless


@dataclass
class JobRuns:
    """A rule for a proxy: of itself, a job run of moto's goes on for ever."""

    state: str = "RUNNING"
    denied: str = ""
    asked: list[str] = field(default_factory=list)

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        if call.service != "emr-serverless":
            return None
        self.asked.append(call.method)
        if call.method == self.denied:
            return refusal(call, 403, "AccessDeniedException", "no identity-based policy allows it")
        answer = forward(call)
        if call.method != "GET" or answer.status != 200:
            return answer
        told = json.loads(answer.body)
        told["jobRun"] |= {"state": self.state, "stateDetails": "as the test says"}
        return replace(answer, body=json.dumps(told).encode())


def make_application(aws: Aws) -> str:
    given = {"name": "runs", "releaseLabel": "emr-7.9.0", "type": "SPARK", "clientToken": "once"}
    return str(aws.client("emr-serverless").create_application(**given)["applicationId"])


def serverless(aws: Aws, application: str) -> AwsSettings:
    return aws.settings(
        catalog="files",
        emr_serverless_application_id=application,
        emr_serverless_role_arn=ROLE,
    )


def job_runs(client: Any, application: str) -> list[Any]:
    try:
        return list(client.list_job_runs(applicationId=application)["jobRuns"])
    except client.exceptions.ResourceNotFoundException:  # moto's way to say that there are none
        return []


def job_run(aws: Aws, application: str) -> dict[str, Any]:
    """The only job run, as another client sees it."""
    client = aws.client("emr-serverless")
    wait_until(lambda: bool(job_runs(client, application)))
    (found,) = job_runs(client, application)
    return dict(client.get_job_run(applicationId=application, jobRunId=found["id"])["jobRun"])


def as_step(found: dict[str, Any]) -> dict[str, Any]:
    driver = found["jobDriver"]["sparkSubmit"]
    return {"Config": {"Args": [driver["entryPoint"], *driver["entryPointArguments"]]}}


def test_an_application_runs_a_load(loads: Loads) -> None:
    application, runs = make_application(loads.aws), JobRuns("SCHEDULED")
    with loads.proxy.ruled(runs):
        loading = loads.begin(serverless(loads.aws, application))
        found = job_run(loads.aws, application)
        driver = found["jobDriver"]["sparkSubmit"]
        code = f"s3://{loads.aws.bucket}/segment-stage/code/"
        words = driver["sparkSubmitParameters"].split()
        assert found["executionRole"] == ROLE
        assert driver["entryPoint"].startswith(code)
        assert words[words.index("--archives") + 1].startswith(code)
        driver_path = "spark.emr-serverless.driverEnv.PYTHONPATH=./code:./environment"
        assert {driver_path, "spark.executorEnv.PYTHONPATH=./code:./environment"} <= {*words}
        assert not [word for word in words if "yarn" in word]
        assert loads.run(as_step(found)) == 0
        runs.state = "SUCCESS"
        result = loading.result()
    assert (result.status, loads.stage()) == ("finished", [])


def test_a_failed_job_run_names_its_log(loads: Loads) -> None:
    application, runs = make_application(loads.aws), JobRuns("FAILED")
    with loads.proxy.ruled(runs), pytest.raises(Internal) as failed:
        loads.load(serverless(loads.aws, application))
    run = job_run(loads.aws, application)["jobRunId"]
    log = f"s3://{loads.aws.bucket}/logs/applications/{application}/jobs/{run}/"
    assert log in str(failed.value)
    assert "failed: as the test says" in str(failed.value)
    assert loads.stage() == []


def test_an_interrupted_job_run_is_cancelled(loads: Loads) -> None:
    application = make_application(loads.aws)
    with loads.proxy.ruled(JobRuns()), pytest.raises(KeyboardInterrupt):
        loads.load(serverless(loads.aws, application), progress=Told(interrupt="run"))
    assert job_run(loads.aws, application)["state"] == "CANCELLED"
    assert loads.stage() == []


def test_a_missing_application_is_named(loads: Loads) -> None:
    with pytest.raises(InvalidSettings, match="emr_serverless_application_id is '00nothere'"):
        loads.load(serverless(loads.aws, "00nothere"))


@pytest.mark.parametrize(
    ("method", "action"),
    [("POST", "emr-serverless:StartJobRun and iam:PassRole"), ("GET", "emr-serverless:GetJobRun")],
)
def test_a_missing_permission_of_serverless_is_named(
    loads: Loads, method: str, action: str
) -> None:
    application = make_application(loads.aws)
    with (
        loads.proxy.ruled(JobRuns(denied=method)),
        pytest.raises(InsufficientPermissions, match=f"grant {action}"),
    ):
        loads.load(serverless(loads.aws, application))


# A cluster for one run


def for_one_run(aws: Aws) -> AwsSettings:
    return aws.settings(
        catalog="files",
        workspace_id="acme",
        emr_service_role="eventlake-emr-service",
        emr_instance_profile="eventlake-emr-instance",
        emr_subnet_id=aws.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"],
        emr_security_configuration="imds-v2",
        emr_python="python3",  # whichever runs the tests
    )


def clusters(aws: Aws) -> list[dict[str, Any]]:
    emr = aws.client("emr")
    found = emr.list_clusters()["Clusters"]
    return [emr.describe_cluster(ClusterId=one["Id"])["Cluster"] for one in found]


def test_a_temporary_cluster_is_as_asked_and_ends_with_its_run(loads: Loads) -> None:
    steps = Steps()
    with loads.proxy.ruled(steps):
        loading = loads.begin(for_one_run(loads.aws), temporary_cluster=True)
        wait_until(lambda: bool(clusters(loads.aws)))
        (made,) = clusters(loads.aws)
        step = wait_for_step(loads.aws, made["Id"])
        assert made["ReleaseLabel"] == "emr-spark-8.1.0"
        assert made["LogUri"] == f"s3://{loads.aws.bucket}/logs/"
        assert made["SecurityConfiguration"] == "imds-v2"
        tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
        assert tags == {
            "for-use-with-amazon-emr-managed-policies": "true",
            "eventlake-workspace": "acme",
        }
        assert f"emr_cluster_id={made['Id']}" in step["Config"]["Args"]
        assert loads.run(step) == 0
        steps.states[step["Id"]] = "COMPLETED"
        result = loading.result()
    assert result.status == "finished"
    assert [one["Status"]["State"] for one in clusters(loads.aws)] == ["TERMINATED"]
    (asked,) = loads.proxy.asked("RunJobFlow")
    assert asked.given["AutoTerminationPolicy"] == {"IdleTimeout": 900}
    limits = asked.given["ManagedScalingPolicy"]["ComputeLimits"]
    assert (limits["MinimumCapacityUnits"], limits["MaximumCapacityUnits"]) == (1, 8)


def test_a_temporary_cluster_ends_when_its_run_cannot_begin(loads: Loads) -> None:
    with (
        loads.proxy.ruled(Denied("elasticmapreduce:AddJobFlowSteps")),
        pytest.raises(InsufficientPermissions, match="AddJobFlowSteps"),
    ):
        loads.load(for_one_run(loads.aws), temporary_cluster=True)
    assert [one["Status"]["State"] for one in clusters(loads.aws)] == ["TERMINATED"]


def test_a_temporary_cluster_ends_when_its_step_fails(loads: Loads) -> None:
    steps = Steps()
    steps.looked = lambda step: steps.states.update({step: "FAILED"})
    with loads.proxy.ruled(steps), pytest.raises(Internal):
        loads.load(for_one_run(loads.aws), temporary_cluster=True)
    assert [one["Status"]["State"] for one in clusters(loads.aws)] == ["TERMINATED"]


def test_a_temporary_cluster_ends_when_its_run_is_interrupted(loads: Loads) -> None:
    steps, told = Steps(), Told(interrupt="run")
    with loads.proxy.ruled(steps), pytest.raises(KeyboardInterrupt):
        loads.load(for_one_run(loads.aws), temporary_cluster=True, progress=told)
    (made,) = clusters(loads.aws)
    assert made["Status"]["State"] == "TERMINATED"
    assert steps.cancelled == [step["Id"] for step in steps_of(loads.aws, made["Id"])]


def test_a_cluster_that_may_not_be_made_is_told(loads: Loads) -> None:
    with (
        loads.proxy.ruled(Denied("elasticmapreduce:RunJobFlow")),
        pytest.raises(InsufficientPermissions, match="RunJobFlow and iam:PassRole"),
    ):
        loads.load(for_one_run(loads.aws), temporary_cluster=True)


def test_a_temporary_cluster_needs_its_settings(loads: Loads) -> None:
    with pytest.raises(InvalidSettings, match="emr_service_role, emr_instance_profile, emr_subnet"):
        loads.load(loads.aws.settings(catalog="files"), temporary_cluster=True)
    assert clusters(loads.aws) == []
    with pytest.raises(InvalidSettings, match="and this one is local"):
        eventlake.services.load.load(
            [loads.folder / "raw"],
            lake=loads.folder / "lake",
            settings=lakes.SETTINGS,
            temporary_cluster=True,
        )
