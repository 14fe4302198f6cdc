"""Small runs: `python -m bench.small` times a first load, and loads in a warm process.

The first is the command of a user, on 1,000 events. The others have 300 events each and run in one
process, which keeps its Spark session as the workers of `eventlake up` do.
"""

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

from bench.folders import clear, scratch
from bench.measure import run
from bench.tools import SOURCE, load
from bench.workload import Workload, workload

LOAD_EVENTS, WARM_EVENTS, TYPES = 1_000, 300, 20
WARM_LOADS = 8
REPEAT = 3
MOST_START, MOST_LOAD, MOST_WARM = 4.0, 6.0, 1.5


def main() -> int:
    """Print the medians beside their targets."""
    try:
        loads = [load(_events(LOAD_EVENTS), scratch() / "lake") for _ in range(REPEAT)]
        warm = run([sys.executable, "-m", "bench.small", "warm", str(scratch())]).answer
    finally:
        clear()
    starts = [one.start_up for one in loads if one.start_up is not None]
    _show("start of a load of 1,000 events", median(starts), MOST_START)
    _show("the whole command", median(one.wall for one in loads), MOST_LOAD)
    _show("a load of 300 events in a warm process", median(warm["seconds"]), MOST_WARM)
    print(f"processes that wanted a core meanwhile: {os.getloadavg()[0]:.1f}")
    return 0


def _show(name: str, seconds: float, most: float) -> None:
    print(f"{name}: {seconds:.2f} s (target {most:g} s)")


def _events(count: int, seed: int = 7) -> Workload:
    return workload(count, types=TYPES, seed=seed)


def time_warm_loads(folder: Path) -> list[float]:
    """Seconds of each run into one lake, without the first, which starts Spark."""
    from eventlake.services.load import load as load_files

    seconds = []
    for number in range(WARM_LOADS):
        files = _events(WARM_EVENTS, seed=100 + number).files
        began = time.perf_counter()
        load_files(files, lake=folder / "lake", settings={"source": SOURCE})
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


if __name__ == "__main__":
    if sys.argv[1:2] == ["warm"]:
        print(json.dumps({"seconds": time_warm_loads(Path(sys.argv[2]))}))
    else:
        sys.exit(main())
