"""Where the benchmark keeps its files: all below `bench/data`, which git ignores."""

import shutil
from pathlib import Path
from tempfile import gettempdir, mkdtemp

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "bench" / "data"
RESULTS = ROOT / "bench" / "results.json"


def scratch() -> Path:
    """An empty folder for one run, on the disk of the workload (a system's own may be memory).

    It stays until the last run is over: some file systems look at every file that was removed in
    the last minutes before they make a new one, and who makes many would pay for another's end.
    """
    DATA.mkdir(parents=True, exist_ok=True)
    return Path(mkdtemp(prefix="run-", dir=DATA))


def clear() -> None:
    """Remove what all runs have made."""
    for folder in DATA.glob("run-*"):
        shutil.rmtree(folder, ignore_errors=True)


def without_paths(text: str) -> str:
    """A message that names no place of this machine."""
    for place in (str(DATA), str(ROOT), gettempdir(), str(Path.home())):
        text = text.replace(place, "…")
    return text
