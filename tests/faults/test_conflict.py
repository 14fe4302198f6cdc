"""Two loads of one source at once: never an event twice, never one lost."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from eventlake.catalogs.files import FilesCatalog
from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import Conflict
from eventlake.ledger import Ledger, Stage, is_dead, read_lease
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.ports import Progress
from eventlake.services.load import LoadResult
from eventlake.stores import Disk
from tests import lakes, processes
from tests.catalogs import add_partitions, register
from tests.processes import Meet
from tests.stores import WatchedDisk

NAMES = ("one", "two")


def event(
    identity: str, name: str = "Signed Up", hour: int = 7, **properties: Any
) -> dict[str, Any]:
    at = f"2026-11-01T{hour:02d}:30:00Z"
    head = {"type": "track", "event": name, "messageId": identity, "receivedAt": at}
    return {**head, "properties": properties}


def write(path: Path, *events: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    return path


def crowd(path: Path, who: str) -> Path:
    """Events of three tables in two hours, and an invalid line."""
    events = [
        event(f"{who}{n}", f"Thing {n % 3}", n % 2, seats=n, price=n + 0.5, **{who: True})
        for n in range(30)
    ]
    return write(path, *events, {"type": "none"})


def outcome(work: Callable[[], LoadResult], output: Path) -> None:
    """Write the status or the error of a load to a file."""
    try:
        output.write_text(work().status)
    except Conflict as problem:
        output.write_text(str(problem))


def load_and_tell(
    paths: list[Path], lake: Path, meet: Meet, output: Path, runner: type = lakes.InlineRunner
) -> None:
    outcome(lambda: lakes.load(paths, lake, meet, runner=runner), output)


def race(
    tmp_path: Path, one: list[Path], two: list[Path], runner: type = lakes.InlineRunner
) -> list[str]:
    """Run two loads that are both staged before either commits; return what each wrote."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    started = [
        processes.start(
            load_and_tell,
            paths,
            tmp_path / "lake",
            Meet(meeting, name, NAMES),
            tmp_path / name,
            runner,
        )
        for name, paths in zip(NAMES, (one, two), strict=True)
    ]
    end(*started)
    return sorted((tmp_path / name).read_text() for name in NAMES)


def end(*started: BaseProcess) -> None:
    with processes.ended(*started):
        assert [processes.finish(process) for process in started] == [0] * len(started)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


# The same events


def check_same_files(tmp_path: Path, runner: type) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    lost, won = race(tmp_path, files, files, runner)
    assert won == "finished"
    assert lost.startswith("another run of web (")
    assert "committed first and loaded some of the same files" in lost
    found = lakes.assert_complete(tmp_path / "lake")
    assert found.failures == ["failed EventLake.Conflict"]
    lakes.load(files, tmp_path / "alone")
    same = [part for part in lakes.WHOLE if part != "failures"]
    lakes.assert_same(found, lakes.read_contents(tmp_path / "alone"), same)
    assert lakes.load(files, tmp_path / "lake").status == "nothing"


def test_the_same_files_land_once(tmp_path: Path) -> None:
    check_same_files(tmp_path, lakes.InlineRunner)


@pytest.mark.spark
def test_the_same_files_land_once_on_spark(tmp_path: Path) -> None:
    check_same_files(tmp_path, lakes.SparkRunner)


def test_files_that_share_an_event_conflict_and_land_when_run_again(
    tmp_path: Path, lake: Path
) -> None:
    one = write(tmp_path / "raw/1.json", event("a"), event("b"))
    two = write(tmp_path / "raw/2.json", event("b"), event("c"))
    lost, won = race(tmp_path, [one], [two])
    assert (won, "landed some of the same message ids" in lost) == ("finished", True)
    result = lakes.load([one, two], lake)
    assert (result.status, result.counts.duplicates) == ("finished", 1)
    assert lakes.assert_complete(lake).rows == 3


