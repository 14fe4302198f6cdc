"""Each permission denied in turn: what to grant is said, nothing is half done, and a grant mends.

What may go wrong before the commit lands nothing; what may go wrong after it leaves a partial run,
which the next one completes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eventlake import aws as ours
from eventlake.errors import InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.lakes import open_parts
from eventlake.lakes.aws_settings import AwsSettings
from tests import lakes, processes
from tests.aws.moto import Aws, free_port
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Refuses
from tests.aws.worlds import World

LAKE = "arn:aws:s3:::the-lake"
ROLE = "arn:aws:iam::123456789012:role/lake"


def check_nothing_landed(lake: AwsSettings, commits: int = 0) -> list[str]:
    """No run is committed but earlier ones, and no table shows a file of any other."""
    with lakes.on_disk(lake) as folder:
        assert len(lakes.read_commits(folder)) == commits
        shown = [path for path in lakes.strays(folder) if path.startswith("segment-data")]
        assert shown == []
        return [line["error_code"] for line in reports(folder) if line["status"] == "failed"]


def reports(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of all runs' reports, in order."""
    for path in sorted(folder.glob("segment-data/reports/*/*/*/report.json")):
        yield from map(json.loads, path.read_text().splitlines())


# Before the commit


@dataclass(frozen=True)
class Case:
    """A permission that is missing on some resources, and what must be named."""

    permission: str
    resource: str
    grant: str
    earlier: bool = False
    """Whether a file has landed before."""
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.permission} {self.resource}"

    @property
    def denied(self) -> Denied:
        return Denied(self.permission, self.resource)


KMS = {"encryption": "SSE-KMS", "kms_key_id": "alias/lake"}
BEFORE = [
    Case("s3:ListBucket", "segment-data/", f"s3:ListBucket on {LAKE}"),
    Case("s3:ListBucket", "segment-stage/", f"s3:ListBucket on {LAKE}"),
    Case("s3:GetObject", "segment-data/ledger", f"s3:GetObject on {LAKE}/segment-data/*", True),
    Case("s3:PutObject", "segment-stage/", f"s3:PutObject on {LAKE}/segment-stage/*"),
    Case("s3:PutObject", "segment-stage/.*/write/", f"s3:PutObject on {LAKE}/segment-stage/*"),
    Case("s3:GetObject", "segment-stage/.*/read/", f"s3:GetObject on {LAKE}/segment-stage/*"),
    Case("s3:PutObject", "segment-data/ledger", f"s3:PutObject on {LAKE}/segment-data/*", True),
    Case(
        "kms:GenerateDataKey",
        "",
        "kms:GenerateDataKey and kms:Decrypt on alias/lake",
        settings=KMS,
    ),
    Case("kms:Decrypt", "", "kms:GenerateDataKey and kms:Decrypt on alias/lake", settings=KMS),
]


@pytest.mark.parametrize("case", BEFORE, ids=str)
def test_denied_before_the_commit_lands_nothing(
    world: World, aws: Aws, proxy: Proxy, case: Case
) -> None:
    lake = aws.settings(catalog="files", **case.settings)
    if case.earlier:
        lakes.load(world.files[:1], lake)
    with proxy.ruled(case.denied), pytest.raises(InsufficientPermissions) as refused:
        lakes.load(world.files, lake)
    assert str(refused.value).startswith("no permission to ")
    assert f"grant {case.grant}" in str(refused.value)
    if case.settings:
        statement = json.loads(refused.value.grant)
        assert statement["Action"] == ["kms:GenerateDataKey", "kms:Decrypt"]
    told = check_nothing_landed(lake, commits=int(case.earlier))
    assert set(told) <= {"EventLake.InsufficientPermissions"}
    assert lakes.load(world.files, lake).status == "finished"
    world.check(lake, twice=case.earlier)
    assert proxy.astray() == []


ARCHIVE = [
    Case("s3:GetObject", "segment-logs/", f"s3:GetObject on {LAKE}/segment-logs/*"),
    Case("s3:GetObject", "segment-logs/.*gz", f"s3:GetObject on {LAKE}/segment-logs/*"),
    Case("s3:ListBucket", "segment-logs/", f"s3:ListBucket on {LAKE}"),
    Case("kms:Decrypt", "", "kms:GenerateDataKey and kms:Decrypt on the bucket's key"),
]


