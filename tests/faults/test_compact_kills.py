"""A compaction killed at every point: the lake has the same rows, and the next one finishes it."""

import signal
from pathlib import Path
from shutil import copytree

import pytest

from eventlake.model.settings import source_settings
from eventlake.services.compact import compact
from tests import lakes
from tests.faults.kills import is_object, run
from tests.faults.test_kill import CHANGES, Changes
from tests.faults.test_replay_kills import select_changes
from tests.lakes import InlineRunner
from tests.stores import WatchedDisk

CONTENT = ("tables", "catalog", "quarantine", "ids", "problems")


def killed_compaction(lake: Path, number: int, output: Path) -> None:
    """Kill before a change; a compaction that survives writes its changes to `output`."""
    changes = Changes(number)
    compact("web", lake=WatchedDisk(str(lake), changes).lake(), where=InlineRunner())
    output.write_text("\n".join(changes.changes))


@pytest.mark.parametrize("then", ["compact", "load"])
def test_killed_before_any_change_of_the_lake(
    then: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    files, lake, output = lakes.small_sample(tmp_path / "raw"), tmp_path / "old", tmp_path / "out"
    settings = source_settings(source="web", date_partition="day")
    for file in files:
        lakes.load([file], lake, settings=settings)
    old = lakes.assert_complete(lake)
    copytree(lake, tmp_path / "new")
    assert run(killed_compaction, tmp_path / "new", -1, output) == 0
    changes = output.read_text().splitlines()
    assert {change.split()[0] for change in changes} == {*CHANGES}
    outcomes = set()
    for number, change in select_changes(changes):
        with subtests.test(change=change):
            copy = copytree(lake, tmp_path / f"{number}")
            assert run(killed_compaction, copy, number, output) == -signal.SIGKILL
            is_committed = len(lakes.read_commits(copy)) == 4
            outcomes.add(is_committed)
            if not is_committed:
                lakes.assert_same(lakes.read_contents(copy), old, CONTENT)
                assert [path for path in lakes.strays(copy) if is_object(path)] == []
            if then == "load":
                assert lakes.load(files, copy, settings=settings).status == "nothing"
            else:
                compact("web", lake=copy, where=InlineRunner())
                assert len(lakes.read_commits(copy)) == 4
                lakes.assert_complete(copy)
                assert len(list((copy / "segment-data/data").rglob("*.parquet"))) == 6
            lakes.assert_same(lakes.read_contents(copy), old, CONTENT)
    assert outcomes == {True, False}