def test_the_command_that_lost_exits_1(tmp_path: Path, lake: Path) -> None:
    file = write(tmp_path / "raw/1.json", event("a"))
    arguments = ("load", file, "--source", "web", "--lake", lake, "--json")
    meet, output = Meet(tmp_path, "staged", ("go",)), tmp_path / "output"
    loser = lakes.command_without_spark(*arguments, output=output, progress=meet)
    with processes.ended(loser):
        processes.wait_for(tmp_path / "staged")
        assert lakes.load([file], lake).status == "finished"
        (tmp_path / "go").touch()
        ran = lakes.read_output(loser, output)
    assert (ran.code, ran.value["error_code"]) == (1, "EventLake.Conflict")
    assert ran.err == f"error: {ran.value['error']} (EventLake.Conflict)\n"
    assert lakes.assert_complete(lake).failures == ["failed EventLake.Conflict"]


# Different events


def test_different_files_both_land(tmp_path: Path, lake: Path) -> None:
    one, two = (crowd(tmp_path / f"raw/{name}.json", name) for name in NAMES)
    assert race(tmp_path, [one], [two]) == ["finished", "finished"]
    found = lakes.assert_complete(lake)
    assert len(lakes.read_commits(lake)) == len(found.reports) == 2
    assert len(found.inputs) == 2
    lakes.load([one, two], tmp_path / "alone")
    alone = lakes.read_contents(tmp_path / "alone")
    lakes.assert_same(found, alone, ("tables", "inputs", "quarantine", "ids"))
    assert names(found) == names(alone)


def names(found: lakes.LakeContents) -> dict[str, Any]:
    """Columns, types and partitions regardless of order."""
    return {
        table: (sorted(tuple(c.items()) for c in columns), partitions)
        for table, (columns, _, partitions, _) in found.catalog.items()
    }


def test_both_make_the_same_table(tmp_path: Path, lake: Path) -> None:
    one = write(tmp_path / "raw/1.json", event("a", plan="x", seats=1))
    two = write(tmp_path / "raw/2.json", event("b", hour=8, plan="y", coupon=True))
    assert race(tmp_path, [one], [two]) == ["finished", "finished"]
    found = lakes.assert_complete(lake)
    columns, _, partitions, _ = found.catalog["signed_up"]
    made = {c["name"]: c["type"] for c in columns[12:]}
    assert made == {"plan": "string", "seats": "bigint", "coupon": "boolean"}
    assert [p["hr"] for p in partitions] == ["07", "08"]
    first, second = found.reports
    assert [first[1]["is_new"], second[1]["is_new"]] == [True, False]
    assert len(first[1]["new_columns"]) == 2
    assert len(second[1]["new_columns"]) == 1


def test_a_new_column_of_another_type_conflicts_and_lands_when_run_again(
    tmp_path: Path, lake: Path
) -> None:
    one = write(tmp_path / "raw/1.json", event("a", seats="many"))
    two = write(tmp_path / "raw/2.json", event("b", seats=3))
    lost, won = race(tmp_path, [one], [two])
    assert (won, "gave signed_up.seats another type" in lost) == ("finished", True)
    assert lakes.load([one, two], lake).counts.landed == 1
    assert lakes.assert_complete(lake).rows == 2


def test_a_table_of_which_the_other_landed_nothing_is_new(tmp_path: Path, lake: Path) -> None:
    """The other run had events of the table too, but all were suppressed."""
    one = write(tmp_path / "raw/1.json", {**event("a"), "userId": "u1"}, event("b", "Other"))
    two = write(tmp_path / "raw/2.json", event("c", seats=3))
    meet = Meet(tmp_path, "staged", ("go",))
    late = processes.start(load_and_tell, [two], lake, meet, tmp_path / "two")
    with processes.ended(late):
        processes.wait_for(tmp_path / "staged")
        lakes.load([one], lake, suppressed=["u1"])
        (tmp_path / "go").touch()
        processes.finish(late)
    assert (tmp_path / "two").read_text() == "finished"
    found = lakes.assert_complete(lake)
    assert [line["is_new"] for line in found.reports[1]] == [True, True]


@dataclass
class PublishesLate:
    """At one run's commit, another commits and stops; its files are moved while they are read."""

    file: Path
    lake: Path
    moves: list[Any] = field(default_factory=list)

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == "commit":
            with suppress(KeyboardInterrupt):
                lakes.load([self.file], self.lake, Stops())
            [commit] = lakes.read_commits(self.lake)
            files = (file for done in commit["tables"] for file in done["adds"])
            self.moves = [*commit["ids"], *files]

    def move(self, operation: str, path: str) -> None:
        """Publish the other run's files after a look at the store, whether it found one or not."""
        if operation in ("find", "open"):
            moves, self.moves = self.moves, []
            for move in moves:
                Disk(str(self.lake)).publish(move["staged"], move["path"])


