"""Random sequences of everything that changes a lake, with kills: it stays true to its raw logs.

`verify` agrees after them, nothing is left of forgotten users, and the lake equals one loaded
fresh, except that redriven lines have left the quarantine. If the order of loads makes a
difference, it equals that lake after a replay of everything. `EVENTLAKE_SEQUENCES`
sets how many are run, and `EVENTLAKE_FIRST_SEQUENCE` the first.
"""

import gzip
import os
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard
from tests import changes, lakes
from tests.changes import NEVER, Interruption, Killed, KillSwitch, Operation, World
from tests.lakes import LakeContents

from eventlake.errors import Conflict
from eventlake.services.forget import forget
from eventlake.services.read import open_lake

SEQUENCES = int(os.environ.get("EVENTLAKE_SEQUENCES", "200"))
FIRST = int(os.environ.get("EVENTLAKE_FIRST_SEQUENCE", "0"))
STEPS = 5
KILLS = 0.4
"""The share of steps that are killed, or would be if they made more changes."""
INTERRUPTIONS = 0.2
"""The share of steps during which another one is made."""
MAX_CHANGES = 40
"""About as many changes of the lake as a step makes."""
MAX_OPERATIONS = 200
"""About as many accesses of the lake as a step makes."""


def run_step(world: World, operation: Operation) -> str:
    """Run an operation, which may be killed or interrupted; return what happened."""
    dice = world.random.random()
    if dice < KILLS:
        return kill(world, operation)
    if dice < KILLS + INTERRUPTIONS and world.table_format == "parquet":
        return interrupt(world, operation)
    operation(world, world.open(KillSwitch(NEVER)))
    return operation.__name__


def kill(world: World, operation: Operation) -> str:
    """Run an operation that may be killed, beside others that live on."""
    number, living = world.random.randrange(MAX_CHANGES), world.list_stages()
    try:
        operation(world, world.open(KillSwitch(number)))
    except Killed:
        world.bury(living)
        return f"{operation.__name__}, killed at change {number}"
    return operation.__name__


def interrupt(world: World, operation: Operation) -> str:
    """Run an operation within which another one is run, which may be killed."""
    inner, number = changes.choose_operation(world.random), world.random.randrange(MAX_OPERATIONS)
    is_killed, story = world.random.random() < KILLS, []

    def work() -> None:
        story.append(f" with {number}: ")
        if is_killed:
            story.append(kill(world, inner))
        else:
            inner(world, world.open(KillSwitch(NEVER)))
            story.append(inner.__name__)

    try:
        operation(world, world.open(Interruption(number, work)))
    except Conflict as problem:
        story.append(f" → {problem}")
    return operation.__name__ + "".join(story)


def finish(world: World, steps: list[str]) -> None:
    """Let a lake have all that belongs in it."""
    lake = world.open(KillSwitch(NEVER))
    changes.load_new(world, lake)
    for user in sorted(world.forgotten):  # those whose forget was killed before it was recorded
        forget(user, lake=lake)
    assert open_lake(world.place).verify("web").problems == (), steps
    assert_forgotten(world)
    if world.is_stable and not world.is_outdated:
        return
    if world.ledger.read_state().pinned:  # types that are set outlive all but a drop
        changes.drop_source(world, lake)
    changes.run_replay(lake, all_time=True, infer=True)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEQUENCES))
def test_a_random_sequence_ends_as_a_fresh_load(tmp_path: Path, seed: int) -> None:
    is_stable, is_archived = seed % 3 == 0, seed % 2 == 0
    world = World(tmp_path, Random(seed), is_stable=is_stable, is_archived=is_archived)
    check_sequence(world)
    live = {one.path for files in world.ledger.list_live_files().values() for one in files}
    data = [path for path in (world.lake / "segment-data/data").rglob("*") if path.is_file()]
    assert {path.relative_to(world.lake).as_posix() for path in data} == live


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEQUENCES // 25))
def test_a_random_sequence_of_a_lake_with_delta_tables(tmp_path: Path, seed: int) -> None:
    check_sequence(World(tmp_path, Random(seed), "delta"))


def check_sequence(world: World) -> None:
    changes.load_new(world, world.open(KillSwitch(NEVER)))
    steps = []
    for _ in range(STEPS):
        steps.append(run_step(world, changes.choose_operation(world.random)))
    finish(world, steps)
    fresh = world.folder / "fresh"
    place = lakes.delta(fresh) if world.table_format == "delta" else fresh
    lakes.load(world.logs, place, settings=world.settings, suppressed=world.suppressed())
    ours, theirs = lakes.read_folder(world.lake), lakes.read_folder(fresh)
    print(steps)  # noqa: T201 - of sequences that fail
    lakes.assert_same(ours, theirs, ("tables", "ids", "strays"))
    if not world.is_stable or world.is_outdated:  # else it has all columns that there ever were
        lakes.assert_same(ours, theirs, ("catalog",))
    assert_quarantined(world, count_quarantine(ours), count_quarantine(theirs))


def assert_forgotten(world: World) -> None:
    """Assert that no file of the lake and no raw log has the id of a forgotten user."""
    files = [path for root in (world.lake, world.raw) for path in root.rglob("*") if path.is_file()]
    for path in files:
        text = decompress(path)
        for user in world.forgotten:
            assert f'"{user}"'.encode() not in text, path
            assert f"{user}@".encode() not in text, path


def decompress(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(data).read()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def count_quarantine(contents: LakeContents) -> "Counter[Any]":
    """Count the rows of a quarantine; raw logs are named as before a forget rewrote them."""
    rows: Counter[Any] = Counter()
    for (reason, detail, raw, file, line), count in contents.quarantine.items():
        name = file.rpartition("/")[2]
        rows[reason, detail, raw, re.sub(r"-r\d{19}", "", name), line] += count
    return rows


def assert_quarantined(world: World, ours: "Counter[Any]", fresh: "Counter[Any]") -> None:
    """Assert that the quarantine has all lines that are no events but those that were redriven."""
    commits = lakes.read_commits(world.lake)
    drops = [number for number, one in enumerate(commits) if one.get("kind") == "drop"]
    redriven: Counter[str] = Counter()
    for commit in commits[max(drops, default=0) :]:
        for by_reason in commit.get("unquarantined", {}).values():
            redriven.update(by_reason)
    missing = Counter(reason for reason, *_ in (fresh - ours).elements())
    assert not ours - fresh
    assert missing <= redriven if world.forgotten else missing == redriven
