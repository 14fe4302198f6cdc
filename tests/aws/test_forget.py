"""Forget a user in S3 and Glue, with raw logs in the lake's bucket and in another one."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from eventlake.services.adopt import adopt
from eventlake.services.forget import forget
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.aws.copies import copied, copy_objects
from tests.aws.moto import Aws
from tests.aws.segments import DATABASE, SOURCE_ID, SegmentLake, event
from tests.aws.test_replay import read
from tests.lakes import InlineRunner
from tests.pipeline.test_forget import BROWSER, EMAIL, OLD, PHONE, USER, of_user, others, search

IDS = (USER, EMAIL, BROWSER, PHONE, OLD)


def put(aws: Aws, key: str, events: list[Any]) -> None:
    lines = "\n".join(map(json.dumps, events)).encode()
    aws.client("s3").put_object(Bucket=aws.bucket, Key=key, Body=gzip.compress(lines))


def test_nothing_of_the_user_remains(aws: Aws, tmp_path: Path) -> None:
    lake, day = aws.settings(), "segment-logs/web/1793491200000"
    other = replace(aws, bucket="other-logs")
    other.make_bucket()
    put(aws, f"{day}/a.gz", others(100) + of_user(0))
    put(other, "raw/b.gz", others(200) + of_user(50)[3:])
    lakes.sync(lake)
    lakes.load(["s3://other-logs/raw"], lake)
    put(aws, "segment-logs/web/.rejected/1/_r.gz", [{"event": {"userId": USER, "email": EMAIL}}])
    before = read(aws)
    result = forget(USER, lake=lake, also_anonymous=True)
    assert (result.status, result.remaining) == ("finished", ())
    assert search(copied(lake, tmp_path / "copy"), IDS) == []
    copy_objects(other.settings(), tmp_path / "other")
    assert [path.name[:3] for path in (tmp_path / "other/raw").iterdir()] == ["b-r"]
    assert search(tmp_path / "other", IDS) == []
    after = read(aws)
    assert {row for rows in after.values() for row in rows} == {
        row for rows in before.values() for row in rows if not any(one in str(row) for one in IDS)
    }
    assert lakes.sync(lake).status == "nothing"
    assert lakes.load(["s3://other-logs/raw"], lake).status == "nothing"
    assert forget(USER, lake=lake, also_anonymous=True).status == "nothing"
    assert lakes.read_contents(lake).problems == ()


def test_tables_that_another_program_has_filled(aws: Aws, tmp_path: Path) -> None:
    """They are rewritten, too, and stay as adopted ones: a replay does not replace them."""
    segment_lake, lake = SegmentLake(aws), aws.settings()
    shared = [event(n, "2026-11-01T10:00:00Z") | {"userId": f"shared_{n % 2}"} for n in range(9)]
    segment_lake.archive(shared)
    segment_lake.land(shared)
    adopt("ios-prod", lake=lake, changes={"source_id": SOURCE_ID})
    result = forget("shared_1", lake=lake)
    assert result.status == "finished"
    assert {one.kind: one.removed for one in result.files} == {"table": 4, "raw log": 4}
    assert search(copied(lake, tmp_path / "copy"), ("shared_1",)) == []
    assert lakes.sync(lake, "ios-prod").counts.landed == 0  # all are in the table
    window = ReplayRequest("ios-prod", "2026-11-01", "2026-11-02")
    replay(window, lake=lake, where=InlineRunner())
    rows = open_lake(lake).query(f"select count(*) from {DATABASE}.{segment_lake.table}")
    assert rows.column(0).to_pylist() == [5]
    assert open_lake(lake).verify("ios-prod").problems == ()
