"""The state of a worker after a task."""

import gc
import sys

import psutil
import pytest

from eventlake.pipeline.tasks import run_task

LINES, SIZE = 100_000, 1100


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give back by themselves")
def test_what_it_freed_goes_back_to_the_system() -> None:
    """A worker still uses some of the objects; the memory between them is returned."""
    kept = []

    def work(number: int) -> bytes:
        lines = [b"%d" % n * (SIZE // 5) for n in range(10_000, 10_000 + LINES)]
        kept.extend(lines[::100])
        return b""

    before = psutil.Process().memory_info().rss
    assert run_task(work, 0) == b"+"
    assert gc.isenabled()
    assert psutil.Process().memory_info().rss - before < LINES * SIZE // 3
