"""Jobs as processes on this machine.

A job is the leader of its own session: it goes on when the process that submitted it ends, and its
lease then keeps the stage. All that `state` needs is in the log, which is locked while the job
lives, so another process can follow or cancel it too.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.model.job import JobState, Phase, Step
from eventlake.model.lake import LakeSettings
from eventlake.runners.local import log_folder

TAIL_BYTES = 64 << 10
"""The end of a log in which the last step and the last error are looked for."""
_STARTED = re.compile(rb"process (\d+)\n")
_ERROR = re.compile(r"^(?:error: (.+)|([\w.]+(?:Error|Exception): .+))$", re.MULTILINE)
_FINISHED = re.compile(r"^(?:finished|partial): .*$", re.MULTILINE)
_STEP = re.compile(r'^{"stage": .+}$', re.MULTILINE)


@dataclass(frozen=True)
class ChildRunner:
    """Runs each job of a lake in a process on this machine; a job's id is that of its run."""

    lake: LakeSettings
    cores: int = 0
    """The number of tasks at a time; by default, as many as there are cores."""
    memory: str = "1g"
    """The largest heap of the job's JVM; Python workers have their memory outside it."""
    logs: Path | None = None
    """The folder of logs; by default one in the temporary folder that only this user can read."""
    grace_seconds: float = 30.0
    """How long a cancelled job may take to clean up before it is killed."""
    poll_seconds: float = 1.0
    command: Sequence[str] = (sys.executable, "-P", "-m", "eventlake.job")
    """What is started; the job's arguments follow."""
    _children: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict, init=False)
    reads_local_files = True

    def submit(self, name: str, job: str) -> str:
        handle = Path(job).parent.name
        path = self._log_path(handle)
        master = f"local[{self.cores or '*'}]"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as problem:
            raise InsufficientPermissions(
                f"cannot write the log {path}: {problem.strerror}"
            ) from problem
        try:
            fcntl.flock(log, fcntl.LOCK_EX)  # the job inherits it, and it ends with the job
            arguments = (str(path), master, self.memory, job, *self.lake.to_words())
            child = subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            os.write(log, f"{name}: process {child.pid}\n".encode())
        except OSError as problem:
            raise InvalidSettings(
                f"cannot start {self.command[0]}: {problem.strerror}"
            ) from problem
        finally:
            os.close(log)
        self._children[handle] = child
        return handle

    def state(self, handle: str) -> JobState:
        is_running = self._is_running(handle)
        text = self._read_tail(handle)  # after that: a job that has ended has written all of it
        if is_running:
            return JobState(Phase.RUNNING, step=_last_step(text))
        child = self._children.get(handle)
        status = child.returncode if child else None
        if status == 0 or (status is None and _FINISHED.search(text)):
            return JobState(Phase.ENDED, step=_last_step(text))
        return JobState(Phase.FAILED, _failure_reason(status, text))

    def cancel(self, handle: str) -> None:
        """Ask the job to end, and kill its processes if it has not done so in `grace_seconds`.

        A job that has begun to commit finishes if that time is enough; otherwise the next run of
        the source finishes its commit.
        """
        pid = self._find_pid(handle)
        for number, seconds in ((signal.SIGTERM, self.grace_seconds), (signal.SIGKILL, 10.0)):
            until = SYSTEM_CLOCK.monotonic() + seconds
            if pid and self._is_running(handle):
                with suppress(ProcessLookupError):
                    (os.killpg if number == signal.SIGKILL else os.kill)(pid, number)
            while self._is_running(handle) and SYSTEM_CLOCK.monotonic() < until:
                SYSTEM_CLOCK.sleep(0.05)

    def log(self, handle: str) -> str:
        return str(self._log_path(handle))

    def _log_path(self, handle: str) -> Path:
        return (self.logs or log_folder()).absolute() / f"job-{handle}.log"

    def _is_running(self, handle: str) -> bool:
        if child := self._children.get(handle):
            return child.poll() is None
        try:
            with self._log_path(handle).open("rb") as log:
                fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _find_pid(self, handle: str) -> int:
        """The job's process by its log; 0 if the log does not say."""
        if child := self._children.get(handle):
            return child.pid
        with suppress(OSError):
            with self._log_path(handle).open("rb") as log:
                found = _STARTED.search(log.read(TAIL_BYTES))
            return int(found[1]) if found else 0
        return 0

    def _read_tail(self, handle: str) -> str:
        """The last whole lines of a log; empty if there is none."""
        try:
            with self._log_path(handle).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
                return log.read().decode("utf-8", "replace").rpartition("\n")[0]
        except OSError:
            return ""


def _last_step(text: str) -> Step | None:
    steps = _STEP.findall(text)
    return Step(**json.loads(steps[-1])) if steps else None


def _failure_reason(status: int | None, text: str) -> str:
    """Why a job failed: a signal, or the last error in its log, with the exit status if known."""
    if status is not None and status < 0:
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    errors = [error or raised for error, raised in _ERROR.findall(text)]
    lines = [line for line in text.splitlines() if line.strip() and not _STEP.match(line)]
    reason = (errors or lines or ["its log is empty"])[-1]
    return reason if status is None else f"exit status {status}: {reason}"
