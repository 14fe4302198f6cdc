"""Load a folder into a lake without Spark; print the counts and the peak of memory as JSON."""

import json
import resource
import sys
from pathlib import Path

from tests.lakes import load


def main() -> None:
    logs, lake = map(Path, sys.argv[1:3])
    before = peak_mb()
    result = load([logs], lake)
    sys.stdout.write(json.dumps(result.counts.model_dump() | {"peak": peak_mb(), "before": before}))


def peak_mb() -> int:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes >> (20 if sys.platform == "darwin" else 10)


if __name__ == "__main__":
    main()
