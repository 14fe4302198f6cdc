"""A replay killed at every point: the lake is as before it or as after it."""

import re
import signal
from pathlib import Path
from shutil import copytree

import pytest

from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.faults.kills import is_object, run
from tests.faults.test_kill import CHANGES, Changes
from tests.lakes import InlineRunner
from tests.stores import WatchedDisk
from tests.tiers import choose, sweep

WINDOW = ReplayRequest("web", "2026-11-01T01:00:00Z", "2026-11-01T03:00:00Z")
ALL = ReplayRequest("web", all_time=True, changes={"date_partition": "day"}, infer=True)
CONTENT = ("tables", "catalog", "quarantine", "ids", "problems")


def killed_replay(lake: Path, request: ReplayRequest, number: int, output: Path) -> None:
    """Kill before a change; a replay that survives writes its changes to `output`."""
    changes = Changes(number)
    watched = WatchedDisk(str(lake), changes).lake()
    replay(request, lake=watched, where=InlineRunner())
    output.write_text("\n".join(changes.changes))


def select_changes(changes: list[str]) -> list[tuple[int, str]]:
    """The first and the last of the changes that are alike, with their numbers."""
    kinds = [re.sub(r"segment_type=.*|web/\w+\.json|\d.*", "", change) for change in changes]
    ends = {kinds.index(kind) for kind in kinds}
    ends |= {len(kinds) - 1 - kinds[::-1].index(kind) for kind in kinds}
    return [(number, changes[number]) for number in sorted(ends)]


@sweep
@pytest.mark.parametrize("request_", [WINDOW, ALL], ids=["window", "all"])
def test_killed_before_any_change_of_the_lake(
    request_: ReplayRequest, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    files, lake, output = lakes.small_sample(tmp_path / "raw"), tmp_path / "old", tmp_path / "out"
    lakes.load(files[1:], lake)
    lakes.load(files, lake)  # late: it has the first events of ids that have landed
    old = lakes.assert_complete(lake)
    copytree(lake, tmp_path / "new")
    assert run(killed_replay, tmp_path / "new", request_, -1, output) == 0
    new = lakes.assert_complete(tmp_path / "new")
    changes = output.read_text().splitlines()
    assert {change.split()[0] for change in changes} == {*CHANGES}
    outcomes = set()
    for number, change in choose(select_changes(changes), 8):
        with subtests.test(change=change):
            copy = copytree(lake, tmp_path / f"{number}")
            assert run(killed_replay, copy, request_, number, output) == -signal.SIGKILL
            is_committed = len(lakes.read_commits(copy)) == 3
            outcomes.add(is_committed)
            if not is_committed:
                lakes.assert_same(lakes.read_contents(copy), old, CONTENT)
                assert [path for path in lakes.strays(copy) if is_object(path)] == []
            settings = request_.changes if is_committed else {}
            source = lakes.SETTINGS.model_copy(update=settings)
            assert lakes.load(files, copy, settings=source).status == "nothing"
            lakes.assert_same(lakes.read_contents(copy), new if is_committed else old, CONTENT)
    assert outcomes == {True, False}
