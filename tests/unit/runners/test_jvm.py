"""Spark's JVM for a local session."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from eventlake.errors import Cancelled
from eventlake.runners.java import Java
from eventlake.runners.jvm import start_gateway


@pytest.fixture
def cancelled_by_signal() -> Iterator[None]:
    """Raise `Cancelled` in the main thread at SIGUSR1, as a run does at SIGTERM."""

    def cancel(number: int, frame: FrameType | None) -> None:
        raise Cancelled

    before = signal.signal(signal.SIGUSR1, cancel)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("cancelled_by_signal")
def test_a_jvm_that_is_starting_ends_with_a_cancelled_run(tmp_path: Path) -> None:
    java, pid = tmp_path / "java", tmp_path / "pid"
    java.write_text(f"#!/bin/sh\necho $$ > {pid}\nkill -USR1 $PPID\nexec sleep 60\n")
    java.chmod(0o755)
    with pytest.raises(Cancelled):
        start_gateway(Java(str(java), ""), {"spark.driver.memory": "1g"}, tmp_path / "log", ())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
