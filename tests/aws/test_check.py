"""`eventlake check`: every permission is used for real, and what fails says what to mend."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlake.services.check import check
from tests import processes
from tests.aws.emr import Steps, make_cluster
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Refuses


def failed(aws: Aws, **changes: object) -> dict[str, str]:
    return {one.name: one.detail for one in check(aws.settings(**changes)) if not one.ok}


def test_a_lake_that_is_well(aws: Aws, proxy: Proxy) -> None:
    found = check(aws.settings())
    assert [one.name for one in found if not one.ok] == []
    assert {"write segment-stage", "publish", "create a table", "drop a table", "java"} <= {
        one.name for one in found
    }
    assert proxy.astray() == []


def test_it_leaves_nothing_behind(aws: Aws) -> None:
    check(aws.settings())
    assert "Contents" not in aws.client("s3").list_objects_v2(Bucket=aws.bucket)
    tables = aws.client("glue").get_tables(DatabaseName="__segment_datalake")["TableList"]
    assert tables == []


@pytest.mark.parametrize(
    ("permission", "resource", "what", "said"),
    [
        ("s3:PutObject", "segment-stage/", "write segment-stage", "grant s3:PutObject on arn:aws:"),
        ("s3:PutObject", "segment-logs/", "write segment-logs", "s3:::the-lake/segment-logs/*"),
        ("s3:PutObject", "segment-data/", "publish", "grant s3:PutObject"),
        ("s3:GetObject", "segment-data/", "read segment-data", "grant s3:GetObject"),
        ("s3:DeleteObject", "segment-stage/", "delete segment-stage", "grant s3:DeleteObject"),
        ("s3:ListBucket", "segment-data", "list segment-data", "grant s3:ListBucket"),
        ("glue:GetDatabase", "", "create a table", "grant glue:GetDatabase"),
        ("glue:CreateTable", "", "create a table", "grant glue:CreateTable"),
        ("glue:UpdateTable", "", "add a column", "grant glue:UpdateTable"),
        ("glue:BatchCreatePartition", "", "add a partition", "grant glue:BatchCreatePartition"),
        ("glue:DeleteTable", "", "drop a table", "grant glue:DeleteTable"),
    ],
)
def test_what_may_not_be_done_is_told_with_its_grant(
    aws: Aws, proxy: Proxy, permission: str, resource: str, what: str, said: str
) -> None:
    with proxy.ruled(Denied(permission, resource)):
        (found,) = [one for one in check(aws.settings()) if one.name == what]
    assert said in found.detail
    assert "EventLake.InsufficientPermissions" in found.detail
    statement = json.loads(found.grant)
    assert (statement["Effect"], statement["Action"]) == ("Allow", [permission])
    assert all(one.startswith("arn:aws:") for one in statement["Resource"])


def test_a_bucket_that_is_not_there(aws: Aws) -> None:
    found = check(aws.settings(s3_bucket="no-such-bucket"))
    assert [one.name for one in found] == ["settings", "access", "java"]
    assert "s3_bucket is 'no-such-bucket', and that bucket does not exist" in found[1].detail


def test_a_role_that_refuses(aws: Aws, proxy: Proxy) -> None:
    role = "arn:aws:iam::123456789012:role/lake"
    with proxy.ruled(Denied("sts:AssumeRole")):
        refused = failed(aws, iam_role_arn=role, workspace_id="ws")["access"]
        unset = failed(aws, iam_role_arn=role)["access"]
    assert "with the external id 'ws'" in refused
    assert "no external id is set" in unset


def test_a_store_that_overwrites_is_no_place_for_a_ledger(aws: Aws, proxy: Proxy) -> None:
    with proxy.ruled(Unconditional()):
        assert "conditional writes" in failed(aws)["write once"]


class Unconditional(Refuses):
    """A store that does not know conditional writes, as some that speak as S3 do."""

    def __init__(self) -> None:
        super().__init__("", 0, "")

    def __call__(self, call, forward):
        call.headers.pop("if-none-match", None)


def test_the_command(aws: Aws, proxy: Proxy, tmp_path: Path) -> None:
    lake = tmp_path / "aws.toml"
    lake.write_text(f's3_bucket = "{aws.bucket}"\naws_region = "{aws.region}"\n')
    environment = proxy.here.environ
    ran = processes.command("check", "--lake", lake, env=environment)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "all 21 OK"
    with proxy.ruled(Denied("s3:DeleteObject", "segment-logs/")):
        ran = processes.command("check", "--lake", lake, env=environment)
        told = processes.command("check", "--lake", lake, "--json", env=environment)
    assert ran.code == 1
    assert "FAIL  delete segment-logs" in ran.out
    assert ran.out.splitlines()[-1] == "1 of 21 failed"
    assert [one["name"] for one in json.loads(told.out) if not one["ok"]] == ["delete segment-logs"]


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    assert all(one.ok for one in check(tmp_path / "lake"))
    left = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert [path.name for path in left] == [".lock"]


@pytest.fixture
def cluster(aws: Aws, proxy: Proxy) -> Iterator[str]:
    with proxy.ruled(Steps()):  # moto cancels none
        yield make_cluster(aws)


def test_a_cluster_that_is_well(aws: Aws, cluster: str) -> None:
    found = {one.name: one.ok for one in check(aws.settings(emr_cluster_id=cluster))}
    assert all(found.values())
    assert {"cluster", "submit a step", "read a step's state", "cancel a step"} <= found.keys()


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("DescribeCluster", "cluster"),
        ("AddJobFlowSteps", "submit a step"),
        ("DescribeStep", "read a step's state"),
        ("CancelSteps", "cancel a step"),
    ],
)
def test_a_cluster_that_may_not_be_used(
    aws: Aws, proxy: Proxy, cluster: str, action: str, what: str
) -> None:
    with proxy.ruled(Denied(f"elasticmapreduce:{action}")):
        found = {one.name: one for one in check(aws.settings(emr_cluster_id=cluster)) if not one.ok}
    assert list(found) == [what]
    assert f"grant elasticmapreduce:{action}" in found[what].detail
    statement = json.loads(found[what].grant)
    assert statement["Action"] == [f"elasticmapreduce:{action}"]
    arn = f"arn:aws:elasticmapreduce:{aws.region}:*:cluster/{cluster}"
    assert statement["Resource"] == [arn]