@pytest.mark.parametrize("case", ARCHIVE, ids=str)
def test_an_archive_that_may_not_be_read(world: World, aws: Aws, proxy: Proxy, case: Case) -> None:
    lake, logs = aws.settings(catalog="files"), archived(aws, world.files)
    with proxy.ruled(case.denied), pytest.raises(InsufficientPermissions) as refused:
        lakes.load([logs], lake)
    assert case.grant in str(refused.value)
    check_nothing_landed(lake)
    assert lakes.load([logs], lake).status == "finished"
    world.check(lake, twice=False, but=("inputs", "problems", "quarantine"))
    assert proxy.astray() == []


def archived(aws: Aws, files: list[Path]) -> str:
    """Logs in the bucket, and their address."""
    for file in files:
        key = f"segment-logs/web/1793491200000/{file.name}"
        aws.client("s3").put_object(Bucket=aws.bucket, Key=key, Body=file.read_bytes())
    return f"s3://{aws.bucket}/segment-logs/web"


def test_the_command_says_it_in_one_line(
    world: World, aws: Aws, proxy: Proxy, tmp_path: Path
) -> None:
    (tmp_path / "lake.toml").write_text(f's3_bucket = "{aws.bucket}"\naws_region = "{aws.region}"')
    arguments = (*world.files, "--source", "web", "--lake", tmp_path / "lake.toml", "--json")
    with proxy.ruled(Denied("s3:ListBucket", "segment-data/")):
        ran = processes.command("load", *arguments, env=proxy.here.environ)
    assert (ran.code, ran.value["error_code"]) == (1, "EventLake.InsufficientPermissions")
    *_, last = ran.err.splitlines()
    assert last.endswith(f": grant s3:ListBucket on {LAKE} (EventLake.InsufficientPermissions)")
    assert "Traceback" not in ran.err


# After the commit

STORE = [
    Case("s3:PutObject", "segment-data/data", f"s3:PutObject on {LAKE}/segment-data/*"),
    Case("s3:PutObject", "segment-data/ledger/web/ids", f"s3:PutObject on {LAKE}/segment-data/*"),
    Case("s3:PutObject", "segment-data/quarantine", f"s3:PutObject on {LAKE}/segment-data/*"),
    Case("s3:PutObject", "segment-data/catalog", f"s3:PutObject on {LAKE}/segment-data/*"),
    Case("s3:GetObject", "segment-stage/.*/write/", f"s3:GetObject on {LAKE}/segment-stage/*"),
]
GLUE = [
    Case("glue:GetDatabase", "", "glue:GetDatabase on arn:aws:glue:us-east-1:"),
    Case("glue:CreateDatabase", "database/web", "glue:CreateDatabase on arn:aws:glue:us-east-1:"),
    Case("glue:CreateDatabase", "database/__", "glue:CreateDatabase on arn:aws:glue:us-east-1:"),
    Case("glue:CreateTable", "", "glue:CreateTable on arn:aws:glue:us-east-1:"),
    Case("glue:CreateTable", "table/web/page", "glue:CreateTable on arn:aws:glue:us-east-1:"),
    Case("glue:BatchCreatePartition", "", "glue:BatchCreatePartition on arn:aws:glue:us-east-1:"),
    Case("glue:GetTable", "", "glue:GetTable on arn:aws:glue:us-east-1:", True),
    Case("glue:GetPartitions", "", "glue:GetPartitions on arn:aws:glue:us-east-1:", True),
    Case("glue:UpdateTable", "", "glue:UpdateTable on arn:aws:glue:us-east-1:", True),
    Case("glue:BatchUpdatePartition", "", "glue:BatchUpdatePartition on arn:aws:glue:", True),
]


def check_partial(world: World, proxy: Proxy, lake: AwsSettings, case: Case) -> None:
    """The run lands, says what it could not do, and the next one does that."""
    if case.earlier:
        lakes.load(world.files[:1], lake)
    with proxy.ruled(case.denied):
        result = lakes.load(world.files, lake)
    assert result.status == "partial"
    assert result.message.startswith("no permission to ")
    assert f"grant {case.grant}" in result.message
    with lakes.on_disk(lake) as folder:
        check_told(folder, result.run_id)
    assert lakes.load(world.files, lake).status == "nothing"
    world.check(lake, twice=case.earlier)
    assert proxy.astray() == []


