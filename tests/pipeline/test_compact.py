"""Compactions: small files of sealed partitions are merged, and the rows stay as they are."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import lakes
from tests.catalogs import MemoryCatalog
from tests.children import make_waiting_runner
from tests.clocks import SimulatedClock
from tests.lakes import InlineRunner
from tests.pipeline.test_replay import AtStage, event, write
from tests.stores import WatchedDisk

from eventlake.errors import InvalidSettings, Unavailable
from eventlake.lakes import open_parts
from eventlake.model.settings import source_settings
from eventlake.model.tunables import Tunables, WriteTunables
from eventlake.services.compact import compact, plan_compaction
from eventlake.services.compaction import CompactResult
from eventlake.services.drop import drop
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype, retype_request

ALL = ReplayRequest("web", all_time=True)
UNCHANGED = ("tables", "catalog", "quarantine", "ids", "inputs", "strays", "problems")
"""What a compaction leaves as it is."""


def run(lake: Any, **options: Any) -> CompactResult:
    """Compact the only source of a lake, without Spark."""
    [result] = compact(lake=lake, where=InlineRunner(), **options)
    return result


def fill(folder: Path, **sample: Any) -> Path:
    """A lake of the day, loaded a file at a time, in which files overlap in time."""
    files = lakes.small_sample(folder / "raw", **sample)
    files += lakes.small_sample(folder / "more", seed=8, **sample)
    for file in files:
        settings = source_settings(source="web", date_partition="day")
        lakes.load([file], folder / "lake", settings=settings)
    return folder / "lake"


def data_files(lake: Path) -> dict[str, list[Path]]:
    """The data files by partition of a table."""
    partitions: dict[str, list[Path]] = {}
    for path in sorted((lake / "segment-data/data").rglob("*.parquet")):
        partitions.setdefault(str(path.parent), []).append(path)
    return partitions


def received(path: Path) -> list[datetime]:
    times: list[datetime] = pq.read_table(path, columns=["received_at"], partitioning=None)[
        "received_at"
    ].to_pylist()
    return times


def test_rows_stay_and_a_partition_has_one_file(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    before, files = lakes.assert_complete(lake), data_files(lake)
    assert {len(of) for of in files.values()} == {6}
    result = run(lake)
    assert (result.status, result.files, result.files_after) == ("finished", 36, 6)
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)
    for paths in data_files(lake).values():
        [path] = paths
        assert received(path) == sorted(received(path))
    assert [commit["kind"] for commit in lakes.read_commits(lake)[6:]] == ["compact"]


def test_a_second_compaction_writes_nothing(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    run(lake)
    paths = sorted(lake.rglob("*"))
    result = run(lake)
    assert (result.status, result.message) == ("nothing", "nothing to compact")
    assert sorted(lake.rglob("*")) == paths


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    paths = sorted(lake.rglob("*"))
    [plan] = plan_compaction("web", lake=lake)
    assert sorted(lake.rglob("*")) == paths
    result = run(lake)
    assert (plan.status, plan.tables) == ("planned", result.tables)
    assert plan_compaction(lake=lake)[0].status == "nothing"


def test_files_are_as_those_of_a_load(tmp_path: Path) -> None:
    lake = fill(tmp_path, events=6000)
    run(lake)
    commits = lakes.read_commits(lake)
    (added,) = (one["adds"] for one in commits[-1]["tables"] if one["table"]["name"] == "page")
    footer = pq.read_metadata(lake / added[0]["path"])
    names = footer.schema.names
    [columns] = (
        one["table"]["columns"] for one in commits[-1]["tables"] if one["table"]["name"] == "page"
    )
    assert names == [column["name"] for column in columns]
    group = footer.row_group(0)
    for number, name in enumerate(names):
        chunk = group.column(number)
        assert chunk.compression == "ZSTD"
        stats = chunk.statistics
        assert added[0]["stats"][name][0] == stats.null_count
    assert "RLE_DICTIONARY" in group.column(names.index("context_library_name")).encodings
    last = max(received(lake / added[0]["path"]))
    assert added[0]["stats"]["received_at"][2] == f"{last:%Y-%m-%dT%H:%M:%S.%f}Z"
    assert footer.metadata is None


def test_files_have_the_target_size(tmp_path: Path) -> None:
    """Of each partition at most one file is smaller, and rows are in order through all of them."""
    lake = fill(tmp_path, events=3000)
    before = lakes.assert_complete(lake)
    tunables = Tunables(write=WriteTunables(file_bytes=40_000, group_bytes=8_000))
    large = {path for of in data_files(lake).values() for path in of if path.stat().st_size > 4e4}
    result = run(lake, tunables=tunables)
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)
    counts = []
    for paths in data_files(lake).values():
        assert sum(path.stat().st_size < 40_000 for path in paths) <= 1
        merged = [path for path in paths if path not in large]
        times = sorted((received(path) for path in merged), key=lambda times: times[0])
        assert [time for of_file in times for time in of_file] == sorted(chain(*times))
        counts.append(len(merged))
    assert max(counts) > 1
    assert result.files_after == sum(counts)
    assert run(lake, tunables=tunables).status == "nothing"


def test_a_small_file_beside_large_ones_stays(tmp_path: Path) -> None:
    lake = fill(tmp_path, events=3000)
    sizes = sorted(path.stat().st_size for of in data_files(lake).values() for path in of)
    tunables = Tunables(write=WriteTunables(file_bytes=sizes[0] + 1))
    assert run(lake, tunables=tunables).status == "nothing"


def test_columns_that_older_files_lack_are_null(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number in range(4):
        properties = {f"p{n}": n for n in range(4 - number, 5)}
        one = event(number, 1 + number / 10, properties=properties)
        lakes.load([write(tmp_path / f"{number}.gz", [one])], lake)
    before = lakes.assert_complete(lake)
    run(lake)
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)
    [[path]] = data_files(lake).values()
    table = pq.read_table(path, partitioning=None)
    assert table.column_names[-4:] == ["p4", "p3", "p2", "p1"]
    assert table["p1"].to_pylist() == [None, None, None, 1]


def test_only_partitions_without_new_events(tmp_path: Path) -> None:
    """A partition is sealed when its newest event is older than the limit."""
    lake = tmp_path / "lake"
    for number in range(4):
        events = [event(2 * number, 1 + number / 10), event(2 * number + 1, 5 + number / 10)]
        lakes.load([write(tmp_path / f"{number}.gz", events)], lake)
    newest = datetime(2026, 11, 1, 5, 18, tzinfo=UTC)
    clock = SimulatedClock(newest + timedelta(hours=2))
    assert run(lake, clock=clock).files == 4  # the hour of 5:18 is just not older than 2 h
    clock.advance(timedelta(microseconds=1))
    assert [plan.files for plan in plan_compaction(lake=lake, clock=clock)] == [4]
    assert run(lake, clock=clock, older_than="3h").status == "nothing"
    assert run(lake, clock=clock).files == 4
    lakes.assert_complete(lake)


@pytest.mark.parametrize("limit", ["soon", "", "2", "-1h", "2 weeks", "99999999d", "1.5h"])
def test_a_wrong_limit(tmp_path: Path, limit: str) -> None:
    with pytest.raises(InvalidSettings, match=r"older_than is .*such as 90m"):
        compact("web", lake=fill(tmp_path, events=12), older_than=limit)


def test_an_unknown_source(tmp_path: Path) -> None:
    lake = fill(tmp_path, events=12)
    with pytest.raises(InvalidSettings, match="no source 'app'"):
        compact("app", lake=lake)
    with pytest.raises(InvalidSettings, match="no source 'app'"):
        plan_compaction("app", lake=lake)


def test_all_sources(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    files = sorted((tmp_path / "raw").iterdir())
    for file in files:
        lakes.load([file], lake, settings=source_settings(source="app", date_partition="day"))
    results = compact(lake=lake, where=InlineRunner())
    assert [(one.source, one.files) for one in results] == [("app", 18), ("web", 36)]
    assert open_lake(lake).verify("app").problems == ()
    assert compact(lake=tmp_path / "lake", where=InlineRunner())[0].status == "nothing"


# Files that stay


def test_files_with_another_type_of_a_column_stay(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number in range(6):
        if number == 3:
            retype("web.order_completed", {"n": "string"}, lake=lake)
        one = event(number, 1 + number / 10, properties={"n": number})
        lakes.load([write(tmp_path / f"{number}.gz", [one])], lake)
    before = lakes.assert_complete(lake)
    [plan] = plan_compaction(lake=lake)
    result = run(lake)
    assert plan.other_types == result.other_types == 3
    assert (result.files, result.files_after) == (3, 1)
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)
    assert run(lake).status == "nothing"
    request = retype_request("web.order_completed", {"n": "string"}, lake=lake)
    replay(request, lake=lake, where=InlineRunner())
    assert run(lake).other_types == 0
    lakes.assert_complete(lake)


def test_files_of_a_run_that_is_not_finished_stay(tmp_path: Path) -> None:
    """Whoever publishes them late must not bring back what was merged."""
    lake = fill(tmp_path)
    *_, last = sorted(commit["run_id"] for commit in lakes.read_commits(lake))
    stage = lake / "segment-stage" / last
    stage.mkdir(parents=True)
    clock = SimulatedClock(datetime.now(UTC))
    lease = {"folder": "web", "host": "elsewhere", "pid": 1}
    (stage / "lease.json").write_text(json.dumps(lease))
    parts = open_parts(lake)
    assert last in {path.name for path in (lake / "segment-stage").iterdir()}
    result = run(replace(parts, clock=clock))
    assert result.files == 30
    assert any(last in path.name for of in data_files(lake).values() for path in of)


def test_a_damaged_file_is_named_and_nothing_is_merged(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    paths = next(iter(data_files(lake).values()))
    paths[0].write_bytes(b"PAR1" + b"x" * (paths[0].stat().st_size - 4))
    with pytest.raises(Exception, match=f"{paths[0].name} is damaged"):
        run(lake)
    assert len(lakes.read_commits(lake)) == 6
    assert not (lake / "segment-stage").exists()


def test_what_cannot_be_published_is_left_to_the_next_run(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    before = lakes.read_contents(lake)

    def refuse(operation: str, path: str) -> None:
        if operation == "publish" and "/page-" in path:
            raise Unavailable("the disk is full")

    result = run(WatchedDisk(str(lake), refuse).lake())
    assert (result.status, result.message) == ("partial", "the disk is full")
    assert run(lake).status == "nothing"
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)


# Beside other runs


def test_ctrl_c_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    before, files = lakes.assert_complete(lake), data_files(lake)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for stage in ("plan", "compact", "commit"):
        with pytest.raises(KeyboardInterrupt):
            run(lake, progress=AtStage(stage, interrupt))
        lakes.assert_same(lakes.read_contents(lake), before, UNCHANGED)
        assert (data_files(lake), lakes.strays(lake)) == (files, [])
    with pytest.raises(KeyboardInterrupt):  # after the commit: the next run finishes it
        run(lake, progress=AtStage("publish", interrupt))
    assert run(lake).status == "nothing"
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)
    assert {len(of) for of in data_files(lake).values()} == {1}


def test_a_load_beside_a_compaction(tmp_path: Path) -> None:
    """At every step of it: no one waits, no one fails, and new columns stay."""
    lake = tmp_path / "lake"
    for number, stage in enumerate(("plan", "start", "compact", "commit", "publish", "clean")):
        for name in ("a", "b", "beside"):
            one = event(number, 1, messageId=f"{stage}-{name}", properties={f"{stage}_{name}": 1})
            write(tmp_path / f"{stage}-{name}.gz", [one])
        lakes.load([tmp_path / f"{stage}-a.gz"], lake)
        lakes.load([tmp_path / f"{stage}-b.gz"], lake)
        more = tmp_path / f"{stage}-beside.gz"
        beside = AtStage(stage, partial(lakes.load, [more], lake))
        assert run(lake, progress=beside).status == "finished"
        assert len([file for of in data_files(lake).values() for file in of]) <= 2
        contents = lakes.assert_complete(lake)
        assert contents.rows == 3 * number + 3
        assert not contents.failures


def test_new_settings_of_a_load_beside_a_compaction_hold(tmp_path: Path) -> None:
    lake, more = fill(tmp_path), write(tmp_path / "new.gz", [event(1, 1)])
    settings = source_settings(source="web", date_partition="day", database="shop")
    beside = AtStage("commit", lambda: lakes.load([more], lake, settings=settings))
    assert run(lake, progress=beside).status == "finished"
    assert {table.database for table in open_lake(lake).tables()} == {"shop"}
    assert open_lake(lake).verify("web").problems == ()


def test_of_two_compactions_one_is_made(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    before = lakes.read_contents(lake)
    beside = AtStage("commit", lambda: run(lake))
    assert run(lake, progress=beside).status == "nothing"
    assert [commit.get("kind") for commit in lakes.read_commits(lake)[6:]] == ["compact"]
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)


def test_a_replay_beside_a_compaction_wins(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    files = sorted((tmp_path / "raw").iterdir()) + sorted((tmp_path / "more").iterdir())
    window = ReplayRequest("web", "2026-11-01", "2026-11-02")
    beside = AtStage("commit", lambda: replay(window, lake=lake, where=InlineRunner()))
    assert run(lake, progress=beside).status == "nothing"
    assert [one.get("kind") for one in lakes.read_commits(lake)[6:]] == ["replay"]
    assert_as_fresh(tmp_path, lake, files)


def test_a_replay_takes_a_compaction_over(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    files = sorted((tmp_path / "raw").iterdir()) + sorted((tmp_path / "more").iterdir())
    window = ReplayRequest("web", "2026-11-01", "2026-11-02")
    beside = AtStage("commit", lambda: run(lake))
    assert replay(window, lake=lake, where=InlineRunner(), progress=beside).status == "finished"
    assert [name for name, _ in beside.steps].count("commit") == 1
    assert [one.get("kind") for one in lakes.read_commits(lake)[6:]] == ["compact", "replay"]
    assert_as_fresh(tmp_path, lake, files)


def test_a_retype_beside_a_compaction(tmp_path: Path) -> None:
    """The files have other types then than the table, so none is merged."""
    lake = tmp_path / "lake"
    for number in range(3):
        one = event(number, 1, properties={"n": number})
        lakes.load([write(tmp_path / f"{number}.gz", [one])], lake)
    column = {"n": "string"}
    beside = AtStage("commit", lambda: retype("web.order_completed", column, lake=lake))
    result = run(lake, progress=beside)
    assert (result.status, result.other_types) == ("nothing", 3)
    lakes.assert_complete(lake)


def assert_as_fresh(folder: Path, lake: Path, files: Sequence[Path], **options: Any) -> None:
    """Assert that a lake is as one into which all files were loaded at once."""
    settings = source_settings(source="web", date_partition="day")
    lakes.load(files, folder / "fresh", settings=settings, **options)
    fresh = lakes.assert_complete(folder / "fresh")
    content = ("tables", "quarantine", "ids", "strays", "problems")
    lakes.assert_same(lakes.assert_complete(lake), fresh, content)


# Where it runs


def test_a_compaction_in_a_child_process(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    before = lakes.read_contents(lake)
    [result] = compact(lake=lake, where=make_waiting_runner(lake, tmp_path / "jobs"))
    assert (result.status, result.files_after) == ("finished", 6)
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)


@pytest.mark.spark
def test_a_compaction_on_spark(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    before = lakes.read_contents(lake)
    [result] = compact(lake=lake, where="local[2]")
    assert (result.status, result.files_after) == ("finished", 6)
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)


# What comes after it


def test_replays_retypes_and_drops_after_a_compaction(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    files = sorted((tmp_path / "raw").iterdir()) + sorted((tmp_path / "more").iterdir())
    run(lake)
    replay(ReplayRequest("web", "2026-11-01", "2026-11-02"), lake=lake, where=InlineRunner())
    assert_as_fresh(tmp_path / "1", lake, files)
    files.append(write(tmp_path / "late.gz", [event(1, 1)]))
    lakes.load(files[-1:], lake)
    run(lake)
    replay(ALL, lake=lake, where=InlineRunner())
    assert_as_fresh(tmp_path / "2", lake, files)
    lakes.load([write(tmp_path / "page.gz", [event(2, 1, type="page")])], lake)
    run(lake)
    rows = lakes.assert_complete(lake).tables["page"].total()
    request = retype_request("web.page", {"integrations_all": "string"}, lake=lake)
    replay(request, lake=lake, where=InlineRunner())
    assert lakes.assert_complete(lake).tables["page"].total() == rows
    drop("web", lake=lake, tables=["page"])
    assert "page" not in lakes.assert_complete(lake).tables
    drop("web", lake=lake)
    lakes.load(files, lake, settings=source_settings(source="web", date_partition="day"))
    assert_as_fresh(tmp_path / "3", lake, files)


def test_verify_finds_a_row_that_a_compaction_lost(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    run(lake)
    path = next(iter(data_files(lake).values()))[0]
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(pa.concat_tables([rows.slice(1), rows.slice(1, 1)]), path)
    problems = "; ".join(lakes.read_contents(lake).problems)
    assert "events of the archive are missing" in problems
    assert "rows are duplicates" in problems
    assert "the id index has other ids than the tables" in problems


def test_verify_finds_a_merged_file_that_is_back(tmp_path: Path) -> None:
    lake = fill(tmp_path)
    path = next(iter(data_files(lake).values()))[0]
    content = path.read_bytes()
    run(lake)
    path.write_bytes(content)
    problems = "; ".join(lakes.read_contents(lake).problems)
    assert "Parquet files that no commit names" in problems


def test_verify_with_lost_logs_and_suppressed_users(tmp_path: Path) -> None:
    """It then relies on the rows of each commit, which are merged with those of others."""
    lake, files = tmp_path / "lake", []
    for number, users in enumerate(([], ["u1"], ["u2"], [])):
        events = [event(10 * number + n, 1 + n / 60, userId=f"u{n}") for n in range(4)]
        files.append(write(tmp_path / f"{number}.gz", [*events, event(0, 1)]))
        lakes.load(files[-1:], lake, suppressed=users)
    before = lakes.assert_complete(lake)
    files[2].unlink()
    lost = lakes.read_contents(lake).problems
    assert len(lost) == 1
    run(lake)
    assert lakes.read_contents(lake).problems == lost
    assert lakes.read_contents(lake).tables == before.tables


# Without a catalog


@dataclass(frozen=True)
class CountingCatalog(MemoryCatalog):
    """A catalog in memory that records the names of the calls."""

    calls: list[str] = field(default_factory=list)

    def __getattribute__(self, name: str) -> Any:
        if name in ("databases", "tables", "table", "ensure", "replace", "retype", "drop"):
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)


def test_a_compaction_needs_no_catalog(tmp_path: Path) -> None:
    catalog = CountingCatalog()
    lake = replace(WatchedDisk(str(tmp_path / "lake")).lake(), catalog=catalog)
    for file in lakes.small_sample(tmp_path / "raw"):
        lakes.load([file], lake, settings=source_settings(source="web", date_partition="day"))
    entries = dict(catalog.entries)
    assert catalog.calls
    catalog.calls.clear()
    assert run(lake).status == "finished"
    assert catalog.calls == []
    assert catalog.entries == entries


# After a load


def test_compact_after_a_load(tmp_path: Path) -> None:
    lake, files = tmp_path / "lake", lakes.small_sample(tmp_path / "raw")
    settings = source_settings(source="web", date_partition="day", compact_after="2h")
    results = [lakes.load([file], lake, settings=settings) for file in files]
    assert [result.compacted_files for result in results] == [0, 12, 12]
    kinds = [commit.get("kind", "load") for commit in lakes.read_commits(lake)]
    assert kinds == ["load", "load", "compact", "load", "compact"]
    assert {len(of) for of in data_files(lake).values()} == {1}
    lakes.assert_complete(lake)


def test_compact_after_can_be_turned_off(tmp_path: Path) -> None:
    lake, files = tmp_path / "lake", lakes.small_sample(tmp_path / "raw")
    for file, after in zip(files, ("2h", "off", None), strict=True):
        changes = {} if after is None else {"compact_after": after}
        given = source_settings(source="web", date_partition="day", **changes)
        result = lakes.load([file], lake, settings=given)
    assert (result.compacted_files, len(lakes.read_commits(lake))) == (0, 3)


@pytest.mark.parametrize("value", ["soon", "2", "-1h"])
def test_a_wrong_compact_after(value: str) -> None:
    with pytest.raises(InvalidSettings, match=f"compact_after is '{value}': .*such as 90m"):
        source_settings(source="web", compact_after=value)


def test_a_failed_compaction_does_not_fail_the_load(tmp_path: Path) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    settings = source_settings(source="web", date_partition="day", compact_after="2h")

    def refuse(operation: str, path: str) -> None:
        if operation == "write_staged" and "/compact/" in path:
            raise Unavailable("the disk is full")

    lake = WatchedDisk(str(tmp_path / "lake"), refuse).lake()
    for file in files:
        result = lakes.load([file], lake, settings=settings)
        assert result.status == "finished"
    assert "the compaction after the load failed" in result.warnings[0]
    assert "the disk is full" in result.warnings[0]
    assert [one.get("kind", "load") for one in lakes.read_commits(tmp_path / "lake")] == [
        "load"
    ] * 3
    assert run(tmp_path / "lake").files == 18


# At random


@pytest.mark.parametrize("seed", range(6))
def test_random_files(tmp_path: Path, seed: int) -> None:
    """With files that overlap, repeat times, and are longer than a batch."""
    random, lake = Random(seed), tmp_path / "lake"
    for number in range(random.randrange(2, 7)):
        begin, span = random.random(), random.choice((0.0, 0.1, 1.0))
        count = random.choice((1, 5, 1500, 4000))
        events = [
            event(10_000 * number + n, 2 + (begin + span * random.random()) / 2, userId=f"u{n % 7}")
            for n in range(count)
        ]
        lakes.load([write(tmp_path / f"{number}.gz", events)], lake)
    before = lakes.read_contents(lake).tables
    tunables = Tunables(
        write=WriteTunables(group_bytes=random.choice((1000, 20_000)), file_bytes=60_000)
    )
    assert run(lake, tunables=tunables).status == "finished"
    assert lakes.assert_complete(lake).tables == before
    for path in (path for of in data_files(lake).values() for path in of):
        assert received(path) == sorted(received(path))


def test_many_files_of_many_tables(tmp_path: Path) -> None:
    """2,000 files of 50 tables: as many rows, and one file in each partition."""
    lake = tmp_path / "lake"
    settings = source_settings(source="web", date_partition="day")
    for number in range(40):
        events = [
            event(100 * number + n, 12 * n / 50 + number / 100, event=f"Event {n}")
            for n in range(50)
        ]
        lakes.load([write(tmp_path / f"{number}.gz", events)], lake, settings=settings)
    assert sum(map(len, data_files(lake).values())) == 2000
    before = lakes.read_contents(lake)
    result = run(lake)
    assert (result.files, result.files_after) == (2000, 50)
    assert {len(of) for of in data_files(lake).values()} == {1}
    lakes.assert_same(lakes.assert_complete(lake), before, UNCHANGED)
