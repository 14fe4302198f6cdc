"""Arguments of spark-submit for a job on a cluster, and the job's session there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    # Python does the work outside the JVM, and containers that exceed their memory are killed:
    # request most of the memory as overhead.
    "spark.driver.memory": "2g",
    "spark.driver.memoryOverhead": "4g",
    "spark.executor.cores": "2",
    "spark.executor.memory": "1g",
    "spark.executor.memoryOverhead": "5g",
}
POLL_SECONDS = 5.0
"""Seconds between two requests for the state of a job on a cluster."""
PARALLELISM = 16
"""Used when the settings do not give the cluster's size."""


@dataclass(frozen=True)
class JobProgram:
    """What a cluster needs to run the jobs of a lake."""

    code: Code
    python: str
    """The cluster's Python; empty for `python3.x` of the packed version."""
    python_setting: str
    """The setting that names the cluster's Python, for messages."""
    settings: tuple[str, ...]
    """The lake's settings as words `name=value`, without secrets. Not JSON: YARN's shell would
    change quotes and braces."""

    def conf(self, driver_env: str) -> dict[str, str]:
        """Spark settings for a job; `driver_env` is the prefix of settings for driver variables."""
        return {
            **CONF,
            "spark.pyspark.python": self.python or f"python{self.code.tag.partition('-')[0]}",
            f"{driver_env}PYTHONPATH": self.code.path,
            "spark.executorEnv.PYTHONPATH": self.code.path,
        }

    def arguments(self, job: str) -> list[str]:
        """Arguments of entrypoint.py for the job stored at `job`."""
        return [self.code.tag, self.python_setting, job, *self.settings]


def conf_arguments(conf: Mapping[str, str]) -> list[str]:
    return [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]


@dataclass(frozen=True)
class SubmittedSpark:
    """Provides the session of the Spark application that the cluster has started."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that the lake needs."""

    def session(self) -> "SparkSession":
        # Imported here because it takes a second.
        from pyspark.sql import SparkSession  # noqa: PLC0415

        return SparkSession.builder.config(map=dict(self.settings)).getOrCreate()

    def stop(self) -> None:
        self.session().stop()

    @property
    def parallelism(self) -> int:
        conf = self.session().conf
        names = ("spark.default.parallelism", "spark.executor.instances", "spark.executor.cores")
        return parallelism(*(int(conf.get(name, "0") or 0) for name in names))


def on_running_cluster(settings: Mapping[str, str]) -> SubmittedSpark:
    """The session of a cluster that was not started for the job, with what a session can set."""
    own = {name: value for name, value in CONF.items() if name.startswith("spark.sql.")}
    return SubmittedSpark({**own, **settings})


def parallelism(default: int, executors: int, cores: int) -> int:
    """Number of tasks at a time by an application's settings, each of which may be 0 (unset)."""
    return default or executors * cores or PARALLELISM