def check_told(folder: Path, run_id: str) -> None:
    """The report says what was left, and what does not show is no file of a table."""
    run, *tables = (line for line in reports(folder) if line["run_id"] == run_id)
    told = (run["status"], run["error_code"])
    assert told == ("partial", "EventLake.InsufficientPermissions")
    assert {line["status"] for line in tables} <= {"finished", "failed"}
    assert [path for path in lakes.strays(folder) if path.startswith("segment-data")] == []


@pytest.mark.parametrize("case", STORE, ids=str)
def test_denied_after_the_commit_is_completed_by_the_next_run(
    world: World, aws: Aws, proxy: Proxy, case: Case
) -> None:
    check_partial(world, proxy, aws.settings(catalog="files"), case)


@pytest.mark.parametrize("case", GLUE, ids=str)
def test_a_catalog_that_is_denied_is_told_by_the_next_run(
    world: World, aws: Aws, proxy: Proxy, case: Case
) -> None:
    check_partial(world, proxy, aws.settings(), case)


def test_one_table_that_is_denied_does_not_stop_the_others(
    world: World, aws: Aws, proxy: Proxy
) -> None:
    with proxy.ruled(Denied("glue:CreateTable", "table/web/page")):
        result = lakes.load(world.files, aws.settings())
    with lakes.on_disk(aws.settings()) as folder:
        run = [line for line in reports(folder) if line["run_id"] == result.run_id]
        failed = [line["table_name"] for line in run[1:] if line["status"] == "failed"]
        made = {path.stem for path in (folder / "segment-data/catalog/web").iterdir()}
    assert failed == ["page"]
    assert made == world.once.catalog.keys() - {"page"}


def test_a_report_that_may_not_be_written(world: World, aws: Aws, proxy: Proxy) -> None:
    lake = aws.settings(catalog="files")
    with proxy.ruled(Denied("s3:PutObject", "segment-data/reports")):
        result = lakes.load(world.files, lake)
    assert (result.status, result.report) == ("partial", "")
    assert f"grant s3:PutObject on {LAKE}/segment-data/*" in result.message
    assert lakes.load(world.files, lake).status == "nothing"
    world.check(lake, twice=False)


def test_a_stage_that_may_not_be_removed(world: World, aws: Aws, proxy: Proxy) -> None:
    """All is done and reported by then; the next run removes it."""
    lake = aws.settings(catalog="files")
    with proxy.ruled(Denied("s3:DeleteObject")):
        result = lakes.load(world.files, lake)
    assert result.status == "partial"
    assert f"s3:DeleteObject on {LAKE}/segment-stage/" in result.message
    with lakes.on_disk(lake) as folder:
        assert {line["status"] for line in reports(folder)} == {"finished"}
    assert lakes.load(world.files, lake).status == "nothing"
    world.check(lake, twice=False)


def test_lake_formation_is_named_when_it_is_what_refuses(
    world: World, aws: Aws, proxy: Proxy
) -> None:
    why = "Insufficient Lake Formation permission(s): Required Create Table on web"
    with proxy.ruled(Denied("glue:CreateTable", "table/web/", why)):
        result = lakes.load(world.files, aws.settings())
    assert result.status == "partial"
    assert f"Lake Formation protects this catalog; grant the permission that it names ({why})" in (
        result.message
    )


# The catalog by itself


@pytest.mark.parametrize("permission", ["glue:GetDatabases", "glue:GetTables"])
def test_a_catalog_that_may_not_be_read(
    world: World, aws: Aws, proxy: Proxy, permission: str
) -> None:
    lakes.load(world.files, aws.settings())
    with (
        proxy.ruled(Denied(permission)),
        pytest.raises(InsufficientPermissions, match=f"grant {permission} on arn:aws:glue:"),
    ):
        open_parts(aws.settings()).catalog.tables()


def test_a_table_that_may_not_be_deleted(world: World, aws: Aws, proxy: Proxy) -> None:
    lakes.load(world.files, aws.settings())
    catalog = open_parts(aws.settings()).catalog
    table = catalog.table("web", "page")
    assert table is not None
    with (
        proxy.ruled(Denied("glue:DeleteTable")),
        pytest.raises(InsufficientPermissions, match=r"grant glue:DeleteTable on .*web/page"),
    ):
        catalog.drop(table)
    assert catalog.table("web", "page") == table
    catalog.drop(table)
    assert catalog.table("web", "page") is None


