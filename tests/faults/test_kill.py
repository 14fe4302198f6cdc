"""A run killed at every point: the next load recovers, and the lake is as without the kill."""

import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.model.settings import SourceSettings
from tests import lakes
from tests.faults.kills import AtStep, World, die, ends_of_stages, killed_at_step, make_world, run
from tests.lakes import Recorder
from tests.stores import WatchedDisk
from tests.tiers import choose, sweep

CHANGES = ("write", "create", "publish", "delete")


@dataclass
class Changes:
    """Records what is about to change in the lake, and kills the process before the n-th change."""

    kill_at: int
    changes: list[str] = field(default_factory=list)
    operations: tuple[str, ...] = CHANGES

    def __call__(self, operation: str, path: str) -> None:
        if operation in self.operations:
            if len(self.changes) == self.kill_at:
                die()
            self.changes.append(f"{operation} {path}")


def killed_at_change(paths: list[Path], lake: Path, number: int, output: Path) -> None:
    """Kill before a change; a run that survives writes its changes to `output`."""
    changes = Changes(number)
    lakes.load(paths, WatchedDisk(str(lake), changes).lake())
    output.write_text("\n".join(changes.changes))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def steps(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    recorder = Recorder()
    lakes.load(world.files[:2], tmp_path_factory.mktemp("steps"), recorder)
    return recorder.steps


def test_a_run_tells_of_every_point(steps: list[tuple[str, int]]) -> None:
    stages = list(dict.fromkeys(stage for stage, _ in steps))
    before = ["plan", "start", "read", "dedupe", "evolve", "write"]
    assert stages == [*before, "commit", "publish", "register", "report", "clean"]
    assert [done for stage, done in steps if stage == "publish"] == list(range(8))
    assert [done for stage, done in steps if stage == "register"] == list(range(8))
    assert [done for stage, done in steps if stage in ("report", "clean")] == [0, 1, 0, 1]


@sweep
def test_killed_at_any_step(
    world: World, steps: list[tuple[str, int]], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    committing = steps.index(("commit", 0))
    for number, step in choose(list(enumerate(steps)), 12):
        with subtests.test(step=step):
            lake = tmp_path / f"{number}"
            assert run(killed_at_step, world.files[:2], lake, AtStep(number)) == -signal.SIGKILL
            assert bool(lakes.read_commits(lake)) == (number > committing)
            world.check(lake)


@sweep
def test_killed_before_any_change_of_the_lake(
    world: World, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Between two steps there may be several: a table, then its partitions; a stage's objects."""
    output = tmp_path / "output"
    assert run(killed_at_change, world.files[:2], tmp_path / "lake", -1, output) == 0
    changes = output.read_text().splitlines()
    assert {change.split()[0] for change in changes} == {*CHANGES}
    # Left out are those that are covered by the steps, or of which many are alike.
    alike = re.compile("publish|write segment-stage/.*/write/")
    points = [point for point in enumerate(changes) if not alike.match(point[1])]
    for number, change in choose(points, 12):
        with subtests.test(change=change):
            lake = tmp_path / f"{number}"
            code = run(killed_at_change, world.files[:2], lake, number, output)
            assert code == -signal.SIGKILL
            world.check(lake)


AFTER_STAGING = ("commit", "publish", "clean")
EVERYWHERE = ("plan", "write", "register", "report", *AFTER_STAGING)


@sweep
@pytest.mark.parametrize(
    ("first", "stages"), [(("write", 0), AFTER_STAGING), (("register", 3), EVERYWHERE)]
)
def test_the_run_that_recovers_is_killed_too(
    world: World,
    tmp_path: Path,
    first: tuple[str, int],
    stages: tuple[str, ...],
    subtests: pytest.Subtests,
) -> None:
    recorder, lake = Recorder(), tmp_path / "lake"
    run(killed_at_step, world.files[:2], lake, AtStep(0, *first))
    lakes.load(world.files, lake, recorder)
    ends = [point for point in ends_of_stages(recorder.steps) if point[1][0] in stages]
    for number, step in choose(ends, 4):
        with subtests.test(then=step):
            lake = tmp_path / f"{number}"
            run(killed_at_step, world.files[:2], lake, AtStep(0, *first))
            assert run(killed_at_step, world.files, lake, AtStep(number)) == -signal.SIGKILL
            world.check(lake)


@dataclass
class Amid(AtStep):
    """Kills a moment after the step, while Spark works."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage:
            threading.Timer(0.1, die).start()


ON_SPARK = [
    Amid(0, "read"),
    AtStep(0, "commit"),
    AtStep(0, "publish", 4),
    AtStep(0, "clean", 0),
]


@pytest.mark.spark
def test_killed_on_spark(world: World, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The same with a JVM and its workers, which end when the driver does."""

    def kill(number: int) -> int:
        lake = tmp_path / f"{number}"
        return run(killed_at_step, world.files[:2], lake, ON_SPARK[number], lakes.SparkRunner)

    with ThreadPoolExecutor(2) as both:
        codes = list(both.map(kill, range(len(ON_SPARK))))
    for number, at in enumerate(ON_SPARK):
        with subtests.test(at=at):
            assert codes[number] == -signal.SIGKILL
            world.check(tmp_path / f"{number}")


def test_half_an_object_is_removed_with_its_stage(world: World, tmp_path: Path) -> None:
    """A process killed while it writes leaves `name#1`, which the store's listings do not show."""
    run(killed_at_step, world.files[:2], tmp_path, AtStep(0, "write"))
    [stage] = (tmp_path / "segment-stage").iterdir()
    (stage / "write").mkdir(exist_ok=True)
    (stage / "write" / "pages-1.parquet#1").write_bytes(b"half")
    world.check(tmp_path)


def test_half_an_object_of_the_ledger_is_no_object(world: World, tmp_path: Path) -> None:
    lakes.load(world.files[:2], tmp_path)
    (tmp_path / "segment-data/ledger/web/000000000002.json#1").write_bytes(b"half")
    lakes.load(world.files, tmp_path)
    found = lakes.read_contents(tmp_path)
    lakes.assert_same(found, world.twice, [part for part in lakes.WHOLE if part != "strays"])


def test_half_an_object_of_the_catalog_goes_when_its_table_changes(
    world: World, tmp_path: Path
) -> None:
    """Several tables are registered in parallel, so a kill may leave some incomplete."""
    run(killed_at_step, world.files[:2], tmp_path, AtStep(0, "register", 3))
    for table in ("page", "identify"):
        (tmp_path / f"segment-data/catalog/web/{table}.json#1").write_bytes(b"half")
    world.check(tmp_path)


def test_a_load_that_lands_nothing_carries_out_what_was_committed(
    world: World, tmp_path: Path
) -> None:
    run(killed_at_step, world.files[:2], tmp_path, AtStep(0, "publish", 3))
    assert lakes.load(world.files[:2], tmp_path).status == "nothing"
    assert len(lakes.assert_complete(tmp_path).reports) == 1


def test_the_stage_of_another_source_is_left_alone(world: World, tmp_path: Path) -> None:
    """Also of a dead run: only the next run of its own source finishes its commit."""
    run(killed_at_step, world.files[:2], tmp_path, AtStep(0, "publish", 3))
    [stage] = (tmp_path / "segment-stage").iterdir()
    before = sorted(stage.rglob("*"))
    lakes.load(world.files, tmp_path, settings=SourceSettings(source="app"))
    assert sorted(stage.rglob("*")) == before
    lakes.load(world.files, tmp_path)
    found = lakes.assert_complete(tmp_path)
    assert found.reported == {"app", "web"}
    lakes.assert_same(found, world.twice, [part for part in lakes.WHOLE if part != "reported"])
