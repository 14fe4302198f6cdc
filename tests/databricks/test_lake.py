"""The lake of a workspace: settings, loads into Delta tables, checks, tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlake.cli.main import main
from eventlake.databricks.tokens import describe_expiry
from eventlake.databricks.vending import VendedAccess
from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings
from eventlake.lakes import lake_settings, open_parts, open_store
from eventlake.lakes.databricks_settings import DatabricksSettings
from eventlake.model.databricks import DatabricksAuth
from eventlake.services.check import check
from eventlake.services.read import open_lake
from tests import lakes
from tests.aws.glue import aws
from tests.aws.moto import Aws
from tests.azure.azurite import Azure, azure
from tests.azure.metastores import abfs_settings
from tests.databricks.catalogs import workspace
from tests.databricks.standin import NOW_MS, PRINCIPAL, SECRET, StandIn, databricks
from tests.databricks.unity import CATALOG
from tests.processes import Ran

__all__ = ["aws", "azure", "databricks"]


def base(here: StandIn, **given: Any) -> dict[str, Any]:
    return {"workspace_url": here.url, "catalog": CATALOG, "client_id": PRINCIPAL, **given}


@pytest.fixture
def in_adls(
    azure: Azure, databricks: StandIn, monkeypatch: pytest.MonkeyPatch
) -> DatabricksSettings:
    """A lake in ADLS, which the stand-in's Spark reads too."""
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", SECRET)
    for name, value in abfs_settings(azure.url).items():
        databricks.engine.ask(sql=f"SET {name}={value}")
    databricks.unity.locations = [{"name": "lake", "url": azure.root}]
    return DatabricksSettings(**base(databricks, storage=azure.root))


@pytest.fixture
def in_s3(aws: Aws, databricks: StandIn, monkeypatch: pytest.MonkeyPatch) -> DatabricksSettings:
    """A lake in S3, whose tables are registered by the API."""
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", SECRET)
    databricks.unity.locations = [{"name": "lake", "url": f"s3://{aws.bucket}"}]
    place = {"storage": f"s3://{aws.bucket}", "aws_region": aws.region}
    return DatabricksSettings(**base(databricks, **place, registration="api"))


def rows(here: StandIn, statement: str) -> list[list[str]]:
    found = here.engine.ask(sql=statement)
    assert "rows" in found, found
    answer: list[list[str]] = found["rows"]
    return answer


def test_what_lands_is_what_sql_finds(
    in_adls: DatabricksSettings, databricks: StandIn, tmp_path: Path
) -> None:
    raw = lakes.small_sample(tmp_path / "raw")
    lakes.load(raw[:1], in_adls)
    result = lakes.load(raw, in_adls)
    assert result.status == "finished", result
    opened = open_lake(in_adls)
    assert opened.verify(lakes.SOURCE).problems == ()
    names = sorted(one.name for one in open_parts(in_adls).catalog.tables("web"))
    assert names
    for name in names[:3]:
        counted = opened.query(f"select count(*) n, count(distinct id) i from web.{name}")
        wanted = [[str(value) for value in row.values()] for row in counted.to_pylist()]
        statement = f"SELECT count(*), count(DISTINCT id) FROM {CATALOG}.web.{name}"
        assert rows(databricks, statement) == wanted
    reports = f"SELECT count(DISTINCT run_id) FROM {CATALOG}.__segment_datalake.sync_reports"
    assert rows(databricks, reports) == [["2"]]


def test_a_sync_with_nothing_new_asks_nothing_of_the_workspace(
    in_s3: DatabricksSettings, databricks: StandIn, tmp_path: Path
) -> None:
    raw = lakes.small_sample(tmp_path / "raw")
    first = lakes.load(raw[:1], in_s3)
    assert first.status == "finished", first
    tables = {one.name for one in open_parts(in_s3).catalog.tables("web")}
    assert tables == {one.table.name for one in first.tables}
    copy = tmp_path / "again.jsonl"
    event = {
        "type": "identify",
        "messageId": "one-more",
        "userId": "u",
        "receivedAt": "2026-11-01T10:00:00Z",
    }
    copy.write_text(json.dumps(event) + "\n")
    before = len(databricks.server.requests)
    second = lakes.load([copy], in_s3)
    assert second.counts is not None
    assert second.counts.landed == 1
    assert databricks.server.requests[before:] == []


