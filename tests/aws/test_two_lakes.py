"""Two lakes in one account and region share the Glue table of sync reports."""

import json
from pathlib import Path
from typing import Any

from eventlake.lakes.aws_settings import AwsSettings
from eventlake.model.settings import source_settings
from eventlake.services.check import check
from eventlake.services.load import LoadResult
from tests import lakes
from tests.aws.moto import Aws

REPORTS = {"DatabaseName": "__segment_datalake", "TableName": "sync_reports"}


def load_one(folder: Path, lake: AwsSettings, number: int, **settings: str) -> LoadResult:
    """Load one event of its own."""
    path = folder / f"{lake.s3_bucket}-{number}.json"
    event = {"type": "page", "messageId": path.stem, "receivedAt": f"2026-11-01T{number:02}:00:00Z"}
    path.write_text(json.dumps(event))
    return lakes.load([path], lake, settings=source_settings(**settings))


def two_lakes(aws: Aws) -> tuple[AwsSettings, AwsSettings]:
    aws.client("s3").create_bucket(Bucket="the-other")
    return aws.settings(), aws.settings(s3_bucket="the-other")


def partitions(aws: Aws) -> dict[str, str]:
    """The location of each source's reports."""
    found = aws.client("glue").get_partitions(**REPORTS)["Partitions"]
    return {one["Values"][0]: one["StorageDescriptor"]["Location"] for one in found}


def stages(aws: Aws, bucket: str) -> list[Any]:
    listed = aws.client("s3").list_objects_v2(Bucket=bucket, Prefix="segment-stage/")
    return [one["Key"] for one in listed.get("Contents", ())]


def test_two_lakes_with_alternating_loads_finish(aws: Aws, tmp_path: Path) -> None:
    one, other = two_lakes(aws)
    results = [
        load_one(tmp_path, lake, number, source=source)
        for number in range(3)
        for lake, source in ((one, "web"), (other, "shop"))
    ]
    assert [result.status for result in results] == ["finished"] * 6
    assert {warning for result in results for warning in result.warnings} == set()
    places = partitions(aws)
    assert places.keys() == {"web", "shop"}
    assert places["web"].startswith("s3://the-lake/segment-data/")
    assert places["shop"].startswith("s3://the-other/segment-data/")
    assert stages(aws, "the-lake") == stages(aws, "the-other") == []
    assert [one.detail for one in check(other) if "tables of" in one.name] == []


def test_lakes_that_share_a_source_id_keep_the_first_ones_reports(aws: Aws, tmp_path: Path) -> None:
    """The keys of the table cannot tell the two apart; both lakes are complete all the same."""
    one, other = two_lakes(aws)
    assert load_one(tmp_path, one, 1, source="web").warnings == ()
    result = load_one(tmp_path, other, 1, source="web", database="web_other")
    assert result.status == "finished"
    [warning] = result.warnings
    assert "in another lake (s3://the-lake/segment-data/" in warning
    assert "--source-id" in warning
    assert partitions(aws)["web"].startswith("s3://the-lake/")
    assert stages(aws, "the-other") == []
    [failed] = [one for one in check(other) if not one.ok and one.name == "tables of web"]
    assert "sync_reports" in failed.detail
    assert "--source-id" in failed.detail
    assert load_one(tmp_path, one, 2, source="web").warnings == ()