# The role


@pytest.mark.parametrize(
    ("workspace", "says"),
    [
        ("", "no external id is set: set workspace_id"),
        ("ws-1", r"with the external id 'ws-1' \(workspace_id\): its trust policy must allow"),
    ],
)
def test_a_role_that_refuses(
    world: World, aws: Aws, proxy: Proxy, workspace: str, says: str
) -> None:
    lake = aws.settings(catalog="files", iam_role_arn=ROLE, workspace_id=workspace)
    with (
        proxy.ruled(Denied("sts:AssumeRole")),
        pytest.raises(InvalidSettings, match=f"the role {ROLE} refuses arn:.*{says}"),
    ):
        lakes.load(world.files, lake)
    assert {call.service for call in proxy.calls} == {"sts"}
    assert [call.given.get("ExternalId", "") for call in proxy.asked("AssumeRole")] == [workspace]
    assert lakes.load(world.files, lake).status == "finished"
    world.check(lake, twice=False)


# Settings that cannot work


def refused(world: World, lake: AwsSettings) -> str:
    with pytest.raises(InvalidSettings) as problem:
        lakes.load(world.files, lake)
    return str(problem.value)


def test_a_bucket_that_is_not_there(world: World, aws: Aws) -> None:
    said = refused(world, aws.settings(s3_bucket="not-there"))
    assert "s3_bucket is 'not-there', and that bucket does not exist" in said


@pytest.mark.parametrize(
    ("status", "code"), [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed")]
)
def test_a_region_that_is_not_the_buckets(
    world: World, aws: Aws, proxy: Proxy, status: int, code: str
) -> None:
    with proxy.ruled(Refuses("", status, code)):
        said = refused(world, aws.settings())
        assert "aws_region is 'us-east-1', and the bucket is in another one" in said
        with pytest.raises(InvalidSettings, match="aws_region"):
            lakes.load([f"s3://{aws.bucket}/segment-logs/web"], aws.settings())


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "InvalidAccessKeyId"),
        (403, "SignatureDoesNotMatch"),
        (400, "ExpiredToken"),
        (403, "RequestTimeTooSkewed"),
    ],
)
def test_credentials_that_are_not_accepted(
    world: World, aws: Aws, proxy: Proxy, status: int, code: str
) -> None:
    with proxy.ruled(Refuses("", status, code)):
        said = refused(world, aws.settings())
    assert f"the AWS credentials are not accepted ({code})" in said


def test_credentials_that_are_not_there(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    said = refused(world, aws.settings())
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile" in said


# Services that do not answer


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives up after one more try."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")


@pytest.mark.parametrize("often", ["often", "0", "-1"])
def test_the_number_of_attempts_must_be_one(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, often: str
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", often)
    with pytest.raises(InvalidSettings, match=f"AWS_MAX_ATTEMPTS is '{often}': it should be"):
        open_parts(aws.settings())


@pytest.mark.usefixtures("impatient")
def test_a_store_that_cannot_be_reached(world: World, aws: Aws) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match="could not list s3://the-lake/segment-data/ledger"):
        lakes.load(world.files, aws.settings(s3_endpoint=nobody))


@pytest.mark.usefixtures("impatient")
def test_a_catalog_that_cannot_be_reached(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = aws.settings(s3_endpoint=aws.url)
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
        result = lakes.load(world.files, lake)
    assert result.status == "partial"
    assert "could not call Glue's GetDatabase for database/web" in result.message
    ours._client.cache_clear()
    assert lakes.load(world.files, lake).status == "nothing"
    world.check(lake, twice=False)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_a_store_that_stays_slow(
    world: World, aws: Aws, proxy: Proxy, status: int, code: str
) -> None:
    lake = aws.settings(catalog="files")
    with (
        proxy.ruled(Refuses("PutObject", status, code, key="segment-data/ledger")),
        pytest.raises(Unavailable, match=f"could not write .*/ledger/.*: {code}"),
    ):
        lakes.load(world.files, lake)
    assert check_nothing_landed(lake) == ["EventLake.Unavailable"]
    assert lakes.load(world.files, lake).status == "finished"
    world.check(lake, twice=False)
