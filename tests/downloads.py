"""Downloads of tests, each kept in the user's cache once it is complete."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PATIENCE = 900.0
"""Seconds that a download may take."""


def cached(what: str, name: str, install: Callable[[Path], object]) -> Path:
    """Return the cache folder `name`, which `install` fills the first time.

    If it cannot be filled, skip the test, or fail it if the environment has `CI=true`.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "eventlake-tests"
    folder = caches / name
    if folder.is_dir():
        return folder
    caches.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(caches / f"{name}.lock"):
            if not folder.is_dir():
                with TemporaryDirectory(dir=caches, ignore_cleanup_errors=True) as new:
                    install(Path(new))
                    Path(new).rename(folder)
    except (OSError, subprocess.SubprocessError) as problem:
        reason = getattr(problem, "stderr", None) or problem
        if os.environ.get("CI") == "true":
            pytest.fail(f"{what} is needed in CI: {reason}")
        pytest.skip(f"{what} cannot be downloaded here: {reason}")
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process downloads the same."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(*command: str) -> None:
    """Run a command to its end; raises CalledProcessError with its stderr if it fails."""
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)


def pip_install(folder: Path, *requirements: str) -> None:
    """Install packages into a folder for PYTHONPATH: it can be moved, an environment cannot.

    Only what is imported later is compiled, then.
    """
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-compile", "--target", str(folder), *requirements)


def spark_release(version: str) -> Path:
    """A folder with one release of PySpark, to be put before all others on PYTHONPATH."""
    wanted = f"pyspark=={version}"
    return cached(f"Spark {version}", f"pyspark-{version}", lambda new: pip_install(new, wanted))