class Stops:
    """Ends a run before it publishes."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == "publish":
            raise KeyboardInterrupt


def test_an_index_that_moves_while_it_is_looked_for_is_found(tmp_path: Path, lake: Path) -> None:
    one = write(tmp_path / "raw/1.json", event("a"))
    two = write(tmp_path / "raw/2.json", event("b"))
    other = PublishesLate(two, lake)
    store = WatchedDisk(str(lake), after=other.move)
    assert lakes.load([one], store.lake(), other).status == "finished"


def test_many_at_once(tmp_path: Path, lake: Path) -> None:
    """Six processes each land a file, into tables that all of them create."""
    tags = tuple(f"p{n}" for n in range(6))
    files = [crowd(tmp_path / f"raw/{tag}.json", tag) for tag in tags]
    started = [
        processes.start(
            load_and_tell,
            [file],
            lake,
            Meet(tmp_path, file.stem, tags),
            tmp_path / f"{file.stem}.output",
        )
        for file in files
    ]
    end(*started)
    assert {(tmp_path / f"{tag}.output").read_text() for tag in tags} == {"finished"}
    lakes.load(files, tmp_path / "alone")
    found, alone = lakes.assert_complete(lake), lakes.read_contents(tmp_path / "alone")
    lakes.assert_same(found, alone, ("tables", "inputs", "quarantine", "ids"))
    assert names(found) == names(alone)


# Recovery while another run commits


@dataclass
class CommitsAndDies:
    """Waits before its commit for a signal, and is killed right after it."""

    folder: Path

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == "commit":
            (self.folder / "staged").touch()
            processes.wait_for(self.folder / "go")
        if stage == "publish":
            os._exit(9)


def load_with(paths: list[Path], lake: Path, progress: Progress) -> None:
    lakes.load(paths, lake, progress)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_commits_while_another_recovers_keeps_its_files(
    tmp_path: Path, lake: Path, when: str
) -> None:
    """It commits and dies right before or right after the other looks for dead runs."""
    one = write(tmp_path / "raw/1.json", *(event(f"a{n}", hour=n) for n in range(10)))
    # Far away in time, so that the second load does not need the index of the first.
    late = [{**event(f"b{n}"), "receivedAt": f"2027-06-01T0{n}:00:00Z"} for n in range(5)]
    two = write(tmp_path / "raw/2.json", *late)
    first = processes.start(load_with, [one], lake, CommitsAndDies(tmp_path))

    def let_it_commit(operation: str, path: str) -> None:
        if (operation, path) == ("names", DEFAULT_LAYOUT.stage) and not (tmp_path / "go").exists():
            (tmp_path / "go").touch()
            assert processes.finish(first) == 9

    store = WatchedDisk(str(lake), **{when: let_it_commit})
    with processes.ended(first):
        processes.wait_for(tmp_path / "staged")
        assert lakes.load([two], store.lake()).status == "finished"
    assert lakes.load([one, two], lake).status == "nothing"
    assert lakes.assert_complete(lake).rows == 15


# Runs that are treated as dead


@dataclass
class HoldsForDead:
    """At one run's commit, another load runs that treats it as dead."""

    files: list[Path]
    lake: Path
    stage: str = "commit"
    statuses: list[str] = field(default_factory=list)

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage and not self.statuses:
            [lease] = self.lake.glob("segment-stage/*/lease.json")
            content = json.loads(lease.read_bytes())
            lease.write_text(json.dumps(content | {"pid": 2**22 + 1}))
            self.statuses.append(lakes.load(self.files, self.lake).status)


def test_a_run_held_for_dead_cannot_commit(tmp_path: Path, lake: Path) -> None:
    one = write(tmp_path / "raw/1.json", event("a"))
    two = write(tmp_path / "raw/2.json", event("b"))
    other = HoldsForDead([two], lake)
    with pytest.raises(Conflict, match="treated this run as dead and abandoned it"):
        lakes.load([one], lake, other)
    assert other.statuses == ["finished"]
    found = lakes.assert_complete(lake)
    assert (found.rows, found.failures) == (1, ["failed EventLake.Conflict"])
    assert lakes.load([one], lake).status == "finished"
    assert lakes.assert_complete(lake).rows == 2


