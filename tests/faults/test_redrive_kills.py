"""A redrive killed at every point: the lake is as before it or as after it."""

import re
import signal
from pathlib import Path
from shutil import copytree

import pytest

from eventlake.services.read import open_lake
from eventlake.services.redrive import RedriveRequest, plan_redrive, redrive
from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.faults.kills import AtStep, is_object, run
from tests.faults.test_kill import CHANGES, Changes
from tests.faults.test_replay_kills import select_changes
from tests.lakes import InlineRunner, LakeContents, Recorder
from tests.stores import WatchedDisk
from tests.tiers import choose, sweep

# Bad lines of the sample are copies of good ones: far later, they are no duplicates.
REQUEST = RedriveRequest("web", fields=["receivedAt=2026-11-20T02:30:00Z", "event=Fixed"])
CONTENT = ("tables", "catalog", "quarantine", "ids", "problems")
OPERATIONS = (*CHANGES, "write_durably")


def killed_at_change(lake: Path, number: int, output: Path) -> None:
    """Kill before a change; a redrive that survives writes its changes to `output`."""
    changes = Changes(number, operations=OPERATIONS)
    redrive(REQUEST, lake=WatchedDisk(str(lake), changes).lake(), where=InlineRunner())
    output.write_text("\n".join(changes.changes))


def killed_at_step(lake: Path, at: AtStep) -> None:
    redrive(REQUEST, lake=lake, where=InlineRunner(), progress=at)


class World:
    """A lake before and after the redrive."""

    def __init__(self, root: Path) -> None:
        self.root, self.files = root, lakes.small_sample(root / "raw", bad=0.1)
        self.lake = root / "old"
        lakes.load(self.files[:1], self.lake)
        lakes.load(self.files, self.lake)
        self.old = lakes.assert_complete(self.lake)
        self.recorder, redriven = Recorder(), copytree(self.lake, root / "new")
        result = redrive(REQUEST, lake=redriven, where=InlineRunner(), progress=self.recorder)
        assert all((result.counts.landed, result.counts.quarantined, result.left))
        self.new = lakes.assert_complete(redriven)

    def check(self, lake: Path) -> bool:
        """Look at what a kill left, recover, redrive, replay; return whether it had committed."""
        is_committed = len(lakes.read_commits(lake)) == 3
        quarantined = (self.new if is_committed else self.old).quarantine.total()
        assert open_lake(lake).quarantine("web").num_rows == quarantined
        assert (plan_redrive(REQUEST, lake=lake).failed == {}) == is_committed
        if not is_committed:
            lakes.assert_same(lakes.read_contents(lake), self.old, CONTENT)
            assert [path for path in lakes.strays(lake) if is_object(path)] == []
            assert not list(lake.glob("segment-logs/web/*/*"))
        assert lakes.load(self.files, lake).status == "nothing"
        lakes.assert_same(
            lakes.read_contents(lake), self.new if is_committed else self.old, CONTENT
        )
        again = redrive(REQUEST, lake=lake, where=InlineRunner())
        assert again.status == ("failed" if is_committed else "finished")
        lakes.assert_same(self.read_complete(lake), self.new, CONTENT)
        assert lakes.sync(lake).status == "nothing"
        everything = ReplayRequest("web", all_time=True)
        assert replay(everything, lake=lake, where=InlineRunner()).status == "finished"
        lakes.assert_same(self.read_complete(lake), self.new, ("tables", "quarantine", "ids"))
        return is_committed

    def read_complete(self, lake: Path) -> LakeContents:
        contents = lakes.read_contents(lake)
        assert (contents.problems, contents.strays) == ((), [])
        return contents


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@sweep
def test_killed_before_any_change_of_the_lake(
    world: World, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    output = tmp_path / "out"
    assert run(killed_at_change, copytree(world.lake, tmp_path / "none"), -1, output) == 0
    changes = output.read_text().splitlines()
    assert {change.split()[0] for change in changes} == {*OPERATIONS}
    outcomes = set()
    own = [(n, change) for n, change in enumerate(changes) if re.search("redrive|quar", change)]
    for number, change in choose(sorted({*select_changes(changes), *own}), 6):
        with subtests.test(change=change):
            lake = copytree(world.lake, tmp_path / f"{number}")
            assert run(killed_at_change, lake, number, output) == -signal.SIGKILL
            outcomes.add(world.check(lake))
    assert outcomes == {True, False}


@sweep
def test_killed_at_any_step(world: World, tmp_path: Path, subtests: pytest.Subtests) -> None:
    steps = world.recorder.steps
    committing = steps.index(("commit", 0))
    for number, step in choose(list(enumerate(steps)), 6):
        with subtests.test(step=step):
            lake = copytree(world.lake, tmp_path / f"{number}")
            assert run(killed_at_step, lake, AtStep(number)) == -signal.SIGKILL
            assert world.check(lake) == (number > committing)
