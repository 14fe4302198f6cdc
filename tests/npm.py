"""Packages of npm for tests, installed once into a cache that is not the repository's."""

import os
import shutil
import subprocess
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PATIENCE = 300.0


def packages(what: str, *names: str) -> Path:
    """The folder that has them; without node a user's tests skip, and CI's fail."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "eventlake-tests"
    folder = caches / sha256(" ".join(names).encode()).hexdigest()[:12]
    problem = None if folder.is_dir() and shutil.which("node") else _install(folder, names)
    if problem and os.environ.get("CI") == "true":
        pytest.fail(f"{what} is needed in CI: {problem}")
    if problem:
        pytest.skip(f"{what} cannot be had here: {problem}")
    return folder


def _install(folder: Path, names: tuple[str, ...]) -> str | None:
    """Why it cannot be; a folder of that name is always a whole one."""
    if not (shutil.which("node") and shutil.which("npm")):
        return "there is no node or no npm"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as new:
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", new, *names]
        npm = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
        if npm.returncode:
            return npm.stderr
        with suppress(OSError):  # another run was first
            Path(new).rename(folder)
    return None
