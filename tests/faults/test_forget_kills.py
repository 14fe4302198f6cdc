"""A forget killed at every point: the next command finishes it, and nothing is loaded again."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from eventlake.services.forget import forget
from eventlake.stores import Disk
from eventlake.suppression import read_suppression_list
from tests import lakes
from tests.faults.kills import run
from tests.faults.test_kill import CHANGES, Changes
from tests.pipeline.test_forget import EMAIL, OLD, PHONE, USER, of_user, others, search, write
from tests.stores import WatchedDisk
from tests.tiers import choose, sweep

IDS = (USER, EMAIL, PHONE, OLD)
CONTENT = ("tables", "catalog", "quarantine", "ids", "problems", "strays")


def killed_forget(lake: Path, number: int, output: Path) -> None:
    """Kill before a change; a forget that survives writes its changes to `output`."""
    changes = Changes(number)
    forget(USER, lake=WatchedDisk(str(lake), changes).lake(), also_anonymous=True)
    output.write_text("\n".join(changes.changes))


def load_again(lake: Path) -> None:
    """A load without new files."""
    assert lakes.load([lake / "mine"], lake).status == "nothing"


def sync_again(lake: Path) -> None:
    assert lakes.sync(lake).status == "nothing"


def forget_again(lake: Path) -> None:
    assert forget(USER, lake=lake, also_anonymous=True).status in ("finished", "nothing")


def select_changes(changes: list[str]) -> list[tuple[int, str]]:
    """The first and the last of the changes that are alike, with their numbers."""
    kinds = [re.sub(r"segment_type=.*|web/\w+\.json|\d.*", "", change) for change in changes]
    ends = {kinds.index(kind) for kind in kinds}
    ends |= {len(kinds) - 1 - kinds[::-1].index(kind) for kind in kinds}
    return [(number, changes[number]) for number in sorted(ends)]


@sweep
@pytest.mark.parametrize("next_command", [load_again, sync_again, forget_again])
def test_killed_before_any_change_of_the_lake(
    next_command: Callable[[Path], None], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    lake, output = tmp_path / "old", tmp_path / "out"
    day = lake / "segment-logs/web/1793491200000"
    write(day / "a.gz", others(100) + of_user(0))
    write(day / "b.gz", others(200))
    lakes.sync(lake)
    (lake / "mine").mkdir()
    write(lake / "mine/c.gz", others(300) + of_user(50)[3:])
    lakes.load([lake / "mine"], lake)
    copytree(lake, tmp_path / "new")
    assert run(killed_forget, tmp_path / "new", -1, output) == 0
    new = lakes.assert_complete(tmp_path / "new")
    changes = output.read_text().splitlines()
    assert {change.split()[0] for change in changes} == {*CHANGES}
    outcomes = set()
    for number, change in choose(select_changes(changes), 8):
        with subtests.test(change=change):
            copy = copytree(lake, tmp_path / f"{number}")
            assert run(killed_forget, copy, number, output) == -signal.SIGKILL
            is_committed = len(lakes.read_commits(copy)) == 3
            outcomes.add(is_committed)
            next_command(copy)
            lakes.assert_same(lakes.read_contents(copy), new, CONTENT)
            assert search(copy, IDS) == []
            assert read_suppression_list(Disk(str(copy))).requests == ()
    assert outcomes == {True, False}