@dataclass
class ComesBack:
    """A run that another treats as dead commits first, and is slow then."""

    slow: Path
    lake: Path
    process: BaseProcess | None = None

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        folder = self.lake.parent
        if stage == "plan":
            meet = Pauses(folder)
            self.process = processes.start(
                load_and_tell, [self.slow], self.lake, meet, folder / "slow"
            )
            processes.wait_for(folder / "staged")
            [lease] = self.lake.glob("segment-stage/*/lease.json")
            lease.write_text(json.dumps(json.loads(lease.read_bytes()) | {"pid": 2**22 + 1}))
        if stage == "commit":
            (folder / "commit it").touch()
            processes.wait_for(folder / "committed")


@dataclass
class Pauses:
    """Waits before its commit, and once more before it publishes."""

    folder: Path

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == "commit":
            (self.folder / "staged").touch()
            processes.wait_for(self.folder / "commit it")
        if stage == "publish" and done == 0:
            (self.folder / "committed").touch()
            processes.wait_for(self.folder / "publish it")


def test_a_run_held_for_dead_that_commits_first_keeps_its_files(tmp_path: Path, lake: Path) -> None:
    slow = write(tmp_path / "raw/1.json", event("a"))
    quick = write(tmp_path / "raw/2.json", event("b"))
    other = ComesBack(slow, lake)
    try:
        assert lakes.load([quick], lake, other).status == "finished"
    finally:
        (tmp_path / "publish it").touch()
        assert other.process is not None
        end(other.process)
    assert (tmp_path / "slow").read_text() == "finished"
    lakes.load([quick], lake)
    assert lakes.assert_complete(lake).rows == 2


def test_a_stage_that_has_no_lease_yet_is_not_dead(tmp_path: Path) -> None:
    """Its folder is created a moment before its lease."""
    ledger = Ledger(Disk(str(tmp_path)), DEFAULT_LAYOUT, "web")
    run_id = f"{time.time_ns():019d}"
    (tmp_path / DEFAULT_LAYOUT.stage_path(run_id)).mkdir(parents=True)
    assert not is_dead(ledger, run_id, SYSTEM_CLOCK.now())
    assert is_dead(ledger, "1700000000000000000", SYSTEM_CLOCK.now())


def test_a_lease_that_goes_while_it_is_read_is_no_lease(tmp_path: Path) -> None:
    """Its run has just removed its stage."""

    path = tmp_path / DEFAULT_LAYOUT.stage_path("1700000000000000000") / "lease.json"

    class Fleeting:
        """Lets its last look at the lease be the last."""

        def __init__(self, store: Any) -> None:
            self.store = store

        def __getattr__(self, name: str) -> Any:
            if name == "get":
                path.unlink(missing_ok=True)
            return getattr(self.store, name)

    store = Disk(str(tmp_path))
    ledger = Ledger(store, DEFAULT_LAYOUT, "web")
    with Stage(ledger, "1700000000000000000"):
        vars(store)["_store"] = Fleeting(store._store)
        assert read_lease(ledger, "1700000000000000000") is None


# The catalog


def test_two_runs_register_one_table_at_once(tmp_path: Path) -> None:
    """Concurrent additions are not lost."""
    both = threading.Barrier(2, timeout=2)

    class Slow(Disk):
        def write(self, path: str, data: Any) -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait()
            super().write(path, data)

    standard = (Column(name="id", type=Type.STRING),)
    table = CatalogTable(
        database="web", name="t", source="web", location="t", columns=standard,
        partition_columns=("day",),
    )  # fmt: skip
    register(FilesCatalog(Disk(str(tmp_path))), table)

    def add_day(day: str) -> None:
        add_partitions(FilesCatalog(Slow(str(tmp_path))), table, [{"day": day}])

    threads = [threading.Thread(target=add_day, args=(day,)) for day in ("01", "02")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = FilesCatalog(Disk(str(tmp_path))).table("web", "t")
    assert found is not None
    assert [partition["day"] for partition in found.partitions] == ["01", "02"]
