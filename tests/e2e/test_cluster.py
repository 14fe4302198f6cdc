"""A real standalone cluster: one master, two workers, the same tables."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests import lakes, processes
from tests.pipeline.test_order import archive, check_same, load_each

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

HOME = Path(pyspark.__file__).parent


def daemon(log: Path, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """A master or a worker of Spark, in a session of its own."""
    environment = {
        **os.environ,
        **processes.SHORT_LIVED,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(log.parent / "work"),
    }
    with log.open("ab") as out:
        return subprocess.Popen(
            [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


@contextmanager
def cluster(folder: Path, workers: int, *size: str) -> Iterator[str]:
    """The address of a master with some workers, while they run."""
    log, loopback = folder / "master.log", ("--host", "127.0.0.1", "--webui-port", "0")
    running = [daemon(log, "master.Master", *loopback, "--port", "0")]
    try:
        address = processes.wait_for_line(
            log, r"Starting Spark master at (spark://\S+)", running[0]
        )
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        running += [daemon(one, "worker.Worker", *loopback, *size, address) for one in logs]
        for one, worker in zip(logs, running[1:], strict=True):
            processes.wait_for_line(one, "(Successfully registered)", worker)
        yield address
    finally:
        for process in running:
            process.kill()
            process.wait()
            processes.end_session(process.pid, grace=5.0)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(
        tmp_path_factory.mktemp("cluster"), 2, "--cores", "1", "--memory", "1g"
    ) as address:
        yield address


def test_a_cluster_makes_the_same_tables(
    master: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    archives = archive(tmp_path / "raw")
    del archives["many"]  # the mixed ones are as many
    lakes.load(archives["one"], tmp_path / "wanted")
    wanted = lakes.assert_complete(tmp_path / "wanted")
    process = processes.start(load_each, archives, tmp_path, master)
    with processes.ended(process):
        assert processes.finish(process) == 0
    for name in archives:
        with subtests.test(name=name):
            check_same(lakes.read_contents(tmp_path / name), wanted)
