"""A lock that the Python workers of a local Spark hold as long as they live.

Spark does not wait for its workers when it stops, and one that still writes would bring back the
stage that a failed run has removed.
"""

import fcntl
import os
from pathlib import Path
from typing import IO

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

VARIABLE = "EVENTLAKE_WORKER_LOCK"
"""Has the path of the lock in the environment of a local Spark."""
WAIT_SECONDS = 10.0


def lock_path(log: Path) -> Path:
    """The lock of the workers of a JVM that writes to `log`."""
    return log.with_suffix(".workers")


def hold_lock() -> IO[bytes] | None:
    """Share the lock, until this process and those that it forks have ended; None on a cluster."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return None
    lock = Path(path).open("ab")  # noqa: SIM115 - its end is that of the process
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def wait_for_workers(log: Path) -> None:
    """Wait until no worker of the JVM that writes to `log` lives, `WAIT_SECONDS` at most."""
    with lock_path(log).open("ab") as lock:
        for attempt in Retrying(
            retry=retry_if_exception_type(BlockingIOError),
            wait=wait_fixed(0.02),
            stop=stop_after_delay(WAIT_SECONDS),
            retry_error_callback=lambda _: None,
        ):
            with attempt:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
