"""A lake on disk with Delta tables: kills, late commits, and everything that replaces rows."""

import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from eventlake.errors import InvalidSettings
from eventlake.lakes import open_parts
from eventlake.model.report import Problems
from eventlake.pipeline.finish import publish
from eventlake.ports import NoProgress
from eventlake.services.adopt import adopt
from eventlake.services.check import check
from eventlake.services.compact import compact
from eventlake.services.drop import drop
from eventlake.services.forget import forget
from eventlake.services.read import open_lake
from eventlake.services.repair import repair
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype, retype_request
from tests import lakes
from tests.clocks import SimulatedClock
from tests.faults import kills
from tests.faults.kills import AtStep, World
from tests.lakes import InlineRunner, Recorder
from tests.pipeline.test_forget import EMAIL, USER, of_user, others, search, write

ALL = ReplayRequest("web", all_time=True)
START = datetime(2026, 11, 2, tzinfo=UTC)


def delta_rows(lake: Path, version: int | None = None) -> dict[str, int]:
    """The rows of each table by deltalake."""
    tables = sorted((lake / "segment-data/data/web").iterdir())
    return {
        path.name.removeprefix("segment_type="): len(query(path, "select id from t", version))
        for path in tables
        if (path / "_delta_log").exists()
    }


def query(table: Path, sql: str, version: int | None = None) -> list[dict[str, Any]]:
    delta = DeltaTable(str(table), version=version)
    rows: list[dict[str, Any]] = pa.table(
        QueryBuilder().register("t", delta).execute(sql).read_all()
    ).to_pylist()
    return rows


def table_of(lake: Path, name: str) -> Path:
    return lake / f"segment-data/data/web/segment_type={name}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return kills.make_world(tmp_path_factory.mktemp("world"), lakes.delta, events=120)


def check_tables(lake: Path) -> None:
    """Readers of the Delta tables see the rows of the ledger."""
    rows = {table.name: table.rows for table in open_lake(lake).tables()}
    assert delta_rows(lake) == rows


# Kills


