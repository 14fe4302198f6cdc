"""A Glue catalog that people changed, and one that several lakes share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlake.lakes.aws_settings import AwsSettings
from eventlake.model.settings import source_settings
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from eventlake.services.repair import repair
from tests import lakes
from tests.aws.moto import Aws
from tests.faults.test_names import events

TABLE = {"DatabaseName": "web", "TableName": "order_done"}


def load(path: Path, lake: AwsSettings, source: str = "web") -> LoadResult:
    return lakes.load([path], lake, settings=source_settings(source=source))


def hours(aws: Aws) -> list[str]:
    found = aws.client("glue").get_partitions(**TABLE)["Partitions"]
    return sorted(one["Values"][1] for one in found)


@pytest.fixture
def lake(aws: Aws, tmp_path: Path) -> AwsSettings:
    """Three hours of one table."""
    settings = aws.settings()
    assert load(events(tmp_path / "1.json", "a", range(3)), settings).status == "finished"
    return settings


def drop_table(glue: Any) -> None:
    glue.delete_table(DatabaseName="web", Name="order_done")


def drop_database(glue: Any) -> None:
    drop_table(glue)
    glue.delete_database(Name="web")


def drop_partition(glue: Any) -> None:
    glue.delete_partition(**TABLE, PartitionValues=["2026-11-01", "01"])


def move_partition(glue: Any) -> None:
    values = ["2026-11-01", "01"]
    known = glue.get_partition(**TABLE, PartitionValues=values)["Partition"]
    storage = {**known["StorageDescriptor"], "Location": "s3://the-lake/elsewhere/"}
    glue.update_partition(
        **TABLE,
        PartitionValueList=values,
        PartitionInput={"Values": values, "StorageDescriptor": storage},
    )


def move_table(glue: Any) -> None:
    known = glue.get_table(DatabaseName="web", Name="order_done")["Table"]
    storage = {
        **known["StorageDescriptor"],
        "Location": "s3://the-lake/segment-data/data/web/segment_type=page/",
    }
    kept = {name: known[name] for name in ("Name", "PartitionKeys", "TableType", "Parameters")}
    glue.update_table(DatabaseName="web", TableInput={**kept, "StorageDescriptor": storage})


def add_partition(glue: Any) -> None:
    known = glue.get_table(DatabaseName="web", Name="order_done")["Table"]
    place = f"{known['StorageDescriptor']['Location']}day=2026-12-01/hr=05/"
    storage = {**known["StorageDescriptor"], "Location": place}
    added = {"Values": ["2026-12-01", "05"], "StorageDescriptor": storage}
    glue.create_partition(**TABLE, PartitionInput=added)


DAMAGES: list[tuple[Callable[[Any], None], str]] = [
    (drop_table, "web.order_done is not in the catalog"),
    (drop_database, "web.order_done is not in the catalog"),
    (drop_partition, "lacks partitions of web.order_done .*: day=2026-11-01/hr=01"),
    (move_partition, "lacks partitions of web.order_done .*: day=2026-11-01/hr=01"),
    (move_table, "with the location segment-data/data/web/segment_type=page"),
    (add_partition, "partitions of web.order_done that no commit names .*: day=2026-12-01/hr=05"),
]


@pytest.mark.parametrize(("damage", "problem"), DAMAGES, ids=[d.__name__ for d, _ in DAMAGES])
def test_verify_names_what_is_wrong_in_glue_and_repair_corrects_it(
    aws: Aws, lake: AwsSettings, damage: Callable[[Any], None], problem: str
) -> None:
    damage(aws.client("glue"))
    (found,) = open_lake(lake).verify("web").problems
    assert re.search(problem, found), found
    (done,) = repair(lake)
    assert (done.registered, done.problems) == (("web.order_done",), ())
    assert hours(aws) == ["00", "01", "02"]
    assert open_lake(lake).verify("web").ok
    (again,) = repair(lake)
    assert again.registered == ()


def test_a_table_dropped_by_hand_comes_back_with_all_its_partitions(
    aws: Aws, lake: AwsSettings, tmp_path: Path
) -> None:
    drop_table(aws.client("glue"))
    assert load(events(tmp_path / "2.json", "b", range(10, 12)), lake).status == "finished"
    assert hours(aws) == ["00", "01", "02", "10", "11"]
    assert open_lake(lake).verify("web").ok


def test_repair_leaves_a_table_of_another_lake_alone(aws: Aws, lake: AwsSettings) -> None:
    glue = aws.client("glue")
    known = glue.get_table(DatabaseName="web", Name="order_done")["Table"]
    storage = {**known["StorageDescriptor"], "Location": "s3://another-lake/x/"}
    kept = {name: known[name] for name in ("Name", "PartitionKeys", "TableType", "Parameters")}
    glue.update_table(DatabaseName="web", TableInput={**kept, "StorageDescriptor": storage})
    (done,) = repair(lake)
    (problem,) = done.problems
    assert "s3://another-lake/x/" in problem
    after = glue.get_table(DatabaseName="web", Name="order_done")["Table"]
    assert after["StorageDescriptor"]["Location"] == "s3://another-lake/x/"


def test_two_lakes_of_an_account_share_the_table_of_reports(
    aws: Aws, lake: AwsSettings, tmp_path: Path
) -> None:
    second = Aws(aws.url, "second-lake")
    second.make_bucket()
    other = second.settings()
    for number in range(2):
        path = events(tmp_path / f"dev{number}.json", "d", range(number, number + 1))
        assert load(path, other, source="dev").status == "finished"
    assert (
        list(
            second.client("s3")
            .list_objects_v2(Bucket="second-lake", Prefix="segment-stage")
            .get("Contents", ())
        )
        == []
    )
    found = aws.client("glue").get_partitions(
        DatabaseName="__segment_datalake", TableName="sync_reports"
    )["Partitions"]
    places = {one["Values"][0]: one["StorageDescriptor"]["Location"] for one in found}
    assert places["web"].startswith("s3://the-lake/segment-data/sync_reports/day=")
    assert places["dev"].startswith("s3://second-lake/segment-data/sync_reports/day=")
    for settings, source in ((lake, "web"), (other, "dev")):
        assert open_lake(settings).verify(source).ok


def test_a_reports_table_of_somebody_else_does_not_keep_a_run_open(
    aws: Aws, tmp_path: Path
) -> None:
    glue = aws.client("glue")
    glue.create_database(DatabaseInput={"Name": "__segment_datalake"})
    storage = {"Location": "s3://theirs/reports/", "Columns": [{"Name": "a", "Type": "string"}]}
    keys = [{"Name": "dt", "Type": "string"}]
    theirs = {"Name": "sync_reports", "PartitionKeys": keys, "StorageDescriptor": storage}
    glue.create_table(DatabaseName="__segment_datalake", TableInput=theirs)
    result = load(events(tmp_path / "1.json", "a", range(1)), aws.settings())
    assert result.status == "finished"
    (warning,) = result.warnings
    assert "the sync report is not registered in the catalog" in warning
