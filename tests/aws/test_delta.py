"""Delta tables in S3 and Glue: kills, lost answers, denied requests, replaced rows."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from eventlake.errors import InsufficientPermissions
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.model.settings import source_settings
from eventlake.services.check import check
from eventlake.services.compact import compact
from eventlake.services.drop import drop
from eventlake.services.forget import forget
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.aws.answers import Answer
from tests.aws.calls import Call
from tests.aws.copies import copied
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Forward, done_but_silent
from tests.aws.test_killed import killed
from tests.faults.kills import AtStep
from tests.lakes import InlineRunner
from tests.pipeline.test_forget import EMAIL, USER, of_user, others, search, write

ALL = ReplayRequest("web", all_time=True)
BY_DAY = source_settings(source="web", date_partition="day")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return lakes.small_sample(tmp_path_factory.mktemp("raw"), events=40)


def delta_rows(aws: Aws) -> dict[str, int]:
    """The rows of each table as deltalake reads them from the bucket with keys of its own."""
    options = {
        "aws_access_key_id": "another",
        "aws_secret_access_key": "another",
        "aws_region": aws.region,
        "aws_endpoint_url": aws.url,
        "aws_allow_http": "true",
    }
    place = "segment-data/data/web/"
    s3 = aws.client("s3")
    listing = s3.list_objects_v2(Bucket=aws.bucket, Prefix=place, Delimiter="/")
    folders = [one["Prefix"] for one in listing.get("CommonPrefixes", ())]
    return {
        folder.removeprefix(f"{place}segment_type=").rstrip("/"): count(
            DeltaTable(f"s3://{aws.bucket}/{folder}", storage_options=options)
        )
        for folder in folders
    }


def count(table: DeltaTable) -> int:
    rows = QueryBuilder().register("t", table).execute("select id from t").read_all()
    return int(pa.table(rows).num_rows)


def check_lake(aws: Aws, lake: AwsSettings) -> dict[str, int]:
    lakes.assert_complete(lake)
    rows = {table.name: table.rows for table in open_lake(lake).tables()}
    assert delta_rows(aws) == rows
    return rows


def test_everything_that_replaces_rows(aws: Aws, files: list[Path], tmp_path: Path) -> None:
    lake = aws.settings(format="delta")
    write(tmp_path / "user.gz", others(100) + of_user(0))
    for file in (*files, tmp_path / "user.gz"):
        assert lakes.load([file], lake, settings=BY_DAY).status == "finished"
    rows = check_lake(aws, lake)
    [compacted] = compact("web", lake=lake, where=InlineRunner(), older_than="0s")
    assert compacted.status == "finished"
    assert check_lake(aws, lake) == rows
    assert replay(ALL, lake=lake, where=InlineRunner()).status == "finished"
    assert check_lake(aws, lake) == rows
    assert forget(USER, lake=lake, also_anonymous=True).status == "finished"
    assert search(copied(lake, tmp_path / "copy"), (USER, EMAIL)) == []
    assert sum(check_lake(aws, lake).values()) < sum(rows.values())
    assert drop("web", lake=lake).status == "finished"
    assert delta_rows(aws) == {}


STEPS = [("commit", 0), ("publish", 2), ("clean", 0)]


def test_killed_at_a_step(
    aws: Aws, proxy: Proxy, files: list[Path], subtests: pytest.Subtests
) -> None:
    lake, expected = aws.settings(format="delta"), None
    for step in STEPS:
        with subtests.test(step=step):
            aws.reset()
            aws.make_bucket()
            killed(proxy, files[:2], lake, AtStep(0, *step))
            lakes.load(files, lake)
            rows = check_lake(aws, lake)
            expected = expected or rows
            assert rows == expected


@dataclass
class LosesCommits:
    """Carries out the first put of every version of a table's log, and loses the answer."""

    lost: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        is_commit = re.search(r"_delta_log/\d{20}\.json$", call.key)
        with self._lock:
            if call.action != "PutObject" or not is_commit or call.key in self.lost:
                return None
            self.lost.add(call.key)
        return done_but_silent(call, forward)


def test_lost_answers_to_commits_that_went_through(
    aws: Aws, proxy: Proxy, files: list[Path]
) -> None:
    lake, rule = aws.settings(format="delta"), LosesCommits()
    with proxy.ruled(rule):
        for file in files[:2]:
            assert lakes.load([file], lake).status == "finished"
    assert len(rule.lost) >= 2 * len(delta_rows(aws))
    check_lake(aws, lake)
    assert proxy.astray() == []


def test_the_log_may_not_be_written(aws: Aws, proxy: Proxy, files: list[Path]) -> None:
    lake, denied = aws.settings(format="delta"), Denied("s3:PutObject", r".*/_delta_log/")
    with proxy.ruled(denied):
        result = lakes.load(files[:1], lake)
        failed = {one.name: one.detail for one in check(lake) if not one.ok}
    assert result.status == "partial"
    assert "no permission to write" in result.message
    assert "grant s3:PutObject" in result.message
    assert "grant s3:PutObject" in failed["write a delta table"]
    assert lakes.load(files, lake).status == "finished"
    check_lake(aws, lake)


def test_a_log_that_may_not_be_read_is_told_before_anything_is_staged(
    aws: Aws, proxy: Proxy, files: list[Path]
) -> None:
    lake = aws.settings(format="delta")
    lakes.load(files[:1], lake)
    denied = Denied("s3:GetObject", r".*/_delta_log/")
    with proxy.ruled(denied), pytest.raises(InsufficientPermissions, match="s3:GetObject"):
        lakes.load(files, lake)
    assert len(lakes.read_commits(lake)) == 1


def test_entries_in_glue_are_of_delta_tables(aws: Aws, files: list[Path]) -> None:
    """Without partitions: engines read them from the log."""
    lake, glue = aws.settings(format="delta"), aws.client("glue")
    lakes.load(files[:1], lake)
    lakes.load(files, lake)
    table: dict[str, Any] = glue.get_table(DatabaseName="web", Name="page")["Table"]
    assert table["Parameters"]["spark.sql.sources.provider"] == "delta"
    assert table["Parameters"]["table_type"] == "DELTA"
    assert table["PartitionKeys"] == []
    names = [column["Name"] for column in table["StorageDescriptor"]["Columns"]]
    assert {"id", "received_at", "day", "hr"} <= set(names)
    assert glue.get_partitions(DatabaseName="web", TableName="page")["Partitions"] == []
    assert open_lake(lake).verify("web").problems == ()
