"""The events to load: made once for each spec and kept."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from bench.folders import DATA
from eventlake import sample
from eventlake.sample.spec import SampleSpec
from eventlake.sample.write import make_sample

HOURS = 3
DUPLICATES = 0.01
TENTH = 10
DONE = "made.json"


@dataclass(frozen=True)
class Workload:
    """A folder of gzip files, and what is in them."""

    name: str
    folder: Path
    lines: int
    distinct: int
    bytes: int
    json_bytes: int
    scale: int = 1
    """How many times larger the workload is that this is a part of."""

    @cached_property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.gz"))

    def warm(self) -> None:
        """Read every file once, so that no tool pays for a cold disk."""
        for path in self.files:
            path.read_bytes()


def workload(events: int, types: int = 100, seed: int = 7, messy: bool = False) -> Workload:
    """The benchmark's events: about 1.1 KB each, skewed over `types` event types."""
    spec = SampleSpec(
        events=events,
        types=types,
        hours=HOURS,
        duplicates=DUPLICATES,
        bad=0.0,
        messy=messy,
        seed=seed,
    )
    name = f"{'messy' if messy else 'events'}-{events}-types-{types}-seed-{seed}"
    return _made(name, lambda out: _sample(spec, out))


def tenth_of(whole: Workload) -> Workload:
    """Every tenth line of every file: all hours and tables are there, in their proportions."""
    return _made(f"{whole.name}-tenth", lambda out: _thin(whole, out))


def _made(name: str, make: Callable[[Path], dict[str, int]]) -> Workload:
    folder = DATA / f"{name}-{_generator()}"
    done = folder / DONE
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        done.write_text(json.dumps(make(folder)))
    return Workload(name=name, folder=folder, **json.loads(done.read_text()))


@cache
def _generator() -> str:
    """A digest of the generator's own code: once that changes, kept events are of no use."""
    code = b"".join(path.read_bytes() for path in sorted(Path(sample.__path__[0]).glob("*.py")))
    return hashlib.sha256(code).hexdigest()[:8]


def _sample(spec: SampleSpec, out: Path) -> dict[str, int]:
    made = make_sample(spec, out)
    return {
        "lines": made.events + made.duplicates,
        "distinct": made.events,
        "bytes": made.bytes,
        "json_bytes": made.json_bytes,
    }


def _thin(whole: Workload, out: Path) -> dict[str, int]:
    lines = json_bytes = 0
    for path in whole.files:
        with gzip.open(out / path.name, "wb", compresslevel=1) as thin:
            for line in _every_tenth(path):
                thin.write(line)
                lines += 1
                json_bytes += len(line)
    size = sum(path.stat().st_size for path in out.glob("*.gz"))
    distinct = round(lines * whole.distinct / whole.lines)
    return {
        "lines": lines,
        "distinct": distinct,
        "bytes": size,
        "json_bytes": json_bytes,
        "scale": TENTH,
    }


def _every_tenth(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as lines:
        for number, line in enumerate(lines):
            if number % TENTH == 0:
                yield line
