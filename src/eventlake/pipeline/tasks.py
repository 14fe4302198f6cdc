"""Work on Spark: numbered tasks, each a function of its number alone, their results by number.

Spark hands out the tasks, tries a lost one again and brings the small results home. What is large
goes from task to task through the stage, never through the JVM.
"""

import ctypes
import gc
import json
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from eventlake import errors
from eventlake.errors import EventLakeError, Internal


class Spark(Protocol):
    """What is needed of a Spark session."""

    def range(self, start: int, end: int, step: int, partitions: int) -> Any: ...


Work = Callable[[int], bytes]

DONE, REFUSED = b"+", b"-"


class Watch(NamedTuple):
    """What is done now and then while tasks run, and after how many seconds."""

    look: Callable[[], None]
    every: float = 0.5


def run_tasks(spark: Spark, count: int, work: Work, watch: Watch) -> list[bytes]:
    """The results of all tasks."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pa.array([attempt(work, number)], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array([number]), result], ["task", "result"])

    if not count:
        return []
    try:
        frame = spark.range(0, count, 1, count).mapInArrow(body, "task long, result binary")
        with ThreadPoolExecutor(1) as background:
            running = background.submit(frame.toArrow)
            while not wait([running], timeout=watch.every).done:
                watch.look()
        results = running.result().sort_by("task").column("result").to_pylist()
    except EventLakeError:
        raise
    except Exception as problem:
        raise Internal(f"a task failed on Spark: {_reason(str(problem))}") from problem
    return [_checked(result) for result in results]


def _reason(trace: str) -> str:
    """The last line of a worker's stack trace that says what happened."""
    lines = [line for line in trace.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return lines[-1] if lines else trace.partition("\n")[0]


def attempt(work: Work, number: int) -> bytes:
    """A task's result, or the error that the user should see, as a value that travels."""
    # A task makes millions of objects and no cycles: looking for these takes its share of time.
    gc.disable()
    try:
        return DONE + work(number)
    except EventLakeError as problem:
        return REFUSED + json.dumps([type(problem).__name__, str(problem)]).encode()
    finally:
        gc.enable()
        _give_back()


def _give_back() -> None:
    """Return what the task has freed to the system: its worker lives on, idle or at other work."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # Millions of small objects leave holes that the C library keeps; musl has no such call.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _checked(result: bytes) -> bytes:
    if result.startswith(REFUSED):
        name, message = json.loads(result[1:])
        raise getattr(errors, name)(message)
    return result[1:]
