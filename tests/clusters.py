"""Standalone Spark clusters for tests."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests import processes
from tests.java import find_full_java

SPARK = Path(pyspark.__file__).parent
"""The home of the installed Spark."""


@contextmanager
def standalone(
    folder: Path, *, home: Path = SPARK, workers: int = 1, cores: int = 1, memory: str = "1g"
) -> Iterator[str]:
    """Start a master and workers of the Spark at `home`; yield the master's address.

    `folder` gets their logs, and below `work` the folders of executors.
    """
    log, loopback = folder / "master.log", ("--host", "127.0.0.1", "--webui-port", "0")
    running = [_start(home, log, "master.Master", *loopback, "--port", "0")]
    try:
        address = processes.wait_for_line(
            log, r"Starting Spark master at (spark://\S+)", running[0]
        )
        size = ("--cores", str(cores), "--memory", memory)
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        running += [_start(home, one, "worker.Worker", *loopback, *size, address) for one in logs]
        for one, worker in zip(logs, running[1:], strict=True):
            processes.wait_for_line(one, "(Successfully registered)", worker)
        yield address
    finally:
        for process in running:
            process.kill()
            process.wait()
            processes.end_session(process.pid, grace=5.0)


def _start(home: Path, log: Path, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a master or a worker in a session of its own."""
    find_full_java()
    environment = {
        **os.environ,
        **processes.SHORT_LIVED,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(log.parent / "work"),
    }
    with log.open("ab") as out:
        return subprocess.Popen(
            [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
