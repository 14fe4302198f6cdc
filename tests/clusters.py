"""Standalone Spark clusters for tests."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests import processes
from tests.aws.moto import free_port

SPARK = Path(pyspark.__file__).parent
"""The home of the installed Spark."""


@contextmanager
def standalone(
    folder: Path, *, home: Path = SPARK, workers: int = 1, cores: int = 1, memory: str = "1g"
) -> Iterator[str]:
    """Start a master and workers of the Spark at `home`; yield the master's address.

    `folder` gets their logs, and below `work` the folders of executors.
    """
    port, log = str(free_port()), folder / "master.log"
    address = f"spark://127.0.0.1:{port}"
    loopback = ("--host", "127.0.0.1", "--webui-port", "0")
    running = [_start(home, log, "master.Master", *loopback, "--port", port)]
    try:
        size = ("--cores", str(cores), "--memory", memory)
        for number in range(workers):
            worker = folder / f"worker-{number}.log"
            running.append(_start(home, worker, "worker.Worker", *loopback, *size, address))
        _wait_for_text(log, "Registering worker", times=workers)
        yield address
    finally:
        for process in running:
            process.kill()
            process.wait()
            processes.end_session(process.pid, grace=5.0)


def _start(home: Path, log: Path, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a master or a worker in a session of its own."""
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


def _wait_for_text(log: Path, text: str, times: int) -> None:
    until = time.monotonic() + 60
    while not log.exists() or log.read_text(errors="replace").count(text) < times:
        assert time.monotonic() < until, f"{log} never said {text!r}"
        time.sleep(0.1)
