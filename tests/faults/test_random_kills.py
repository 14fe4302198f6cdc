"""The command killed at moments that nobody chose, again and again, on one lake."""

import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from tests import lakes, processes

pytestmark = pytest.mark.spark

KILLS = 4


def load_command(files: list[Path], lake: Path) -> "subprocess.Popen[str]":
    return processes.popen(
        "load", *files, "--source", "web", "--lake", lake, "--master", "local[2]"
    )


def kill_after(seconds: float, process: "subprocess.Popen[str]") -> None:
    """Kill the process group, unless it has ended well."""
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=processes.PATIENCE)
    processes.end_session(process.pid)
    assert process.returncode in (0, -signal.SIGKILL)


def test_whatever_the_moment_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    files = lakes.small_sample(tmp_path / "raw", events=2400, hours=KILLS + 2)
    lake, random = tmp_path / "lake", Random(20261101)
    began = time.monotonic()
    assert processes.command("load", files[0], "--source", "web", "--lake", lake).code == 0
    usual = time.monotonic() - began
    for number in range(KILLS):
        # Each time the load is tried again with one file more.
        kill_after(random.uniform(0.5, usual), load_command(files[: number + 2], lake))
    assert lakes.load(files, lake).status == "finished"
    check_against_one_never_killed(files, lake, tmp_path / "alone")


def check_against_one_never_killed(files: list[Path], lake: Path, alone: Path) -> None:
    """The same files in the same portions; which these were, the moments have decided."""
    commits = lakes.read_commits(lake)
    by_uri = {file.as_uri(): file for file in files}
    for commit in commits:
        lakes.load([by_uri[one["uri"]] for one in commit["inputs"]], alone)
    lakes.assert_same(lakes.assert_well(lake), lakes.assert_well(alone))
