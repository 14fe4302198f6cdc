"""Processes for tests: every wait has an end, and nothing that was started stays."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 300.0
"""Seconds that any process may take; it is killed then and the test fails."""
# A JVM that lives for seconds is not worth optimising: it starts in half the time.
SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["tests.lakes", "tests.control.workspaces"])


def start(work: Callable[..., None], *given: Any) -> BaseProcess:
    """A process of its own session, forked from one that has everything imported."""
    process = _fork.Process(target=_lead, args=(work, *given), daemon=True)
    process.start()
    return process


def _lead(work: Callable[..., None], *given: Any) -> None:
    os.setsid()
    os.environ.update(SHORT_LIVED)
    work(*given)


def finish(process: BaseProcess) -> int:
    """Wait for a process and all that it started; its exit code."""
    assert process.pid is not None
    process.join(PATIENCE)
    late = process.is_alive()
    end_session(process.pid, grace=0.0 if late else 20.0)
    process.join(10)
    assert not late, f"a process took more than {PATIENCE:.0f} s"
    return process.exitcode if process.exitcode is not None else -1


def end_session(session: int, grace: float = 20.0) -> None:
    """Wait until a session's processes are gone, such as a dead driver's JVM; kill who stays."""
    until = time.monotonic() + grace
    while members := _members(session):
        late = time.monotonic() - until
        assert late < 10, f"{members} cannot be ended"
        if late > 0:
            for pid in members:
                _kill(pid)
        time.sleep(0.05)


def _members(session: int) -> list[int]:
    return [pid for pid in psutil.pids() if _session_of(pid) == session and _lives(pid)]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


COMMAND = str(Path(sys.executable).parent / "eventlake")


def command(*arguments: object, **changes: Any) -> Ran:
    """The installed command, run to its end."""
    process = popen(*arguments, **changes)
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
        end_session(process.pid, grace=10.0)
    return Ran(process.returncode, out, err)


def popen(
    *arguments: object, env: Mapping[str, str] = os.environ, **changes: Any
) -> "subprocess.Popen[str]":
    """The installed command in a session of its own."""
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        env={**env, **SHORT_LIVED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **changes,
    )


# Waiting for each other


@dataclass(frozen=True)
class Meet:
    """Waits at a step until as many others as there are names have come there too."""

    folder: Path
    name: str
    others: tuple[str, ...]
    stage: str = "commit"

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage:
            (self.folder / self.name).touch()
            for other in self.others:
                wait_for(self.folder / other)


def wait_for(path: Path) -> None:
    until = time.monotonic() + PATIENCE / 2
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} never came"
        time.sleep(0.01)


def wait_for_line(log: Path, pattern: str, writer: "subprocess.Popen[bytes]") -> str:
    """Wait until a process has written a text to its log; return the first group of the match."""
    until = time.monotonic() + PATIENCE / 2
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        alive = writer.poll() is None and time.monotonic() < until
        assert alive, f"{pattern!r} is not in the log: {log.read_text(errors='replace')[-4000:]}"
        time.sleep(0.05)
    return found[1]


@contextmanager
def ended(*processes: BaseProcess) -> Iterator[None]:
    """Whatever happens, none of these processes is left behind."""
    try:
        yield
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            finish(process)