def test_killed_at_any_step(world: World, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Also between the commits of two tables: the steps of `publish` are tables."""
    recorder = Recorder()
    lakes.load(world.files[:2], lakes.delta(tmp_path / "steps"), recorder)
    last = max(done for stage, done in recorder.steps if stage == "publish")
    published = [("publish", done) for done in range(last + 1)]
    chosen = {("write", 0), ("commit", 0), *published, ("register", 0), ("clean", 0), ("clean", 1)}
    for number, step in enumerate(sorted(chosen)):
        with subtests.test(step=step):
            folder = tmp_path / f"{number}"
            lake = lakes.delta(folder)
            code = kills.run(kills.killed_at_step, world.files[:2], lake, AtStep(0, *step))
            assert code == -signal.SIGKILL
            world.check(lake)
            check_tables(folder)


def test_a_newer_commit_is_published_before_an_older_one(world: World, tmp_path: Path) -> None:
    """The older one is not skipped, and nothing is added twice when it comes late."""
    lake, other = lakes.delta(tmp_path / "lake"), lakes.delta(tmp_path / "other")
    parts = open_parts(lake, make=True)
    lakes.load(world.files[:1], lake)

    @dataclass
    class LoadsInBetween(Recorder):
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if (stage, done) == ("publish", 0):
                lakes.load(world.files[2:], lake)  # sees the stage, and helps to publish
            super().step(stage, done, total, rows)

    lakes.load(world.files[:2], lake, LoadsInBetween())
    for number in range(3):
        lakes.load([world.files[number]], other)
    ledger = parts.ledger("web")
    assert [len(commit.inputs) for _, commit in ledger.commits_after(0)] == [1, 1, 1]
    lakes.assert_complete(lake)
    check_tables(tmp_path / "lake")
    for name in delta_rows(tmp_path / "lake"):
        history = DeltaTable(str(table_of(tmp_path / "lake", name))).history()
        sequences = [int(one["eventlake.sequence"]) for one in reversed(history)]
        assert sequences == sorted(sequences)
    assert delta_rows(tmp_path / "lake") == delta_rows(tmp_path / "other")


def test_commits_are_published_again_in_any_order(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    for file in world.files:
        lakes.load([file], lake)
    parts, before = open_parts(lake), delta_rows(tmp_path)
    commits = parts.ledger("web").commits_after(0)
    for sequence, commit in (*reversed(commits), *commits):
        problems = Problems()
        publish(parts, sequence, commit, problems, NoProgress())
        assert not problems
    assert delta_rows(tmp_path) == before
    lakes.assert_complete(lake)


# Replacing rows


def load_all(world: World, lake: Any, **options: Any) -> None:
    for file in world.files:
        lakes.load([file], lake, **options)


def test_a_replay_replaces_files_in_one_version(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    load_all(world, lake)
    before = {name: DeltaTable(str(table_of(tmp_path, name))) for name in delta_rows(tmp_path)}
    rows = delta_rows(tmp_path)
    assert replay(ALL, lake=lake, where=InlineRunner()).status == "finished"
    lakes.assert_complete(lake)
    check_tables(tmp_path)
    for name, table in before.items():
        after = DeltaTable(str(table_of(tmp_path, name)))
        assert after.version() == table.version() + 1
        assert set(after.file_uris()).isdisjoint(table.file_uris())
        earlier = query(table_of(tmp_path, name), "select id from t", table.version())
        assert len(earlier) == rows[name]


def test_replaced_files_are_deleted_after_a_week(world: World, tmp_path: Path) -> None:
    lake, clock = lakes.delta(tmp_path), SimulatedClock(START)
    lakes.load(world.files[:1], lake, clock=clock)
    clock.advance(timedelta(hours=1))
    replay(ALL, lake=lake, where=InlineRunner(), clock=clock)
    files = list_files(tmp_path)
    clock.advance(timedelta(days=6, hours=23))
    lakes.load(world.files[1:2], lake, clock=clock)
    assert files <= list_files(tmp_path)
    clock.advance(timedelta(hours=2))
    lakes.load(world.files[2:], lake, clock=clock)
    assert len(files & list_files(tmp_path)) == len(files) // 2
    assert open_parts(lake).ledger("web").read_state().kept_files == {}
    lakes.assert_complete(lake)
    check_tables(tmp_path)


def list_files(lake: Path) -> set[Path]:
    paths = (lake / "segment-data/data").rglob("*.parquet")
    return {path for path in paths if "_delta_log" not in path.parts}


def test_a_compaction_changes_no_rows(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    settings = lakes.SETTINGS.model_copy(update={"date_partition": "day"})
    load_all(world, lake, settings=settings)
    rows = delta_rows(tmp_path)
    [result] = compact("web", lake=lake, where=InlineRunner(), older_than="0s")
    assert result.status == "finished"
    assert delta_rows(tmp_path) == rows
    table = DeltaTable(str(table_of(tmp_path, "page")))
    assert len(table.file_uris()) == 1
    earlier = query(table_of(tmp_path, "page"), "select id from t", table.version() - 1)
    assert len(earlier) == rows["page"]
    newest = table_of(tmp_path, "page") / f"_delta_log/{table.version():020}.json"
    assert '"dataChange":true' not in newest.read_text()  # streams need not read it
    lakes.assert_complete(lake)


def test_a_forgotten_user_is_gone_from_all_versions_at_once(tmp_path: Path) -> None:
    """Also from files that a replay has replaced and that were kept."""
    lake = lakes.delta(tmp_path / "lake")
    write(tmp_path / "raw/a.gz", others(100) + of_user(0))
    write(tmp_path / "raw/b.gz", others(200))
    lakes.load([tmp_path / "raw"], lake)
    replay(ALL, lake=lake, where=InlineRunner())
    assert search(tmp_path, (USER, EMAIL))
    assert forget(USER, lake=lake, also_anonymous=True).status == "finished"
    assert search(tmp_path, (USER, EMAIL)) == []
    lakes.assert_complete(lake)
    check_tables(tmp_path / "lake")


def test_a_user_who_is_only_in_kept_files_is_forgotten(tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path / "lake")
    raw = write(tmp_path / "raw/a.gz", others(100) + of_user(0)[3:4])
    lakes.load([raw], lake)
    replay(ALL, lake=lake, where=InlineRunner(), suppressed=[USER])
    raw.unlink()
    assert search(tmp_path, (USER,))
    forget(USER, lake=lake)
    assert search(tmp_path, (USER,)) == []


def test_a_dropped_table_is_gone_and_comes_back(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    load_all(world, lake)
    replay(ALL, lake=lake, where=InlineRunner())
    rows = delta_rows(tmp_path)
    assert drop("web", lake=lake, tables=["page"]).status == "finished"
    assert not table_of(tmp_path, "page").exists()
    request = ReplayRequest("web", all_time=True, events=("page",))
    replay(request, lake=lake, where=InlineRunner())
    assert delta_rows(tmp_path) == rows
    assert drop("web", lake=lake).status == "finished"
    assert not (tmp_path / "segment-data/data/web").exists()
    by_day = lakes.SETTINGS.model_copy(update={"date_partition": "day"})
    lakes.load(world.files, lake, settings=by_day)
    assert delta_rows(tmp_path) == rows
    lakes.assert_complete(lake)


def test_files_that_another_program_has_merged_are_repaired(world: World, tmp_path: Path) -> None:
    """A replay cannot remove them; after the repair the same commit is published."""
    lake = lakes.delta(tmp_path)
    settings = lakes.SETTINGS.model_copy(update={"date_partition": "day"})
    load_all(world, lake, settings=settings)
    DeltaTable(str(table_of(tmp_path, "page"))).optimize.compact()
    rows, commits = delta_rows(tmp_path), len(lakes.read_commits(tmp_path))
    result = replay(ALL, lake=lake, where=InlineRunner())
    assert result.status == "partial"
    assert "another program has rewritten files of the Delta table" in result.message
    assert delta_rows(tmp_path) == rows
    [repaired] = repair(lake)
    assert repaired.registered == ("web.page",)
    assert lakes.load(world.files, lake, settings=settings).status == "nothing"
    assert len(lakes.read_commits(tmp_path)) == commits + 1
    for path in table_of(tmp_path, "page").rglob("part-*.parquet"):
        path.unlink()  # what the other program has written
    lakes.assert_complete(lake)
    assert delta_rows(tmp_path) == rows


# Types


def test_a_retype_rewrites_the_table_in_one_version(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    load_all(world, lake)
    with pytest.raises(InvalidSettings, match="one type in all files: use --replay"):
        retype("web.page", {"took_ms": "string"}, lake=lake)
    before = DeltaTable(str(table_of(tmp_path, "page"))).version()
    request = retype_request("web.page", {"took_ms": "string"}, lake=lake)
    assert replay(request, lake=lake, where=InlineRunner()).status == "finished"
    table = DeltaTable(str(table_of(tmp_path, "page")))
    assert table.version() == before + 1
    types = {field.name: str(field.type) for field in table.schema().fields}
    assert types["took_ms"] == 'PrimitiveType("string")'
    took = query(table_of(tmp_path, "page"), "select took_ms from t where took_ms is not null")
    assert all(isinstance(row["took_ms"], str) for row in took)
    lakes.assert_complete(lake)


def test_partition_columns_cannot_change(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    lakes.load(world.files[:1], lake)
    request = ReplayRequest("web", all_time=True, changes={"date_partition": "day"})
    with pytest.raises(
        InvalidSettings, match="the partition columns of Delta tables cannot change"
    ):
        replay(request, lake=lake, where=InlineRunner())


def test_a_type_changed_in_the_catalog_is_not_followed(world: World, tmp_path: Path) -> None:
    lake = lakes.delta(tmp_path)
    lakes.load(world.files[:1], lake)
    path = tmp_path / "segment-data/catalog/web/page.json"
    text = path.read_text()
    path.write_text(text.replace('"took_ms","type":"bigint"', '"took_ms","type":"string"'))
    assert path.read_text() != text
    result = lakes.load(world.files[:2], lake)
    assert result.status == "finished"
    assert any("the table's own log decides" in warning for warning in result.warnings)
    check_tables(tmp_path)


# Settings


def test_a_lake_keeps_its_format(world: World, tmp_path: Path) -> None:
    lakes.load(world.files[:1], lakes.delta(tmp_path / "delta"))
    with pytest.raises(InvalidSettings, match=r"format is 'parquet', but .* are Delta tables"):
        lakes.load(world.files, tmp_path / "delta")
    lakes.load(world.files[:1], tmp_path / "parquet")
    with pytest.raises(InvalidSettings, match=r"format is 'delta', but .* are Parquet tables"):
        lakes.load(world.files, lakes.delta(tmp_path / "parquet"))
    toml = tmp_path / "lake.toml"
    toml.write_text('path = "delta"\nformat = "delta"\n')
    assert lakes.load(world.files, toml).status == "finished"
    toml.write_text('path = "delta"\nformat = "iceberg"\n')
    with pytest.raises(InvalidSettings, match="format is 'iceberg'"):
        lakes.load(world.files, toml)


def test_only_parquet_tables_are_adopted(tmp_path: Path) -> None:
    (tmp_path / "segment-logs").mkdir()
    with pytest.raises(InvalidSettings, match="format is 'delta': only tables of plain Parquet"):
        adopt("web", lake=lakes.delta(tmp_path))


def test_check_writes_a_table(tmp_path: Path) -> None:
    checks = {one.name: one for one in check(lakes.delta(tmp_path))}
    assert checks["write a delta table"].ok, checks["write a delta table"].detail
    assert "add a partition" not in checks
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert [name for name in files if name != ".lock"] == []


def test_tables_and_queries_are_by_the_ledger(world: World, tmp_path: Path) -> None:
    lakes.load(world.files, lakes.delta(tmp_path / "delta"))
    lakes.load(world.files, tmp_path / "parquet")
    ours, theirs = open_lake(tmp_path / "delta"), open_lake(tmp_path / "parquet")
    sizes = [(one.name, one.rows, one.files, one.partitions) for one in ours.tables()]
    assert sizes == [(one.name, one.rows, one.files, one.partitions) for one in theirs.tables()]
    sql = "select count(*), max(received_at) from web.page"
    assert ours.query(sql) == theirs.query(sql)
