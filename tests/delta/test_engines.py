"""Delta tables as other engines read and change them: deltalake, DuckDB and Spark.

Spark runs once for all tests of this file: it reads a lake, and switches features on in copies.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.tunables import Tunables, WriteTunables
from eventlake.services.drop import drop
from eventlake.services.read import open_lake
from eventlake.services.repair import repair
from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.delta.engine import normalize, plain, run_on_duckdb, run_on_spark

pytestmark = pytest.mark.spark

ALL_STATISTICS = Tunables(write=WriteTunables(small_file_rows=1))
VALUES: tuple[Any, ...] = ("0.000001", "-12.5", "123456789012345678.123456", "99999999999999.9")
BY_DAY = lakes.SETTINGS.model_copy(update={"date_partition": "day"})
"""So that a partition has several files, which `optimize` merges."""
ORDERS = "order_placed"
READ_BY_SPARK = (ORDERS,)
FEATURES = {
    "columnMapping": "set tblproperties ('delta.columnMapping.mode' = 'name')",
    "deletionVectors": "set tblproperties ('delta.enableDeletionVectors' = 'true')",
    "rowTracking": "set tblproperties ('delta.enableRowTracking' = 'true')",
    "inCommitTimestamp": "set tblproperties ('delta.enableInCommitTimestamps' = 'true')",
    "typeWidening": "set tblproperties ('delta.enableTypeWidening' = 'true')",
    "appendOnly": "set tblproperties ('delta.appendOnly' = 'true')",
    "constraints": "add constraint positive check (quantity >= 0)",
}
"""Changes of a table after which it cannot be written, by a word of the message."""
HARMLESS = {
    "change data feed": "set tblproperties ('delta.enableChangeDataFeed' = 'true')",
    "v2 checkpoints": "set tblproperties ('delta.checkpointPolicy' = 'v2')",
}


def orders(number: int) -> bytes:
    """Events with values that are hard to keep: decimals, microseconds, rescued ones, new ones."""
    events = [
        {
            "type": "track",
            "event": "Order Placed",
            "messageId": f"order-{number}-{n}",
            "userId": f"user {n} ü",
            "receivedAt": f"2026-11-01T0{number}:00:0{n}.{n}99999Z",
            "properties": {
                "total": json.loads(value, parse_float=str, parse_int=str),
                "quantity": number * 10 + n,
                "paid": n % 2 == 0,
                "shipped_at": f"2026-11-0{number + 1}T10:00:00.123456Z",
                "user_id": 5,
                **({f"column_{number}": "new"} if number else {}),
            },
        }
        for n, value in enumerate(VALUES)
    ]
    text = "\n".join(map(json.dumps, events))
    for value in VALUES:  # as numbers, with all their digits
        text = text.replace(f'"total": "{value}"', f'"total": {value}')
    return gzip.compress(text.encode())


@dataclass(frozen=True)
class World:
    """A Delta lake, the same events in a Parquet lake, and what engines say of both."""

    folder: Path
    files: list[list[Path]]
    """The raw logs of each load."""
    landed: list[dict[str, list[str]]]
    """After each load, the rows of all tables of the Parquet lake."""
    spark: dict[str, Any]
    """By name, what Spark answered."""

    @property
    def tables(self) -> Mapping[str, list[str]]:
        return self.landed[-1]

    def table(self, name: str, lake: str = "lake") -> Path:
        return self.folder / lake / f"segment-data/data/web/segment_type={name}"

    def versions(self, name: str) -> list[int]:
        """The last version of a table that each load has made, or an earlier one."""
        history = DeltaTable(str(self.table(name))).history()
        made = {int(one["eventlake.sequence"]): one["version"] for one in reversed(history)}
        return [
            max((v for s, v in made.items() if s <= load), default=-1)
            for load in range(1, len(self.files) + 1)
        ]


def read_rows(lake: Path) -> dict[str, list[str]]:
    """The rows of all tables as EventLake's own query reads them, by the ledger."""
    opened = open_lake(lake)
    return {
        table.name: normalize(opened.query(f'select * from web."{table.name}"').to_pylist())
        for table in opened.tables()
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    sample = lakes.small_sample(folder / "raw", events=120)
    files, landed = [], []
    for number, file in enumerate(sample):
        more = folder / f"orders-{number}.gz"
        more.write_bytes(orders(number))
        files.append([file, more])
        for lake in (lakes.delta(folder / "lake"), folder / "parquet"):
            result = lakes.load(files[-1], lake, settings=BY_DAY, tunables=ALL_STATISTICS)
            assert result.status == "finished"
        landed.append(read_rows(folder / "parquet"))
    world = World(folder, files, landed, {})
    jobs = _spark_jobs(world)
    answers = run_on_spark(list(jobs.values()))
    world.spark.update(zip(jobs, answers, strict=True))
    return world


def _spark_jobs(world: World) -> dict[str, str]:
    """Statements by name; makes the copies of the lake that they change."""
    jobs = {}
    for name in READ_BY_SPARK:
        path = world.table(name)
        jobs[f"read {name}"] = f"select * from delta.`{path}`"
        for load, version in enumerate(world.versions(name)):
            jobs[f"travel {load} {name}"] = f"select * from delta.`{path}` version as of {version}"
    path = world.table(ORDERS)
    jobs["history"] = f"describe history delta.`{path}`"
    jobs["count"] = f"select count(*) n from delta.`{path}` where {_condition('spark')}"
    for name, change in (FEATURES | HARMLESS).items():
        copytree(world.folder / "lake", world.folder / name)
        jobs[f"alter {name}"] = f"alter table delta.`{world.table(ORDERS, name)}` {change}"
    vectors = world.table(ORDERS, "deletionVectors")
    jobs["delete"] = f"delete from delta.`{vectors}` where quantity = 1"
    jobs["rest"] = f"select count(*) n from delta.`{vectors}`"
    copytree(world.folder / "lake", world.folder / "optimized")
    jobs["optimize"] = f"optimize delta.`{world.table(ORDERS, 'optimized')}`"
    copytree(world.folder / "lake", world.folder / "inserted")
    inserted = world.table(ORDERS, "inserted")
    jobs["insert"] = f"insert into delta.`{inserted}` (id, day) values ('x', 'd')"
    return jobs


def _condition(engine: str) -> str:
    """True for each row by a bound of its file's statistics; readers skip files by that."""
    kind = "timestamp" if engine == "spark" else "timestamptz"
    moments = (f"{kind} '2026-11-01T0{n}:00:0{m}.{m}99999Z'" for n in range(3) for m in range(4))
    return f"received_at in ({', '.join(moments)})"


def query(table: Path, sql: str, version: int | None = None) -> list[dict[str, Any]]:
    """Query a Delta table, named `t`, with deltalake."""
    delta = DeltaTable(str(table), version=version)
    rows: list[dict[str, Any]] = pa.table(
        QueryBuilder().register("t", delta).execute(sql).read_all()
    ).to_pylist()
    return rows


# Readers


def test_the_lake_is_complete(world: World) -> None:
    assert open_lake(lakes.delta(world.folder / "lake")).verify("web").problems == ()
    assert read_rows(world.folder / "lake") == world.tables
    text = "".join(world.tables[ORDERS])
    assert all(value in text for value in ("123456789012345678.123456", "properties.user_id"))


def test_deltalake_reads_the_rows_of_the_parquet_lake(world: World) -> None:
    for name, rows in world.tables.items():
        assert normalize(query(world.table(name), "select * from t")) == rows, name


def test_duckdb_reads_the_rows_of_the_parquet_lake(world: World) -> None:
    names = sorted(world.tables)
    counts = [
        f"select count(*) n from delta_scan('{world.table(ORDERS)}') where {condition}"
        for condition in [_condition("duckdb"), *_row_conditions()]
    ]
    scans = [f"select * from delta_scan('{world.table(name)}')" for name in names]
    answers = run_on_duckdb([*scans, *counts])
    for name, rows in zip(names, answers, strict=False):
        assert normalize(rows) == world.tables[name], name
    assert answers[len(names) :] == [[{"n": 12}], *([[{"n": 1}]] * 12), *([[{"n": 3}]] * 4)]


def test_spark_reads_the_rows_of_the_parquet_lake(world: World) -> None:
    for name in READ_BY_SPARK:
        assert normalize(world.spark[f"read {name}"]) == world.tables[name], name
    made = [one["userMetadata"] for one in world.spark["history"]]
    assert all(text.startswith("eventlake load ") for text in made)
    assert world.spark["count"] == [{"n": 12}]


def test_time_travel_shows_what_each_sync_had_landed(world: World) -> None:
    for name in world.tables:
        for load, version in enumerate(world.versions(name)):
            expected = world.landed[load][name]
            travelled = query(world.table(name), "select * from t", version)
            assert normalize(travelled) == expected, (name, load)
            if name in READ_BY_SPARK:
                assert normalize(world.spark[f"travel {load} {name}"]) == expected, (name, load)


# Statistics


def _row_conditions() -> list[str]:
    """Conditions that one row each meets, then conditions that one row of each file meets."""
    return [
        *(f"quantity = {n * 10 + m}" for n in range(3) for m in range(4)),
        *(f"total = cast('{value}' as decimal(38,6))" for value in VALUES),
    ]


def test_a_reader_that_skips_files_finds_every_row(world: World) -> None:
    for condition in _row_conditions():
        found = query(world.table(ORDERS), f"select id from t where {condition}")
        assert len(found) == (1 if condition.startswith("quantity") else 3), condition
    moments = "select id from t where received_at = '2026-11-01T01:00:03.399999Z'"
    assert query(world.table(ORDERS), moments) == [{"id": "order-1-3"}]


def test_the_statistics_are_those_of_the_rows(world: World) -> None:
    table = DeltaTable(str(world.table(ORDERS)))
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert len(files) == 3
    for file in files:
        hour = file["min.received_at"].hour
        moments = (f"'2026-11-01T0{one}:00:00Z'" for one in (hour, hour + 1))
        condition = f"received_at between {' and '.join(moments)}"
        rows = query(world.table(ORDERS), f"select * from t where {condition}")
        assert (file["num_records"], file["partition.day"]) == (len(rows), "2026-11-01")
        for column in ("total", "quantity", "received_at", "shipped_at"):
            values = [row[column] for row in rows]
            assert file[f"null_count.{column}"] == 0
            least, greatest = file[f"min.{column}"], file[f"max.{column}"]
            assert least <= min(values)
            assert max(values) <= greatest
            if column in ("total", "quantity"):
                assert (least, greatest) == (min(values), max(values))
        assert plain(file["max.received_at"]) == f"2026-11-01T0{hour}:00:03.400000Z"
        assert file.get("min.user_id") is None  # text may be of a user who is forgotten


# Tables that others have changed


@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_with_an_unknown_feature_is_refused_before_anything_is_staged(
    world: World, feature: str
) -> None:
    assert world.spark[f"alter {feature}"] == []
    folder = world.folder / feature
    before = lakes.read_commits(folder)
    with pytest.raises(InvalidSettings, match=rf"web\.{ORDERS} has .*{feature}"):
        lakes.load([new_orders(world)], lakes.delta(folder), settings=BY_DAY)
    assert lakes.read_commits(folder) == before
    assert [path for path in (folder / "segment-stage").rglob("*") if path.is_file()] == []


def new_orders(world: World) -> Path:
    path = world.folder / "orders-5.gz"
    path.write_bytes(orders(5))
    return path


@pytest.mark.parametrize("feature", HARMLESS)
def test_a_table_with_a_known_feature_is_written(world: World, feature: str) -> None:
    assert world.spark[f"alter {feature}"] == []
    folder = world.folder / feature
    assert (
        lakes.load([new_orders(world)], lakes.delta(folder), settings=BY_DAY).status == "finished"
    )
    assert open_lake(lakes.delta(folder)).verify("web").problems == ()
    rows = query(world.table(ORDERS, feature), "select * from t")
    assert normalize(rows) == read_rows(folder)[ORDERS]


def test_a_refused_table_can_be_dropped_and_replayed(world: World) -> None:
    folder = copytree(world.folder / "columnMapping", world.folder / "rebuilt")
    lake = lakes.delta(folder)
    drop("web", lake=lake, tables=[ORDERS])
    request = ReplayRequest("web", all_time=True, events=(ORDERS,))
    assert replay(request, lake=lake, where=lakes.InlineRunner()).status == "finished"
    rows = query(world.table(ORDERS, "rebuilt"), "select * from t")
    assert normalize(rows) == world.tables[ORDERS]


def test_rows_are_not_counted_by_the_log_of_a_table_with_deletion_vectors(world: World) -> None:
    """`DeltaTable.count` counts deleted rows; `verify` sees that the file is another."""
    assert world.spark["rest"] == [{"n": 11}]
    table = world.table(ORDERS, "deletionVectors")
    assert DeltaTable(str(table)).count() == 12
    problems = open_lake(lakes.delta(world.folder / "deletionVectors")).verify("web").problems
    expected = f"files of the ledger that the Delta table {table_path()} lacks"
    assert any(expected in problem for problem in problems)


def table_path() -> str:
    return f"segment-data/data/web/segment_type={ORDERS}"


def test_a_table_that_another_program_has_optimized(world: World) -> None:
    """Its rows are in other files, so those of the ledger cannot be replaced until a repair."""
    lake, request = lakes.delta(world.folder / "optimized"), ReplayRequest("web", all_time=True)
    assert isinstance(world.spark["optimize"], list)
    stray, *problems = open_lake(lake).verify("web").problems
    assert len(problems) == 2
    assert all("eventlake repair" in problem for problem in problems)
    result = replay(request, lake=lake, where=lakes.InlineRunner())
    assert result.status == "partial"
    assert "another program has rewritten files of the Delta table" in result.message
    [repaired] = repair(lake)
    assert repaired.registered == (f"web.{ORDERS}",)
    lakes.load([new_orders(world)], lake, settings=BY_DAY)  # finishes the replay
    for path in list(world.table(ORDERS, "optimized").rglob("part-*.parquet")):
        assert path.name in stray
        path.unlink()
    assert open_lake(lake).verify("web").problems == ()
    rows = query(world.table(ORDERS, "optimized"), "select * from t where hour(received_at) < 5")
    assert normalize(rows) == world.tables[ORDERS]


def test_rows_that_another_program_has_inserted_are_found_and_removed(world: World) -> None:
    lake = lakes.delta(world.folder / "inserted")
    assert world.spark["insert"] == []
    (stray, problem) = open_lake(lake).verify("web").problems
    assert "Parquet files that no commit names" in stray
    assert f"files of the Delta table {table_path()} that no commit names" in problem
    [repaired] = repair(lake)
    assert (repaired.registered, repaired.problems) == ((f"web.{ORDERS}",), ())
    rows = query(world.table(ORDERS, "inserted"), "select * from t")
    assert normalize(rows) == world.tables[ORDERS]


def test_a_lost_log_is_written_again(world: World) -> None:
    folder = copytree(world.folder / "lake", world.folder / "lost")
    lake = lakes.delta(folder)
    for path in (world.table(ORDERS, "lost") / "_delta_log").iterdir():
        path.unlink()
    with pytest.raises(EventLakeError, match=f"web.{ORDERS} has no Delta log at .* repair"):
        lakes.load([new_orders(world)], lake, settings=BY_DAY)
    [repaired] = repair(lake)
    assert repaired.registered == (f"web.{ORDERS}",)
    assert lakes.load([new_orders(world)], lake, settings=BY_DAY).status == "finished"
    rows = query(world.table(ORDERS, "lost"), "select * from t")
    assert normalize(rows) == read_rows(folder)[ORDERS]
