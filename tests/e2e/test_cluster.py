"""A real standalone cluster: one master, two workers, the same tables."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests import lakes, processes
from tests.pipeline.test_order import archive, check_same, load_each

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

HOME = Path(pyspark.__file__).parent


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


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


def wait_for_text(log: Path, text: str, times: int = 1) -> None:
    until = time.monotonic() + 60
    while not log.exists() or log.read_text(errors="replace").count(text) < times:
        assert time.monotonic() < until, f"{log} never said {text!r}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    port, log = str(free_port()), folder / "master.log"
    address = f"spark://127.0.0.1:{port}"
    loopback = ("--host", "127.0.0.1", "--webui-port", "0")
    running = [daemon(log, "master.Master", *loopback, "--port", port)]
    try:
        for number in (1, 2):
            size = ("--cores", "1", "--memory", "1g")
            worker = folder / f"worker-{number}.log"
            running.append(daemon(worker, "worker.Worker", *loopback, *size, address))
        wait_for_text(log, "Registering worker", times=2)
        yield address
    finally:
        for process in running:
            process.kill()
            process.wait()
            processes.end_session(process.pid, grace=5.0)


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
