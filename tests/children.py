"""Jobs in child processes for tests: one without Spark that waits at a step, and their remains.

    python -m tests.children <step> <folder> <the arguments of eventlake.job>

runs a job that makes the file `at` in the folder when it comes to the step, and waits for `go`.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import eventlake.job
from eventlake.lakes import resolve_settings
from eventlake.runners.child import ChildRunner
from tests import lakes


def make_runner(lake: Path, logs: Path, **options: Any) -> ChildRunner:
    """The runner of users, which is asked for its state more often."""
    return ChildRunner(resolve_settings(lake), logs=logs, **{"poll_seconds": 0.1, **options})


def make_waiting_runner(
    lake: Path, folder: Path, step: str = "none", **options: Any
) -> ChildRunner:
    """A runner of jobs without Spark that wait at a step; `folder` is also that of the logs."""
    folder.mkdir(exist_ok=True)
    command = (sys.executable, "-m", "tests.children", step, str(folder))
    return make_runner(lake, folder, command=command, **options)


@dataclass(frozen=True)
class Waits:
    """Waits at a step for a file."""

    at: str
    folder: Path

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.at:
            (self.folder / "at").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.02)


def find_processes(lake: Path) -> list[psutil.Process]:
    """The living processes of a lake's jobs: drivers, and all that they started."""
    found = list[psutil.Process]()
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if f"path={lake}" in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found += [process, *process.children(recursive=True)]
    return found


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Wait for the end of processes, as a JVM's that follows its driver's."""
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def main(step: str, folder: str, *arguments: str) -> int:
    _, _, _, *rest = arguments
    return eventlake.job.main(rest, lambda _: lakes.InlineRunner(), Waits(step, Path(folder)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
