"""A load into S3 or ADLS: an emulator on this machine, whose own time is measured apart."""

import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.measure import BenchError, run
from bench.tools import CLI, SOURCE, Landed, Timed
from bench.workload import Workload

SERVER = Path(sys.executable).parent / "moto_server"
BUCKET, REGION = "bench-lake", "us-east-1"
PATIENCE = 60.0


@dataclass(frozen=True)
class Emulator:
    """A server that answers as a cloud does, with an empty lake in it."""

    process: psutil.Process
    env: dict[str, str]
    lake: str

    @property
    def cpu(self) -> float:
        """Seconds that the server itself has worked."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def emulated_s3() -> Iterator[Emulator]:
    """An emulator of S3 while it is needed."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with tempfile.TemporaryFile() as log:
        process = psutil.Popen(
            [str(SERVER), "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for(url)
            request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=PATIENCE).close()
            yield Emulator(process, env, f"s3://{BUCKET}")
        finally:
            process.kill()
            process.wait()


@contextmanager
def emulated_adls() -> Iterator[Emulator]:
    """An emulator of Azure's blob service while it is needed."""
    from tests.azure.azurite import Azure, started

    with started() as server:
        azure = Azure(server.url)
        azure.make_container()
        yield Emulator(psutil.Process(server.pid), azure.env, azure.root)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=PATIENCE).close()
            return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise BenchError(f"{SERVER} does not answer")


def load(events: Workload, emulated: Callable[[], AbstractContextManager[Emulator]]) -> Timed:
    """`eventlake load` into a bucket; `seconds` are without those that the emulator worked."""
    with emulated() as here:
        command = ["load", str(events.folder), "--source", SOURCE, "--lake", here.lake]
        before = here.cpu
        ran = run([sys.executable, "-m", CLI, *command, "--json"], env=here.env)
        theirs = here.cpu - before
    timings = dict(ran.answer["timings"])
    landed = _landed(ran.answer)
    if landed.rows != events.distinct:
        raise BenchError(f"landed {landed.rows:,} rows where {events.distinct:,} were due")
    return Timed(
        seconds=timings["total"] - theirs,
        start_up=timings["spark_start"],
        wall=ran.wall,
        peak=ran.peak,
        landed=landed,
        details={**timings, "emulator_cpu": theirs},
    )


def _landed(answer: dict[str, Any]) -> Landed:
    files = [file for done in answer["tables"] for file in done.get("adds", ())]
    return Landed(len(files), answer["counts"]["landed"], sum(file["bytes"] for file in files))