def test_a_lake_in_s3_with_credentials_of_the_catalog(
    in_s3: DatabricksSettings, databricks: StandIn, aws: Aws, tmp_path: Path
) -> None:
    lake = in_s3.model_copy(update={"vend_credentials": True})
    with pytest.raises(InsufficientPermissions, match="GRANT EXTERNAL USE LOCATION"):
        open_store(lake)
    databricks.unity.vended = {
        "aws_temp_credentials": {
            "access_key_id": "ASIA",
            "secret_access_key": "secret",
            "session_token": "session",
        },
        "expiration_time": NOW_MS + 40_000_000_000,
    }
    store = open_store(lake)
    assert isinstance(store.access, VendedAccess)  # type: ignore[attr-defined]
    store.write("segment-stage/x", b"1")
    assert store.read("segment-stage/x") == b"1"


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"storage": "s3://a-bucket"}, "which needs aws_region"),
        ({"storage": "/here"}, "storage is '/here'"),
        ({"client_id": ""}, "auth is 'oauth', which needs client_id"),
        ({"registration": "api", "format": "parquet"}, "which needs format = 'delta'"),
        ({"vend_credentials": True}, "vend_credentials is for storage in S3"),
        ({"client_secret": "x"}, "client_secret is not a setting: put it into DATABRICKS_CLIENT"),
        ({"databricks_job_cluster": True}, "databricks_job_cluster needs databricks_node_type"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    given = {
        "workspace_url": "dbc-a1b2c3d4-e5f6.cloud.databricks.com",
        "catalog": "main",
        "client_id": PRINCIPAL,
        "storage": "abfss://lake@account.dfs.core.windows.net",
    }
    assert lake_settings(given).kind == "databricks"
    with pytest.raises(InvalidSettings, match=message):
        lake_settings({**given, **changes})


def test_names_of_segment() -> None:
    given = {
        "databricksWorkspaceUrl": "https://dbc-a1b2c3d4-e5f6.cloud.databricks.com",
        "unityCatalog": "main",
        "servicePrincipalClientId": PRINCIPAL,
        "storage": "s3://a-bucket",
        "awsRegion": "eu-west-1",
        "sqlWarehouseId": "0123456789abcdef",
        "kind": "databricks",
    }
    settings = lake_settings(given)
    assert isinstance(settings, DatabricksSettings)
    assert (settings.catalog, settings.warehouse_id) == ("main", "0123456789abcdef")


# Checks


def checks(lake: DatabricksSettings) -> dict[str, tuple[bool, str]]:
    return {one.name: (one.ok, one.detail) for one in check(lake)}


def test_check_tries_everything(in_adls: DatabricksSettings, databricks: StandIn) -> None:
    found = checks(in_adls)
    assert [name for name, (ok, _) in found.items() if not ok] == [], found
    assert found["sign in"][1] == f"{PRINCIPAL} at {databricks.url}"
    assert found["SQL warehouse"][1] == "small (small1), 2X-Small, is running"
    assert found["external location"][1] == f"lake has {in_adls.storage}"
    assert rows(databricks, f"SHOW TABLES IN {CATALOG}.__segment_datalake") == []


@pytest.mark.parametrize("privilege", ["CREATE SCHEMA", "CREATE EXTERNAL TABLE", "USE CATALOG"])
def test_check_names_each_grant(
    in_adls: DatabricksSettings, databricks: StandIn, privilege: str
) -> None:
    databricks.unity.missing = {privilege}
    (found,) = [one for one in check(in_adls) if one.name == "create a table"]
    assert not found.ok
    assert f"GRANT {privilege} ON" in found.detail
    assert found.grant.startswith(f"GRANT {privilege} ON")
    assert found.grant.endswith(f"TO `{PRINCIPAL}`")


def test_check_without_an_external_location(
    in_adls: DatabricksSettings, databricks: StandIn
) -> None:
    databricks.unity.locations = [{"name": "other", "url": "s3://other"}]
    ok, detail = checks(in_adls)["external location"]
    assert not ok
    assert f"CREATE EXTERNAL LOCATION `eventlake` URL '{in_adls.storage}'" in detail


def test_check_warns_before_the_token_expires(
    in_adls: DatabricksSettings, databricks: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = databricks.add_token(days=400, comment="eventlake")
    databricks.add_token(days=1, comment="of somebody else")
    monkeypatch.setenv("DATABRICKS_TOKEN", token)
    calls = workspace(databricks)
    when = _time(NOW_MS)
    assert describe_expiry(calls, when).startswith("expires in 400 days (2027-12-22)")
    databricks.add_token(days=5, comment="eventlake")
    assert describe_expiry(calls, when).startswith(
        f"warning: a token of {PRINCIPAL} expires in 5 days (2026-11-22)"
    )
    ok, _ = checks(in_adls.model_copy(update={"auth": DatabricksAuth.PAT}))["token"]
    assert ok


def _time(milliseconds: int) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC)


# Tokens


def token_command(
    lake: DatabricksSettings, folder: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> Ran:
    file = folder / "databricks.toml"
    file.write_text("\n".join(f"{n} = {json.dumps(v)}" for n, v in _values(lake).items()))
    code = main(["databricks", "token", "--lake", str(file), *words])
    return Ran(code, *capsys.readouterr())


def _values(lake: DatabricksSettings) -> dict[str, Any]:
    return lake.model_dump(mode="json", exclude_defaults=True)


def test_a_principal_makes_its_own_token(
    in_s3: DatabricksSettings,
    databricks: StandIn,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = token_command(in_s3, tmp_path, capsys)
    assert ran.code == 0, ran
    made = databricks.tokens[ran.out.strip()]
    assert made["principal"] == PRINCIPAL
    assert round((made["expiry_time"] - NOW_MS) / 86_400_000) == 90
    assert f"the token of {PRINCIPAL} expires on 2027-02-15" in ran.err


def test_an_administrator_makes_it_on_behalf(
    in_s3: DatabricksSettings,
    databricks: StandIn,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", databricks.add_token("admin@example.com"))
    lake = in_s3.model_copy(update={"auth": DatabricksAuth.PAT})
    ran = token_command(lake, tmp_path, capsys, "--days", "7", "--json")
    assert "sign in as an administrator" in ran.out
    databricks.admins.add("admin@example.com")
    ran = token_command(lake, tmp_path, capsys, "--days", "7", "--json")
    assert ran.code == 0, ran
    assert databricks.tokens[json.loads(ran.out)["token"]]["principal"] == PRINCIPAL


def test_a_lake_without_a_workspace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["databricks", "token", "--lake", str(tmp_path)]) != 0
    assert "only lakes of kind azure or databricks" in capsys.readouterr().err


def test_a_workspace_that_is_none(in_s3: DatabricksSettings, databricks: StandIn) -> None:
    databricks.fault("well-known", status=404, times=100)
    with pytest.raises(EventLakeError, match="workspace_url"):
        open_parts(in_s3).catalog.databases()
