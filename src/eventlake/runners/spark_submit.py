"""What Spark is told when a job goes to a cluster, and the session that the job finds there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlake.model.lake import AwsSettings
from eventlake.runners.package import Code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # As in runners/local.py: one task is one small result, and rows never pass through the JVM.
    "spark.driver.maxResultSize": "0",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "eventlake.runners.daemon",
    # The work is done by Python beside the JVM, and a container that takes more than it asked for
    # is killed: so most of it is asked for as overhead.
    "spark.driver.memory": "2g",
    "spark.driver.memoryOverhead": "4g",
    "spark.executor.cores": "2",
    "spark.executor.memory": "1g",
    "spark.executor.memoryOverhead": "5g",
}
PARALLELISM = 16
"""When the cluster does not say how large it is; beyond this, tasks are sized by bytes."""


def conf(code: Code, python: str, driver_env: str) -> dict[str, str]:
    """Spark's settings for a job; `driver_env` is what a driver's variables are named by there."""
    return {
        **CONF,
        "spark.pyspark.python": python or f"python{code.tag.partition('-')[0]}",
        f"{driver_env}PYTHONPATH": code.path,
        "spark.executorEnv.PYTHONPATH": code.path,
    }


def conf_arguments(given: Mapping[str, str]) -> list[str]:
    return [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]


def job_arguments(code: Code, settings: AwsSettings, job: str) -> list[str]:
    """What main.py is told. Words instead of JSON: YARN's shell would have quotes and braces.

    Who calls AWS on the cluster is the cluster's own affair, so nothing secret is among them.
    """
    told = settings.model_copy(update={"profile": "", "credentials_file": ""})
    given = told.model_dump(mode="json", exclude_defaults=True)
    return [code.tag, job, *(f"{name}={value}" for name, value in given.items())]


@dataclass(frozen=True)
class SubmittedSpark:
    """Runs in the Spark application that a cluster has started."""

    def session(self) -> "SparkSession":
        # Nothing else here needs a second to load.
        from pyspark.sql import SparkSession  # noqa: PLC0415

        return SparkSession.builder.getOrCreate()

    @property
    def parallelism(self) -> int:
        told = self.session().conf
        names = ("spark.default.parallelism", "spark.executor.instances", "spark.executor.cores")
        return parallelism(*(int(told.get(name, "0") or 0) for name in names))


def parallelism(told: int, executors: int, cores: int) -> int:
    """How many tasks run at a time, as far as an application's settings say."""
    return told or executors * cores or PARALLELISM
