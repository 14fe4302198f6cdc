"""The collector with its archive in S3: what is acknowledged gets there, sooner or later."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlake.services.suppress import suppress_users
from tests import lakes, processes
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Refuses
from tests.collect.servers import event, serving
from tests.collect.test_serve import wait_until

SealSoon = ("--seal-seconds", "0.5")


@pytest.fixture
def lake(aws: Aws, proxy: Proxy, tmp_path: Path) -> Path:
    file = tmp_path / "aws.toml"
    file.write_text(f's3_bucket = "{aws.bucket}"\naws_region = "{aws.region}"\n')
    return file


@pytest.fixture
def spool(tmp_path: Path) -> tuple[str, str]:
    return "--spool", str(tmp_path / "spool")


def archived(aws: Aws) -> list[str]:
    """The ids of all that is in the archive, read by a client that is not ours."""
    s3 = aws.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=aws.bucket, Prefix="segment-logs/web/"
    )
    keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
    assert all(key.endswith(".gz") for key in keys)
    bodies = (s3.get_object(Bucket=aws.bucket, Key=key)["Body"].read() for key in keys)
    lines = (line for body in bodies for line in gzip.decompress(body).splitlines())
    return sorted(json.loads(line)["messageId"] for line in lines)


def test_from_a_request_to_a_table(aws: Aws, lake: Path, spool: tuple[str, str]) -> None:
    with serving(lake, *spool) as server:
        for number in range(20):
            assert server.post("/v1/track", event(number)).status_code == 200
        assert server.stop() == 0
    assert len(archived(aws)) == 20
    done = lakes.sync(lake)
    assert (done.status, done.counts.landed) == ("finished", 20)
    assert lakes.sync(lake).status == "nothing"


def test_suppressed_users_are_neither_archived_nor_landed(
    aws: Aws, lake: Path, spool: tuple[str, str]
) -> None:
    suppress_users(["u"], lake=lake)
    with serving(lake, *spool) as server:
        assert server.post("/v1/track", event(1)).status_code == 200
        assert server.post("/v1/track", event(2, userId="v")).status_code == 200
        assert server.stop() == 0
    assert archived(aws) == ["m2"]
    suppress_users(["v"], lake=lake)
    done = lakes.sync(lake)
    assert (done.counts.landed, done.counts.suppressed) == (0, 1)


@pytest.mark.parametrize(
    "rule",
    [
        Denied("s3:PutObject", "segment-logs/"),
        Refuses("PutObject", 403, "InvalidAccessKeyId", "segment-logs/"),
    ],
)
def test_a_bucket_that_refuses_is_tried_until_it_takes(
    aws: Aws,
    proxy: Proxy,
    lake: Path,
    spool: tuple[str, str],
    rule: Callable[..., object],
) -> None:
    with serving(lake, *spool, *SealSoon) as server:
        with proxy.ruled(rule):
            assert server.post("/v1/track", event(1)).status_code == 200
            wait_until(lambda: bool(proxy.asked("PutObject")))
            assert archived(aws) == []
            assert server.post("/v1/track", event(2)).status_code == 200
        wait_until(lambda: archived(aws) == ["m1", "m2"], 20)
    assert "could not archive" in server.log.read_text()


def test_killed_before_the_bucket_had_it(
    aws: Aws, proxy: Proxy, lake: Path, spool: tuple[str, str]
) -> None:
    with (
        proxy.ruled(Denied("s3:PutObject", "segment-logs/")),
        serving(lake, *spool, *SealSoon) as server,
    ):
        for number in range(5):
            assert server.post("/v1/track", event(number)).status_code == 200
        server.kill()
    with serving(lake, *spool, *SealSoon) as server:
        wait_until(lambda: len(archived(aws)) == 5, 20)
        assert server.stop() == 0
    assert archived(aws) == [f"m{number}" for number in range(5)]


def test_a_bucket_needs_a_spool_on_disk(aws: Aws, lake: Path) -> None:
    ran = processes.command("serve", "--source", "web", "--lake", lake, env=aws.environ)
    assert ran.code == 2
    assert "spool is not set: s3://the-lake is not a local folder" in ran.err
    assert "--spool" in ran.err
