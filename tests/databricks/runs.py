"""Runs of the stand-in: each a process that has only what was submitted, and a Spark release."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventlake.runners.wheel import JobFiles
from tests.databricks.http_server import Refused
from tests.downloads import cached, pip_install, spark_release
from tests.processes import SHORT_LIVED, end_session

SPARK_OF_RUNTIME = {"15": "3.5.9", "16": "3.5.9", "17": "4.0.5"}
"""The release of Spark that a runtime has, by its first number."""
FORBIDDEN = ("pyspark", "py4j")


def installed(requirements: str) -> Path:
    """A folder with the packages of a list, as a cluster installs them."""
    wanted = requirements.split()
    assert not [one for one in wanted if one.startswith(FORBIDDEN)], "a cluster has its own Spark"
    name = f"job-packages-{sha256(requirements.encode()).hexdigest()[:16]}"
    return cached("What jobs need", name, lambda new: pip_install(new, "--no-deps", *wanted))


def download_job_packages() -> None:
    """Install what the jobs of the tests need."""
    installed(JobFiles(("azure",)).contents[JobFiles.requirements].decode())


@dataclass
class JobRun:
    """A submitted run: a process once its cluster is up, and how it ended."""

    number: int
    task: Mapping[str, Any]
    name: str
    folder: Path
    runtime: str
    environment: Mapping[str, str]
    files: Mapping[str, bytes]
    process: "subprocess.Popen[bytes] | None" = None
    cancelled: bool = False
    starting: threading.Thread | None = None
    ended: dict[str, str] = field(default_factory=dict)
    """What a test says of the end of the run, instead of its process."""

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text() if (self.folder / "log").exists() else ""

    def start_later(self) -> None:
        """Start when its cluster has installed the libraries, which may take minutes."""
        self.starting = threading.Thread(target=self._try_start)
        self.starting.start()

    def _try_start(self) -> None:
        try:
            self._start()
        except BaseException as problem:  # the run fails, as on a cluster
            said = {"life_cycle_state": "INTERNAL_ERROR", "result_state": "FAILED"}
            self.ended = {**said, "state_message": f"Library installation failed: {problem}"}

    def _start(self) -> None:
        self.folder.mkdir(parents=True)
        script = self.folder / "script.py"
        script.write_bytes(self._file(self.task["spark_python_task"]["python_file"]))
        (wheel,) = (one["whl"] for one in self.task["libraries"] if "whl" in one)
        (listed,) = (one["requirements"] for one in self.task["libraries"] if "requirements" in one)
        self._install(wheel)
        packages = installed(self._file(listed).decode())
        spark = spark_release(SPARK_OF_RUNTIME[self.runtime.partition(".")[0]])
        kept = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
        plain = Path(sys._base_executable)  # type: ignore[attr-defined]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(plain), str(script), *self.task["spark_python_task"]["parameters"]],
                cwd=self.folder,
                env={
                    **kept,
                    **SHORT_LIVED,
                    **self.environment,
                    "PATH": f"{plain.parent}:/usr/bin:/bin",
                    "HOME": str(self.folder),
                    "PYTHONNOUSERSITE": "1",
                    "PYTHONPATH": f"{self.folder}/wheel:{packages}:{spark}",
                    "PYSPARK_PYTHON": str(plain),
                    "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell",
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _file(self, path: str) -> bytes:
        if path not in self.files:
            raise Refused(400, "INVALID_PARAMETER_VALUE", f"Cannot read the file {path}")
        return self.files[path]

    def _install(self, path: str) -> None:
        """As pip does with a wheel that has only Python: name and content are checked."""
        place = self.folder / path.rpartition("/")[2]
        place.write_bytes(self._file(path))
        target = str(self.folder / "wheel")
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index")
        subprocess.run(
            [*pip, "--disable-pip-version-check", "--target", target, str(place)], check=True
        )
        assert zipfile.is_zipfile(place)

    def stop(self) -> None:
        """Kill the process, as a workspace does with the shell of a cancelled run."""
        if self.starting is not None:
            self.starting.join()
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process is not None:
            end_session(self.process.pid, grace=0.0)

    @property
    def state(self) -> dict[str, str]:
        if self.ended:
            return self.ended
        if self.cancelled:
            said = "Run cancelled."
            return {**_over("CANCELED"), "state_message": said}
        if self.process is None:
            return {"life_cycle_state": "PENDING", "state_message": "Waiting for cluster"}
        code = self.process.poll()
        if code is None:
            return {"life_cycle_state": "RUNNING", "state_message": "In run"}
        return _over("SUCCESS" if code == 0 else "FAILED")

    def shown(self, host: str) -> dict[str, Any]:
        task = {"run_id": self.number + 1000, "task_key": self.task["task_key"]}
        return {
            "run_id": self.number,
            "run_name": self.name,
            "state": self.state,
            "tasks": [{**task, "state": self.state}],
            "run_page_url": f"{host}/?o=1#job/0/run/{self.number}",
        }

    def output(self) -> dict[str, Any]:
        failed = self.state.get("result_state") == "FAILED"
        last = self.log.strip().rpartition("\n")[2]
        error = {"error": last, "error_trace": self.log} if failed else {}
        return {"logs": self.log, **error}


def _over(result: str) -> dict[str, str]:
    return {"life_cycle_state": "TERMINATED", "result_state": result, "state_message": ""}


NUMBERS = itertools.count(1)
