"""Replays, retypes and drops in S3 and Glue, read by somebody who knows nothing of EventLake."""

from collections import Counter
from pathlib import Path
from typing import Any

from eventlake.model.settings import source_settings
from eventlake.services.drop import drop
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype, retype_request
from eventlake.services.suppress import unsuppress_users
from tests import lakes
from tests.aws.moto import Aws
from tests.aws.test_landed import Reader
from tests.lakes import InlineRunner

WINDOW = ReplayRequest("web", "2026-11-01T01:00:00Z", "2026-11-01T02:00:00Z")


def read(aws: Aws) -> dict[str, Counter[Any]]:
    """The rows of all tables through Glue; it asserts that types are those of the files."""
    reader = Reader(aws)
    return {name: reader.rows(table) for name, table in reader.tables("web").items()}


def run(aws: Aws, request: ReplayRequest, **options: Any) -> None:
    result = replay(request, lake=aws.settings(), where=InlineRunner(), **options)
    assert result.status == "finished", result.message
    assert lakes.read_contents(aws.settings()).problems == ()


def test_a_window_and_then_everything(aws: Aws, tmp_path: Path) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    lakes.load(files[:2], aws.settings())
    lakes.load(files, aws.settings())
    before = read(aws)
    run(aws, WINDOW)
    assert read(aws) == before
    users = {user for rows in before.values() for row in rows for user in _users(row)}
    run(aws, WINDOW, suppressed=users)
    after = read(aws)
    assert 0 < sum(map(Counter.total, after.values())) < sum(map(Counter.total, before.values()))
    unsuppress_users(users, lake=aws.settings())
    run(aws, ReplayRequest("web", all_time=True, changes={"date_partition": "day"}, infer=True))
    settings = source_settings(source="web", date_partition="day")
    tables = lakes.read_contents(aws.settings()).tables
    lakes.load(files, tmp_path / "fresh", settings=settings)
    assert tables == lakes.read_contents(tmp_path / "fresh").tables
    assert {name: rows.total() for name, rows in read(aws).items()} == {
        name: rows.total() for name, rows in tables.items()
    }


def test_tables_move_to_the_folder_of_the_slug(aws: Aws, tmp_path: Path) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    given = source_settings(source="shop", source_id="web", database="web")
    lakes.load(files[:2], aws.settings(), settings=given)
    before = read(aws)
    run(aws, ReplayRequest("shop", all_time=True, changes={"partition_by_slug": "true"}))
    assert read(aws) == before
    locations = [one["StorageDescriptor"]["Location"] for one in Reader(aws).tables("web").values()]
    assert {"/data/shop/segment_type=" in location for location in locations} == {True}
    lakes.load(files, aws.settings(), settings=given)
    assert lakes.read_contents(aws.settings()).problems == ()


def _users(row: Any) -> list[str]:
    return [value for name, value in row[1:] if name == "user_id"]


def test_partitions_without_rows_leave_glue(aws: Aws, tmp_path: Path) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    lakes.load(files, aws.settings())
    reader = Reader(aws)
    users = [value for rows in read(aws).values() for row in rows for value in _users(row)]
    skip = {"skip_events": ("page",)}
    run(aws, ReplayRequest("web", "2026-11-01", "2026-11-02", changes=skip), suppressed=users)
    assert reader.partitions(reader.tables("web")["page"]) == []


def test_a_retype_and_a_drop(aws: Aws, tmp_path: Path) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    lakes.load(files[:2], aws.settings())
    before = read(aws)
    column = "integrations_all"
    retyped = retype("web.page", {column: "string"}, lake=aws.settings())
    assert retyped.status == "finished", retyped.message
    reader = Reader(aws)
    columns = reader.tables("web")["page"]["StorageDescriptor"]["Columns"]
    assert {"Name": column, "Type": "string"} in columns
    lakes.load(files, aws.settings())
    run(aws, retype_request("web.page", {column: "string"}, lake=aws.settings()))
    assert read(aws).keys() == before.keys()
    assert drop("web", lake=aws.settings(), tables=["page"]).status == "finished"
    assert read(aws).keys() == before.keys() - {"page"}
    assert drop("web", lake=aws.settings()).status == "finished"
    assert read(aws) == {}
    assert lakes.read_contents(aws.settings()).problems == ()
    lakes.load(files, aws.settings(), settings=source_settings(source="web", naming="native"))
    assert lakes.read_contents(aws.settings()).problems == ()
