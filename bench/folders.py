"""Where the benchmark keeps its files: all below `bench/data`, which git ignores."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "bench" / "data"
RESULTS = ROOT / "bench" / "results.json"


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder for one run, on the disk of the workload (a system's own may be memory)."""
    DATA.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="run-", dir=DATA, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def without_paths(text: str) -> str:
    """A message that names no place of this machine."""
    for place in (str(DATA), str(ROOT), gettempdir(), str(Path.home())):
        text = text.replace(place, "…")
    return text
