"""EMR for tests: moto keeps the clusters and steps, and a test says how a step goes on."""

import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

import eventlake.job
import eventlake.services.load
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.ledger import lease_path
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import SourceSettings
from eventlake.ports import NoProgress, Progress
from eventlake.services.load import LoadResult
from eventlake.stores import Store
from tests import lakes, processes
from tests.aws.answers import Answer
from tests.aws.calls import Call
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Forward

PATIENCE = 120.0


@dataclass
class Steps:
    """A rule for a proxy: moto neither ends a step nor cancels one."""

    states: dict[str, str] = field(default_factory=dict)
    """What a test says of steps; moto's first one runs at once, and the others wait."""
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    looked: Callable[[str], None] = lambda step: None
    """Called when the product asks for a step's state, before it is told."""

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        if call.action == "DescribeStep":
            self.looked(call.given["StepId"])
            return self._described(forward(call))
        if call.action == "CancelSteps":
            return self._cancel(call)
        return None

    def _described(self, answer: Answer) -> Answer:
        told = json.loads(answer.body)
        step, status = told["Step"]["Id"], told["Step"]["Status"]
        status["State"] = self.states.get(step, status["State"])
        if step in self.reasons:
            status["FailureDetails"] = self.reasons[step]
        return replace(answer, body=json.dumps(told).encode())

    def _cancel(self, call: Call) -> Answer:
        steps = call.given["StepIds"]
        self.cancelled += steps
        self.states |= dict.fromkeys(steps, "CANCELLED")
        told = [{"StepId": step, "Status": "SUBMITTED"} for step in steps]
        return Answer(200, json.dumps({"CancelStepsInfoList": told}).encode())


def make_cluster(aws: Aws, release: str = "emr-spark-8.0.0") -> str:
    """A cluster that stays, with its logs in the lake's bucket."""
    made = aws.client("emr").run_job_flow(
        Name="shared",
        ReleaseLabel=release,
        LogUri=f"s3n://{aws.bucket}/logs/",
        Instances={
            "MasterInstanceType": "m7i.xlarge",
            "SlaveInstanceType": "m7i.xlarge",
            "InstanceCount": 2,
            "KeepJobFlowAliveWhenNoSteps": True,
        },
        JobFlowRole="profile",
        ServiceRole="service",
    )
    return str(made["JobFlowId"])


def steps_of(aws: Aws, cluster: str) -> list[dict[str, Any]]:
    """A cluster's steps, oldest first, as another client sees them."""
    return list(reversed(aws.client("emr").list_steps(ClusterId=cluster)["Steps"]))


def wait_for_step(aws: Aws, cluster: str, number: int = 1) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE
    while len(found := steps_of(aws, cluster)) < number:
        assert time.monotonic() < until, "no step was submitted"
        time.sleep(0.1)
    emr = aws.client("emr")
    step: dict[str, Any] = emr.describe_step(ClusterId=cluster, StepId=found[number - 1]["Id"])
    return dict(step["Step"])


def write_settings(path: Path, **given: object) -> Path:
    """A file of lake settings."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    path.write_text("\n".join(lines))
    return path


def run_step(
    aws: Aws, step: dict[str, Any], told: Path, watch: Progress | None = None
) -> BaseProcess:
    """A step's job as a process of its own, from this checkout and without Spark.

    `watch` hears of every stage before the job itself does.
    """
    words: list[str] = step["Config"]["Args"]
    main = next(at for at, word in enumerate(words) if word.endswith("/entrypoint.py"))
    return processes.start(_job, words[main + 3 :], aws.env, told, watch or NoProgress())


def _job(arguments: list[str], env: dict[str, str], told: Path, watch: Progress) -> None:
    os.environ.update(env)
    with told.open("w") as words, redirect_stderr(words):
        code = eventlake.job.main(arguments, lambda _: lakes.InlineRunner(), watch)
    sys.exit(code)


@dataclass
class Emr:
    """A lake whose runs are on a cluster, and loads of it that go on beside the test."""

    aws: Aws
    proxy: Proxy
    steps: Steps
    cluster: str
    folder: Path
    pool: ThreadPoolExecutor
    told: dict[str, list[str]] = field(default_factory=dict)

    @property
    def lake(self) -> AwsSettings:
        return self.aws.settings(catalog="files", emr_cluster_id=self.cluster)

    def load(self, source: str = lakes.SOURCE, **options: Any) -> LoadResult:
        return eventlake.services.load.load(
            [self.folder / "raw"],
            lake=options.pop("lake", self.lake),
            settings=SourceSettings(source=source),
            progress=options.pop("progress", Told(self.told.setdefault(source, []))),
            **options,
        )

    def begin(self, source: str = lakes.SOURCE, **options: Any) -> "Future[LoadResult]":
        return self.pool.submit(self.load, source, **options)

    def run(self, step: dict[str, Any], state: str = "COMPLETED") -> tuple[int, str]:
        """Let a step's job run; how it ended and what it said."""
        told = self.folder / f"{step['Id']}.log"
        process = run_step(self.aws, step, told)
        with processes.ended(process):
            code = processes.finish(process)
        self.steps.states[step["Id"]] = state
        return code, told.read_text()

    def keys(self, prefix: str) -> list[str]:
        """What another client sees in the bucket, the code aside."""
        found = self.aws.client("s3").list_objects_v2(Bucket=self.aws.bucket, Prefix=prefix)
        keys = [one["Key"] for one in found.get("Contents", ())]
        return [key for key in keys if not key.startswith("segment-stage/code/")]

    def reports(self) -> list[dict[str, Any]]:
        bodies = (
            self.aws.client("s3").get_object(Bucket=self.aws.bucket, Key=key)["Body"].read()
            for key in self.keys("segment-data/reports/")
        )
        return [json.loads(body.splitlines()[0]) for body in bodies]


@dataclass
class Told:
    """Remembers the stages that were told, and may interrupt at one."""

    stages: list[str] = field(default_factory=list)
    interrupt: str = ""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage not in self.stages:
            self.stages.append(stage)
        if stage == self.interrupt:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Dies:
    """A job's process that is gone at a stage."""

    stage: str

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage:
            os._exit(9)


def run_of(emr: Emr) -> str:
    """The only run that has a stage."""
    (run,) = {key.split("/")[1] for key in emr.keys("segment-stage/")}
    return run


def lease_time(store: Store, run: str) -> datetime:
    found = store.find(lease_path(DEFAULT_LAYOUT, run))
    assert found is not None
    return found.modified


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def write_little(packages: object, out: IO[bytes]) -> None:
    """An environment that nobody unpacks: what is in the real one, test_emr_runs.py shows."""
    out.write(gzip.compress(b""))
