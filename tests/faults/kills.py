"""Killed runs, and the lakes that the next run must make of their remains."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests import lakes, processes
from tests.lakes import LakeContents, Place


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class AtStep:
    """Kills its own process at a progress step: the n-th of all, or of those with its stage."""

    number: int
    stage: str = ""
    done: int | None = None

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if self.stage in ("", stage) and self.done in (None, done):
            self.number -= 1
            if self.number < 0:
                die()


def killed_at_step(
    paths: list[Path], lake: Place, at: AtStep, runner: type = lakes.InlineRunner
) -> None:
    lakes.load(paths, lake, at, runner=runner)


def run(work: Any, *given: Any) -> int:
    return processes.finish(processes.start(work, *given))


def is_object(path: str) -> bool:
    """Whether a listing of the lake's data shows a path; incomplete files, `name#1`, are hidden."""
    return path.startswith("segment-data") and "#" not in path


@dataclass(frozen=True)
class World:
    """Three files; the first two are what the killed run loads."""

    files: list[Path]
    once: LakeContents
    """The lake after one load of all."""
    twice: LakeContents
    """The lake after a load of two files, and another of the third."""

    def check(self, lake: Place) -> None:
        """Look at what a kill left, recover, and compare."""
        with lakes.on_disk(lake) as left:
            sizes = [len(commit["inputs"]) for commit in lakes.read_commits(left)]
            assert sizes in ([], [2], [3], [2, 1])
            assert [path for path in lakes.strays(left) if is_object(path)] == []
        lakes.load(self.files, lake)
        wanted = self.twice if sizes[:1] == [2] else self.once
        lakes.assert_same(lakes.assert_complete(lake), wanted)


def make_world(root: Path, place: Callable[[Path], Place] = Path, **sample: Any) -> World:
    files = lakes.small_sample(root / "raw", **sample)
    once, twice = place(root / "once"), place(root / "twice")
    lakes.load(files, once)
    lakes.load(files[:2], twice)
    lakes.load(files, twice)
    return World(files, lakes.assert_complete(once), lakes.assert_complete(twice))


def ends_of_stages(steps: list[tuple[str, int]]) -> Iterator[tuple[int, tuple[str, int]]]:
    """The first and the last step of each stage, with their numbers."""
    stages = ["", *(stage for stage, _ in steps), ""]
    for number, step in enumerate(steps):
        if stages[number] != step[0] or stages[number + 2] != step[0]:
            yield number, step


# Kills at random times


def check_random_kills(
    folder: Path,
    lake: Place,
    named: Path,
    times: int,
    env: Mapping[str, str] = os.environ,
) -> None:
    """Kill the command repeatedly on one lake; `named` is its --lake argument."""
    files = lakes.small_sample(folder / "raw", events=2400, hours=times + 2)
    random = Random(20261101)
    given = ("--source", "web", "--lake", named, "--master", "local[2]")
    began = time.monotonic()
    assert processes.command("load", files[0], *given, env=env).code == 0
    usual = time.monotonic() - began
    for number in range(times):
        # Each time the load is tried again with one file more.
        process = processes.popen("load", *files[: number + 2], *given, env=env)
        kill_after(random.uniform(0.5, usual), process)
    assert lakes.load(files, lake).status == "finished"
    check_against_one_never_killed(files, lake, folder / "alone")


def kill_after(seconds: float, process: "subprocess.Popen[str]") -> None:
    """Kill the process group, unless it has succeeded."""
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=processes.PATIENCE)
    processes.end_session(process.pid)
    assert process.returncode in (0, -signal.SIGKILL)


def check_against_one_never_killed(files: list[Path], lake: Place, alone: Path) -> None:
    """Load the same files in the same portions as the killed runs did."""
    by_uri = {file.as_uri(): file for file in files}
    for commit in lakes.read_commits(lake):
        lakes.load([by_uri[one["uri"]] for one in commit["inputs"]], alone)
    lakes.assert_same(lakes.assert_complete(lake), lakes.assert_complete(alone))
