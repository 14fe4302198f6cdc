"""The ledger: commits by put-if-absent, their state, and leases of runs."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import Damaged
from eventlake.ledger import (
    DEAD_AFTER,
    Lease,
    Ledger,
    Stage,
    State,
    is_dead,
    lease_path,
    list_ledgers,
    list_staged_runs,
    read_lease,
    remove_stage,
    resolve_source,
)
from eventlake.ledger.commits import MAX_SNAPSHOTS
from eventlake.ledger.state import DIGEST_BYTES
from eventlake.model.commit import (
    Commit,
    Counts,
    DataFile,
    IdFile,
    IdMerge,
    Input,
    TableCommit,
)
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, new_table
from eventlake.model.settings import source_settings
from eventlake.model.tunables import LedgerTunables
from eventlake.model.types import Type
from eventlake.stores import Disk, Store

RUN = "1793518200123456789"
DAY_ONE = {"day": "2026-11-01"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Disk(str(tmp_path / "lake"))


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store, DEFAULT_LAYOUT, "web")


def tuned(ledger: Ledger, **tunables: int) -> Ledger:
    return replace(ledger, tunables=LedgerTunables(**tunables))


def table(name: str, *columns: str, landed: bool = True) -> TableCommit:
    more = tuple(Column(name=column, type=Type.STRING) for column in columns)
    files = (DataFile(path=f"{name}-{len(columns)}", rows=1, bytes=1, partition=DAY_ONE),)
    return TableCommit(
        table=new_table(name, Call.TRACK, Naming.WAREHOUSE).with_columns(more),
        counts=Counts(),
        adds=files if landed else (),
    )


def commit(number: int, *tables: TableCommit, origin: tuple[str, str] | None = None) -> Commit:
    return Commit(
        run_id=f"{number:019d}",
        settings=source_settings(source="web", dedup_days=number % 100),
        inputs=(Input(uri=f"file:///{number}", fingerprint="1", size=1, origin=origin),),
        counts=Counts(received=number),
        tables=tables,
        ids=(IdFile(path=f"ids/{number}", rows=1, first=0, last=1),),
    )


# Commits


def test_a_sequence_is_taken_once(ledger: Ledger) -> None:
    assert ledger.append(1, commit(1))
    assert not ledger.append(1, commit(2))
    assert ledger.append(2, commit(2))
    assert [(n, one.run_id) for n, one in ledger.commits_after(0)] == [
        (1, commit(1).run_id),
        (2, commit(2).run_id),
    ]
    assert ledger.commits_after(1) == [(2, commit(2))]
    assert ledger.read_commit(1) == commit(1)


def test_a_commit_is_one_object_named_by_its_sequence(ledger: Ledger) -> None:
    ledger.append(1, commit(1))
    place = Path(ledger.store.root) / "segment-data/ledger/web/000000000001.json"
    assert Commit.from_json(place.read_bytes()) == commit(1)


def test_what_is_half_written_is_no_commit(ledger: Ledger) -> None:
    ledger.append(1, commit(1))
    folder = Path(ledger.store.root) / "segment-data/ledger/web"
    (folder / "000000000002.json#1").write_text("{")  # what the store leaves when it is killed
    assert ledger.read_state().sequence == 1
    assert ledger.append(2, commit(2))


def test_a_file_that_is_no_commit_is_passed_over(ledger: Ledger) -> None:
    ledger.append(1, commit(1))
    (Path(ledger.store.root) / "segment-data/ledger/web/.DS_Store").write_text("x")
    assert ledger.read_state().sequence == 1


@pytest.mark.parametrize("gone", [(1,), (2,), (1, 2), (1, 2, 3)])
def test_a_hole_is_refused(ledger: Ledger, gone: tuple[int, ...]) -> None:
    ledger = tuned(ledger, snapshot_every=3)
    for number in (1, 2, 3):
        ledger.append(number, commit(number))
    ledger.snapshot_if_due(3)
    names = [f"{ledger.path}/{number:012d}.json" for number in gone]
    ledger.store.delete(names)
    if 3 not in gone:
        with pytest.raises(Damaged) as problem:
            ledger.commits_after(0)
        assert all(f"{ledger.store.root}/{name}" in str(problem.value) for name in names)
    else:  # the others are in the snapshot
        for read in (ledger.read_state, ledger.read_settings, ledger.list_live_files):
            with pytest.raises(Damaged, match=names[-1]):
                read()


def test_a_hole_of_many_commits_is_told_briefly(ledger: Ledger) -> None:
    ledger.append(1, commit(1))
    ledger.append(202_611_010_000, commit(2))
    with pytest.raises(Damaged, match=r"000000000021\.json and 202611009978 more: restore"):
        ledger.read_state()


# State


def test_nothing_has_happened(ledger: Ledger) -> None:
    assert ledger.read_state() == State()
    assert ledger.read_settings() is None
    assert ledger.commits_after(0) == []


def test_the_state_is_all_that_the_commits_say(ledger: Ledger) -> None:
    ledger.append(1, commit(1, table("orders", "a"), table("page")))
    ledger.append(2, commit(2, table("orders", "a", "b"), origin=("file:///from", "9")))
    state = ledger.read_state()
    assert state.sequence == 2
    assert state.settings == commit(2).settings == ledger.read_settings()
    assert len(state.inputs) == 3 * DIGEST_BYTES
    assert state.has_loaded(Input(uri="file:///from", fingerprint="9", size=1))
    assert state.tables == {
        "orders": table("orders", "a", "b").table,
        "page": table("page").table,
    }
    assert [file.path for file in state.ids] == ["ids/1", "ids/2"]
    assert state.runs == {commit(1).run_id: 1, commit(2).run_id: 2}


def test_a_table_begins_with_its_first_row(ledger: Ledger) -> None:
    ledger.append(1, commit(1, table("orders", landed=False)))
    assert ledger.read_state().tables == {}
    ledger.append(2, commit(2, table("orders", "a")))
    ledger.append(3, commit(3, table("orders", "a", "b", landed=False)))
    assert ledger.read_state().tables == {"orders": table("orders", "a", "b").table}


@pytest.mark.parametrize(
    ("uri", "fingerprint", "loaded"),
    [
        ("file:///1", "1", True),
        ("file:///from", "9", True),
        ("file:///1", "2", False),
        ("file:///from", "1", False),
        ("file:///3", "1", False),
    ],
)
def test_what_has_been_loaded(uri: str, fingerprint: str, loaded: bool) -> None:
    state = State().apply_commits([(1, commit(1, origin=("file:///from", "9")))], 200)
    assert state.has_loaded(Input(uri=uri, fingerprint=fingerprint, size=5)) is loaded


def test_digests_of_many_inputs_are_kept_in_order_and_once() -> None:
    inputs = [Input(uri=f"file:///{n}.gz", fingerprint="1", size=1) for n in range(200)]
    settings = source_settings(source="web")
    commits = [
        (n, Commit(run_id=str(n), settings=settings, inputs=inputs[:: n + 1], counts=Counts()))
        for n in range(1, 6)
    ]
    state = State().apply_commits(commits[:2], 9).apply_commits(commits[2:], 9)
    assert state == State().apply_commits(commits, 9) == State.from_json(state.to_json())
    loaded = {n for step in range(2, 7) for n in range(0, 200, step)}
    assert [n for n, one in enumerate(inputs) if state.has_loaded(one)] == sorted(loaded)
    assert len(state.inputs) == DIGEST_BYTES * len(loaded)


def test_a_copy_has_been_loaded_when_its_origin_has() -> None:
    state = State().apply_commits([(1, commit(1))], 200)
    copy = Input(uri="file:///copy", fingerprint="5", size=1, origin=("file:///1", "1"))
    assert state.has_loaded(copy)


def test_a_snapshot_gives_the_same_state(ledger: Ledger) -> None:
    ledger = tuned(ledger, snapshot_every=3)
    states = []
    for number in range(1, 9):
        ledger.append(number, commit(number, table("orders", *"abcdefgh"[:number])))
        states.append(ledger.read_state())
        ledger.snapshot_if_due(number)
        again = ledger.read_state()
        assert again.model_copy(update={"manifests": states[-1].manifests}) == states[-1]
    _, names = ledger.store.names(f"{ledger.path}/snapshots")
    assert names == ["000000000003.json", "000000000006.json"]
    assert states[-1].sequence == 8
    assert len(states[-1].runs) == len(states[-1].ids) == 8
    assert len(states[-1].inputs) == 8 * DIGEST_BYTES


def test_a_snapshot_spares_the_commits_before_it(ledger: Ledger) -> None:
    ledger = tuned(ledger, snapshot_every=2)
    for number in (1, 2, 3):
        ledger.append(number, commit(number))
    ledger.snapshot_if_due(3)
    ledger.store.write("segment-data/ledger/web/000000000001.json", b"not read any more")
    assert ledger.read_state().sequence == 3


@pytest.mark.parametrize("content", [b"", b"{", b'{"sequence":3}', b"[]"])
def test_a_damaged_snapshot_is_passed_over(ledger: Ledger, content: bytes) -> None:
    ledger = tuned(ledger, snapshot_every=2)
    for number in (1, 2, 3, 4):
        ledger.append(number, commit(number))
        ledger.snapshot_if_due(number)
    whole, newest = ledger.read_state(), f"{ledger.path}/snapshots/000000000004.json"
    files = ledger.list_live_files()
    ledger.store.write(newest, content)
    assert ledger.read_state().model_copy(update={"manifests": whole.manifests}) == whole
    assert ledger.list_live_files() == files
    ledger.rebuild_snapshot()
    assert ledger.read_state().model_copy(update={"manifests": whole.manifests}) == whole
    assert ledger.list_live_files() == files


def test_a_commit_that_cannot_be_read_is_named(ledger: Ledger) -> None:
    ledger.append(1, commit(1))
    name = f"{ledger.path}/000000000001.json"
    for content in (b"", b"{", b"[]", b'{"settings":[]}', commit(1).to_json()[:-9]):
        ledger.store.write(name, content)
        with pytest.raises(Damaged, match=f"{ledger.store.root}/{name} is damaged .*restore"):
            ledger.read_state()


def test_the_sources_of_a_lake(store: Store) -> None:
    assert list_ledgers(store, DEFAULT_LAYOUT) == []
    web, app = (Ledger(store, DEFAULT_LAYOUT, folder) for folder in ("web", "app"))
    for ledger in (web, app):
        ledger.append(1, commit(1))
    assert list_ledgers(store, DEFAULT_LAYOUT) == [app, web]


# Live files


def landed(number: int, *removes: int) -> Commit:
    """A commit that adds one file and removes earlier ones."""

    def file(of: int) -> DataFile:
        return DataFile(path=f"f{of:04d}", rows=of, bytes=10, partition=DAY_ONE)

    schema = new_table("orders", Call.TRACK, Naming.WAREHOUSE)
    done = TableCommit(
        table=schema, counts=Counts(), adds=(file(number),), removes=tuple(map(file, removes))
    )
    return commit(number, done)


def live(ledger: Ledger) -> list[int]:
    return [file.rows or 0 for file in ledger.list_live_files().get("orders", [])]


def test_live_files_are_those_added_and_not_removed(ledger: Ledger) -> None:
    """In merged manifests, other manifests, and commits alone."""
    ledger = tuned(ledger, snapshot_every=2, merge_manifests=3)
    wanted: list[int] = []
    for number in range(1, 61):
        gone = [number - 7] if number % 5 == 0 and number > 7 else []
        wanted = [one for one in wanted if one not in gone] + [number]
        ledger.append(number, landed(number, *gone))
        ledger.snapshot_if_due(number)
        assert live(ledger) == wanted
    _, snapshots = ledger.store.names(f"{ledger.path}/snapshots")
    _, manifests = ledger.store.names(f"{ledger.path}/manifests")
    assert len(snapshots) == MAX_SNAPSHOTS
    assert len(manifests) < 15
    ledger.rebuild_snapshot()
    assert live(ledger) == wanted


def test_a_manifest_whose_snapshot_is_yet_to_be_written_stays(ledger: Ledger) -> None:
    ledger = tuned(ledger, snapshot_every=1, merge_manifests=3)
    late = f"{ledger.path}/manifests/000000000001-000000000030.json.zst"
    for number in range(1, 31):
        ledger.append(number, landed(number))
        if number == 29:
            ledger.store.write(late, b"another run is about to name it")
        ledger.snapshot_if_due(number)
    assert ledger.store.exists(late)


def test_a_run_is_found_however_long_ago_it_committed(ledger: Ledger) -> None:
    ledger = tuned(ledger, snapshot_every=4, recent_runs=5)
    for number in range(1, 40):
        ledger.append(number, landed(number))
        ledger.snapshot_if_due(number)
    state = ledger.read_state()
    assert len(state.runs) == 5
    found = [ledger.find_sequence(commit(number).run_id, state) for number in range(1, 40)]
    assert found == list(range(1, 40))
    assert ledger.find_sequence("9" * 19, state) is None


def test_a_run_of_a_clock_in_the_future_is_not_a_lost_commit(ledger: Ledger) -> None:
    """Its run id stays greater than those of all later runs, also when it is long ago."""
    ledger = tuned(ledger, recent_runs=2)
    future = "1999999999000000000"
    path = f"{ledger.path}/ids/{future}-0.parquet"
    index = IdFile(path=path, rows=1, first=0, last=1)
    ledger.append(1, commit(1).model_copy(update={"run_id": future, "ids": (index,)}))
    ledger.store.write(path, b"ids")
    for number in range(2, 8):
        ledger.append(number, commit(number))
    assert future not in ledger.read_state().runs
    ledger.store.write(f"{ledger.path}/ids/2000000000000000000-0.parquet", b"of nobody")
    with pytest.raises(Damaged, match="has lost its last commits"):
        ledger.read_state()


def test_removed_ids_are_left_out_of_index_files_of_their_time(ledger: Ledger) -> None:
    def index(path: str, first: int, last: int) -> IdFile:
        return IdFile(path=path, rows=1, first=first, last=last)

    removed = index("removed", 15, 30)
    files = (index("a", 0, 10), index("b", 10, 20), index("c", 31, 40))
    ledger.append(1, commit(1).model_copy(update={"ids": files}))
    ledger.append(
        2, commit(2).model_copy(update={"removed_ids": (removed,), "ids": (index("d", 15, 30),)})
    )
    state = ledger.read_state()
    assert {file.path: file.without for file in state.ids} == {
        "a": (),
        "b": ("removed",),
        "c": (),
        "d": (),
    }
    assert state.retired == {}
    merge = IdMerge(file=index("e", 0, 20), replaces=("a", "b"))
    ledger.append(3, commit(3).model_copy(update={"merges": (merge,)}))
    assert ledger.read_state().retired.keys() == {"a", "b", "removed"}


def test_index_files_that_were_merged_are_retired_and_later_deleted(ledger: Ledger) -> None:
    for number in (1, 2):
        ledger.append(number, commit(number))
    merged = IdFile(path="ids/merged", rows=2, first=0, last=1)
    merge = IdMerge(file=merged, replaces=("ids/1", "ids/2"))
    ledger.append(3, commit(3).model_copy(update={"merges": (merge,)}))
    state = ledger.read_state()
    assert [file.path for file in state.ids] == ["ids/merged", "ids/3"]
    assert state.retired == dict.fromkeys(("ids/1", "ids/2"), commit(3).run_id)
    ledger.append(4, commit(4).model_copy(update={"deletes": ("ids/1",)}))
    assert list(ledger.read_state().retired) == ["ids/2"]


# Leases


def lease(store: Store, run: str = RUN, **fields: object) -> None:
    given = {"folder": "web", "host": socket.gethostname(), "pid": os.getpid()} | fields
    store.write(lease_path(DEFAULT_LAYOUT, run), Lease.model_validate(given).to_json())


def ended_process() -> int:
    code = "import os; print(os.getpid())"
    done = subprocess.run([sys.executable, "-Sc", code], capture_output=True, check=True)
    return int(done.stdout)


def test_a_run_that_works_lives(ledger: Ledger) -> None:
    with Stage(ledger, RUN):
        found = read_lease(ledger, RUN)
        assert found == Lease(folder="web", host=socket.gethostname(), pid=os.getpid())
        assert not is_dead(ledger, RUN, SYSTEM_CLOCK.now())
        assert list_staged_runs(ledger) == [RUN]


def test_a_run_whose_process_has_ended_is_dead(store: Store, ledger: Ledger) -> None:
    lease(store, pid=ended_process())
    assert is_dead(ledger, RUN, SYSTEM_CLOCK.now())


def test_a_process_on_another_machine_cannot_be_asked(store: Store, ledger: Ledger) -> None:
    lease(store, host="elsewhere", pid=ended_process())
    assert not is_dead(ledger, RUN, SYSTEM_CLOCK.now())


@pytest.mark.parametrize(
    ("silent", "dead"), [(timedelta(0), False), (DEAD_AFTER / 2, False), (DEAD_AFTER * 2, True)]
)
def test_a_run_that_is_silent_for_long_is_dead(
    store: Store, ledger: Ledger, silent: timedelta, dead: bool
) -> None:
    lease(store, host="elsewhere")
    place = Path(store.root) / lease_path(DEFAULT_LAYOUT, RUN)
    then = place.stat().st_mtime - silent.total_seconds()
    os.utime(place, (then, then))
    assert is_dead(ledger, RUN, SYSTEM_CLOCK.now()) is dead


def test_a_run_that_writes_is_not_silent(store: Store, ledger: Ledger) -> None:
    lease(store, host="elsewhere")
    os.utime(Path(store.root) / lease_path(DEFAULT_LAYOUT, RUN), (0, 0))
    store.write(f"segment-stage/{RUN}/read/x", b"")
    assert not is_dead(ledger, RUN, SYSTEM_CLOCK.now())


def test_a_stage_without_a_lease_is_dead(store: Store, ledger: Ledger) -> None:
    store.write(f"segment-stage/{RUN}/read/x", b"")
    assert is_dead(ledger, RUN, SYSTEM_CLOCK.now())
    assert list_staged_runs(ledger) == list_staged_runs(replace(ledger, folder="app")) == [RUN]


class Vanishing(Disk):
    """A lake where another run removes its lease right after it was listed."""

    def exists(self, path: str) -> bool:
        there = super().exists(path)
        self.delete([path])
        return there


def test_a_stage_that_is_removed_meanwhile(store: Store, ledger: Ledger) -> None:
    lease(store)
    assert list_staged_runs(replace(ledger, store=Vanishing(store.root))) == [RUN]


def test_the_stages_of_a_source_are_its_own(store: Store, ledger: Ledger) -> None:
    lease(store, "1", folder="web")
    lease(store, "2", folder="app")
    assert list_staged_runs(ledger) == ["1"]
    assert list_staged_runs(replace(ledger, folder="app")) == ["2"]


def test_the_lease_is_renewed_while_the_run_lives(store: Store, ledger: Ledger) -> None:
    place = Path(store.root) / lease_path(DEFAULT_LAYOUT, RUN)
    with Stage(ledger, RUN, timedelta(milliseconds=1)) as stage:
        os.utime(place, (0, 0))
        for _ in range(1000):
            if place.stat().st_mtime > 0:
                break
            stage._ended.wait(0.005)
        assert place.stat().st_mtime > 0
    os.utime(place, (0, 0))
    assert not stage._renewer.is_alive()


def test_a_stage_goes_with_all_that_is_in_it(store: Store, ledger: Ledger) -> None:
    lease(store)
    lease(store, "2")
    store.write(f"segment-stage/{RUN}/a/b/c", b"x")
    (Path(store.root) / f"segment-stage/{RUN}/empty/below").mkdir(parents=True)
    remove_stage(ledger, RUN)
    assert not (Path(store.root) / f"segment-stage/{RUN}").exists()
    assert list_staged_runs(ledger) == ["2"]
    remove_stage(ledger, RUN)


def test_settings_are_the_changes_then_the_last_load_then_the_defaults(store: Store) -> None:
    assert resolve_source(store, DEFAULT_LAYOUT, "web") == source_settings(source="web")
    last = source_settings(source="web", source_id="id-1", naming="native", dedup_days=3)
    Ledger(store, DEFAULT_LAYOUT, "id-1").append(
        1, Commit(run_id="1793500000000000000", settings=last, inputs=(), counts=Counts())
    )
    assert resolve_source(store, DEFAULT_LAYOUT, "web") == last
    assert resolve_source(store, DEFAULT_LAYOUT, "id-1") == last
    changed = resolve_source(store, DEFAULT_LAYOUT, "web", dedup_days=1, naming=None)
    assert (changed.dedup_days, changed.naming) == (1, "native")
