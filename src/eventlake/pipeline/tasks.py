"""Run numbered tasks on Spark, each a function of its number, and return their results in order.

Spark schedules the tasks, retries lost ones and returns the small results. Large data goes from
task to task through the stage, never through the JVM.
"""

import ctypes
import gc
import json
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

import pyarrow as pa

from eventlake import errors
from eventlake.errors import EventLakeError, Internal
from eventlake.ports import SparkProvider

Work = Callable[[int], bytes]

OK_PREFIX, ERROR_PREFIX = b"+", b"-"

MAX_TASK_BYTES = 400 << 20
"""Bytes that a task writes at most: a lost task is repeated as a whole."""
MIN_TASK_SHARE = 12
"""A task has at least a twelfth of a core's work: smaller ones cost more than they gain."""
UNIT_OVERHEAD_BYTES = 1 << 20
"""Fixed cost of a unit, in bytes of a large table that take as long."""


T = TypeVar("T")


@dataclass(frozen=True)
class Packed(Generic[T]):
    """The input of one task, pickled: every task gets the inputs of all, and unpacks its own."""

    data: bytes

    @classmethod
    def pack(cls, value: T) -> "Packed[T]":
        """Pickle the input of one task."""
        return cls(pickle.dumps(value))

    def unpack(self) -> T:
        """Return the input as it was packed."""
        return cast("T", pickle.loads(self.data))  # noqa: S301 - from our own driver


class Unit(Protocol):
    """Work that one task does as a whole."""

    @property
    def bytes(self) -> int:
        """Estimated bytes to write."""


U = TypeVar("U", bound=Unit)


def plan_tasks(units: Iterable[U], parallelism: int) -> tuple[tuple[U, ...], ...]:
    """Group neighbouring units into tasks; return the units of each, largest task first.

    Each task takes a share of the remaining work, so the last ones are small and no core waits long
    for them.
    """
    sizes = [(unit, unit.bytes + UNIT_OVERHEAD_BYTES) for unit in units]
    remaining = sum(size for _, size in sizes)
    min_share = remaining // (MIN_TASK_SHARE * parallelism)
    tasks: list[tuple[int, list[U]]] = [(0, [])]
    for unit, size in sizes:
        task_bytes, task = tasks[-1]
        share = min(MAX_TASK_BYTES, max(min_share, (remaining + task_bytes) // (2 * parallelism)))
        if task and task_bytes + size > share:
            tasks.append((size, [unit]))
        else:
            tasks[-1] = (task_bytes + size, [*task, unit])
        remaining -= size
    return tuple(tuple(task) for _, task in sorted(tasks, key=lambda one: -one[0]) if task)


class Watch(NamedTuple):
    """A function to call repeatedly while tasks run, and the seconds between calls."""

    callback: Callable[[], None]
    seconds: float = 0.5


def run_tasks(spark: SparkProvider, count: int, work: Work, watch: Watch) -> list[bytes]:
    """Run `work` for the numbers below `count` and return the results in order.

    Calls `watch.callback` while they run. Raises the `EventLakeError` of the first failed task by
    number once all have ended, or `Internal` for any other failure. An interrupt, or an error of
    the callback, stops Spark.
    """

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks of a partition on a worker; yield number and wrapped result of each."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pa.array([run_task(work, number)], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array([number]), result], ["task", "result"])

    if not count:
        return []
    try:
        numbers = spark.session().range(0, count, 1, count)
        frame = numbers.mapInArrow(body, "task long, result binary")
        with ThreadPoolExecutor(1) as background:
            running = background.submit(frame.collect)
            try:
                while not wait([running], timeout=watch.seconds).done:
                    watch.callback()
            except BaseException:
                # Otherwise tasks would go on to write into the stage after its removal.
                spark.stop()
                raise
        results = [bytes(result) for _, result in sorted(running.result())]
    except EventLakeError:
        raise
    except Exception as problem:
        raise Internal(f"a task failed on Spark: {_find_reason(str(problem))}") from problem
    return [_unwrap_result(result) for result in results]


def _find_reason(trace: str) -> str:
    """The last line of a stack trace that names an exception, or else its first line."""
    lines = [line for line in trace.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return lines[-1] if lines else trace.partition("\n")[0]


def run_task(work: Work, number: int) -> bytes:
    """Run one task; return its result, or its `EventLakeError` as bytes for the driver to raise.

    The first byte tells which; `_unwrap_result` reads it. Other errors are raised.
    """
    # A task makes millions of objects and no reference cycles, so collecting only costs time.
    gc.disable()
    try:
        return OK_PREFIX + work(number)
    except EventLakeError as problem:
        return ERROR_PREFIX + json.dumps([type(problem).__name__, str(problem)]).encode()
    finally:
        gc.enable()
        _release_memory()


def _release_memory() -> None:
    """Return freed memory to the system, because the worker process lives on."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # glibc holds on to the gaps between small objects; musl has no such call.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _unwrap_result(result: bytes) -> bytes:
    """Return the result of a task as `run_task` wrapped it; raises the error if it is one."""
    if result.startswith(ERROR_PREFIX):
        name, message = json.loads(result[1:])
        raise getattr(errors, name)(message)
    return result[1:]
