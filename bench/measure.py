"""Running a command: how long it took, and the most memory that all its processes had at once."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from bench.folders import ROOT

EVERY = 0.2
"""Seconds between two looks at the memory."""
CLOSER = 10
"""Of so many looks one is a close one in any case."""


class BenchError(Exception):
    """A tool that did not do its part; the message says what it said."""


@dataclass(frozen=True)
class Ran:
    """What a command printed, as JSON, and what it cost."""

    answer: dict[str, Any]
    wall: float
    peak: int


def run(command: list[str], env: dict[str, str] | None = None) -> Ran:
    """Run a command that prints one JSON object on its last line or as its whole output."""
    os.sync()  # what the tool before left unwritten is not this one's cost
    began = time.perf_counter()
    # Spark's JVM would outlive a benchmark that is interrupted, so its whole tree ends with it.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watch = MemoryWatch(process.pid)
        try:
            out, err = process.communicate()
            wall = time.perf_counter() - began
        finally:
            watch.stop()
            _end(watch.seen())
    if process.returncode:
        raise BenchError(_complaint(process.returncode, out, err))
    return Ran(_answer(out), wall, watch.peak)


class MemoryWatch:
    """Looks at a process and its descendants until it is stopped."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._largest, self._looks = 0, 0
        self._root = psutil.Process(pid)
        self._seen = {self._root}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def seen(self) -> set[psutil.Process]:
        """Every process that was ever part of the tree."""
        return self._seen

    def _look(self) -> None:
        self._look_once()
        while not self._stop.wait(EVERY):
            self._look_once()

    def _look_once(self) -> None:
        with suppress(psutil.NoSuchProcess):
            tree = [self._root, *self._root.children(recursive=True)]
            self._seen.update(tree)
            self._weigh(tree)

    def _weigh(self, tree: list[psutil.Process]) -> None:
        # Resident sizes count shared pages several times and are cheap to read. The true sum stops
        # each process for a moment, so it is asked for where those have a new peak, or rarely.
        self._looks += 1
        size = sum(map(resident, tree))
        if size > self._largest or self._looks % CLOSER == 0:
            self._largest = max(size, self._largest)
            self.peak = max(self.peak, sum(map(proportional, tree)))


def resident(process: psutil.Process) -> int:
    """Bytes of a process in memory, shared pages in full; 0 when it is gone."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def proportional(process: psutil.Process) -> int:
    """Bytes of a process in memory, pages shared by n processes counting for an nth (Linux)."""
    try:
        full = process.memory_full_info()
    except psutil.NoSuchProcess:
        return 0
    except (psutil.AccessDenied, OSError):
        return resident(process)
    return int(getattr(full, "pss", 0) or full.rss)


def _end(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def _answer(out: str) -> dict[str, Any]:
    for text in (out, out.strip().rpartition("\n")[2]):
        with suppress(ValueError):
            answer = json.loads(text)
            return answer if isinstance(answer, dict) else {"results": answer}
    raise BenchError(f"printed no JSON: {out[-300:]!r}")


def _complaint(code: int, out: str, err: str) -> str:
    said = (err.strip() or out.strip()).splitlines()[-5:]
    return f"ended with {code}: " + "\n".join(said)
