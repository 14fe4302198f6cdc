"""A load into S3: an emulator on this machine, whose own time is told apart."""

import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
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
    """A server that answers as AWS does."""

    process: psutil.Popen
    url: str

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def cpu(self) -> float:
        """Seconds that the server itself has worked."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def make_bucket(self) -> None:
        request = urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=PATIENCE).close()


@contextmanager
def emulator() -> Iterator[Emulator]:
    """An emulator with an empty bucket while it is needed."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = psutil.Popen(
            [str(SERVER), "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            here = Emulator(process, f"http://127.0.0.1:{port}")
            _wait_for(here)
            here.make_bucket()
            yield here
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(here: Emulator) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"{here.url}/moto-api/data.json", timeout=PATIENCE).close()
            return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise BenchError(f"{SERVER} does not answer")


def load(events: Workload) -> Timed:
    """`eventlake load` into a bucket; `seconds` are without those that the emulator worked."""
    with emulator() as here:
        command = ["load", str(events.folder), "--source", SOURCE, "--lake", f"s3://{BUCKET}"]
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
