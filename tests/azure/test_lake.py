"""The lake in ADLS: the same tables as on disk, in a Hive metastore or in files of the lake."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector

from eventlake.catalogs.hive import HiveCatalog
from eventlake.lakes import open_parts
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.model import report
from eventlake.services.adopt import adopt
from eventlake.services.check import check
from eventlake.services.drop import drop
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay
from tests import processes
from tests.aws.moto import free_port
from tests.aws.sources import event
from tests.azure.azurite import ACCOUNT, KEY, Azure
from tests.azure.engine import read_tables, rows_of
from tests.azure.metastores import PASSWORD, USER, MariaDb, Metastore
from tests.azure.refusing import Refusing
from tests.azure.sources import AzureSource, Place
from tests.lakes import InlineRunner, load, small_sample, sync
from tests.tiers import long

PREFIXES = {"segment-logs", "segment-stage", "segment-data", "staging"}


@pytest.fixture
def files_lake(azure: Azure) -> AzureSettings:
    return azure.settings()


@pytest.fixture
def server_lake(azure: Azure, hive: Metastore) -> AzureSettings:
    return azure.settings(metastore_url=hive.url)


@pytest.fixture
def database_lake(azure: Azure, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> AzureSettings:
    monkeypatch.setenv("METASTORE_PASSWORD", PASSWORD)
    url = mariadb.url(mariadb.make_database())
    return azure.settings(metastore_url=url, metastore_user=USER)


@pytest.fixture(params=["files", "server", "database"])
def lake(request: pytest.FixtureRequest) -> AzureSettings:
    """An empty lake with its tables in each kind of catalog."""
    lake: AzureSettings = request.getfixturevalue(f"{request.param}_lake")
    return lake


def rows(lake: Any, table: str) -> list[Any]:
    return sorted(map(repr, open_lake(lake).query(f"select * from web.{table}").to_pylist()))


def objects(azure: Azure) -> list[str]:
    every = azure.client().get_file_info(FileSelector(azure.container, recursive=True))
    return [one.path.removeprefix(f"{azure.container}/") for one in every if one.is_file]


def schema(azure: Azure, table: str) -> Any:
    path = f"{azure.container}/staging/web/schemas/{table}.json"
    return json.loads(azure.client().open_input_file(path).read())


def test_a_lake_lands_changes_and_drops_tables(
    azure: Azure, lake: AzureSettings, tmp_path: Path
) -> None:
    first, second, third = small_sample(tmp_path / "raw")
    disk = tmp_path / "disk"
    for place in (lake, disk):
        assert load([first], place, keep_raw=True).status == "finished"
        assert load([second, third], place, keep_raw=True).status == "finished"
        assert sync(place).status == "nothing"
    tables = [one.name for one in open_lake(disk).tables()]
    assert [one.name for one in open_lake(lake).tables()] == tables
    for table in tables:
        assert rows(lake, table) == rows(disk, table)
    assert open_lake(lake).verify("web").problems == ()
    assert {path.partition("/")[0] for path in objects(azure)} <= PREFIXES

    catalog = open_parts(lake).catalog
    entries = {one.name: one for one in catalog.tables("web")}
    assert sorted(entries) == sorted(tables)
    assert entries["page"].location == "staging/web/segment_type=page"
    file = schema(azure, "page")
    assert file["location"] == "staging/web/segment_type=page"
    assert [(one["name"], one["type"]) for one in file["columns"]] == [
        (one.name, str(one.type)) for one in entries["page"].columns
    ]

    again = replay(ReplayRequest("web", all_time=True), lake=lake, where=InlineRunner())
    assert again.status == "finished"
    for table in tables:
        assert rows(lake, table) == rows(disk, table)
    assert open_lake(lake).verify("web").problems == ()

    drop("web", lake=lake, tables=["page"])
    assert catalog.table("web", "page") is None
    files = [path for path in objects(azure) if path.endswith((".parquet", ".json"))]
    assert not [path for path in files if "page" in path and path.startswith("staging/")]
    assert open_lake(lake).verify("web").problems == ()


def test_a_check_passes(lake: AzureSettings) -> None:
    found = {one.name: (one.ok, one.detail) for one in check(lake)}
    assert [name for name, (ok, _) in found.items() if not ok] == [], found
    assert {"write staging", "publish", "create a table", "add a partition"} <= set(found)


@pytest.mark.parametrize(
    ("password", "name", "message"),
    [
        ("", "", "cannot connect to the Hive metastore thrift://127.0.0.1:"),
        ("wrong", "hms", "does not accept metastore_user 'hive' with this password"),
        (PASSWORD, "hms_nowhere", "the server has no such database: create it"),
    ],
    ids=["a server that is down", "a wrong password", "no database"],
)
def test_a_check_says_what_is_wrong_with_a_metastore(
    azure: Azure, mariadb: MariaDb, password: str, name: str, message: str
) -> None:
    url = mariadb.url(name) if name else f"thrift://127.0.0.1:{free_port()}"
    lake = azure.settings(metastore_url=url, metastore_user=USER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("METASTORE_PASSWORD", password)
        failed = {one.name: one.detail for one in check(lake) if not one.ok}
    assert failed.keys() == {"create a table"}
    assert message in failed["create a table"]
    assert password not in failed["create a table"] or not password


def test_a_check_names_the_role_assignment(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "x")
    ids = {"tenant_id": "1" * 8 + "-1111-1111-1111-" + "1" * 12}
    ids["client_id"] = ids["tenant_id"].replace("1", "2")
    settings = AzureSettings(storage_account=ACCOUNT, storage_container="lake", **ids)
    refused = {one.name: one for one in check(settings) if not one.ok}
    assert {"write staging", "list segment-data", "create a table"} <= set(refused)
    for one in refused.values():
        assert "grant Storage Blob Data Contributor on the container lake to the s" in one.detail
        assert one.grant.startswith("az role assignment create --role ")
        assert f"--assignee {ids['client_id']}" in one.grant
        assert one.grant.endswith('/blobServices/default/containers/lake"')


def test_a_schema_says_since_when_a_column_is_there(azure: Azure, tmp_path: Path) -> None:
    def order(number: int, **properties: Any) -> str:
        at = f"2026-11-01T07:00:0{number}Z"
        own = {"messageId": f"m{number}", "receivedAt": at, "properties": properties}
        return json.dumps({"type": "track", "event": "Order", "userId": "u", **own})

    runs = []
    for number, properties in enumerate(({"total": 1}, {"total": 2}, {"coupon": "x"})):
        file = tmp_path / f"{number}.json"
        file.write_text(order(number, **properties))
        runs.append(load([file], azure.settings()).run_id)
    since = {one["name"]: one["since"] for one in schema(azure, "order")["columns"]}
    assert (since["total"], since["coupon"]) == (runs[0], runs[2])
    assert list(since)[-1] == "coupon"


@pytest.mark.spark
@pytest.mark.parametrize("way", ["server", pytest.param("database", marks=long)])
def test_another_spark_reads_every_table(
    way: str, azure: Azure, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    lake: AzureSettings = request.getfixturevalue(f"{way}_lake")
    first, second, third = small_sample(tmp_path / "raw")
    load([first], lake)
    load([second, third], lake)
    parts = open_parts(lake)
    assert isinstance(parts.catalog, HiveCatalog)
    tables = [one.full_name for one in parts.catalog.tables()]
    assert "web.page" in tables
    assert f"{report.DATABASE}.{report.TABLE}" in tables
    (address,) = parts.catalog.calls.find_addresses()
    if way == "server":
        tables.append(adopt_table_of_spark(azure, Metastore(address)))
    found = read_tables(azure, Metastore(address), tables)
    for name in tables:
        own = rows_of(open_lake(lake).query(f"select * from {name}").to_pylist())
        assert own
        assert found[name] == own


def adopt_table_of_spark(azure: Azure, metastore: Metastore) -> str:
    """Adopt a table that Spark has created, add a column, and return the table's name."""
    source = AzureSource(Place(azure, metastore), by_spark=True)
    source.land([event("identify", 1, "2026-11-10T07:00:00Z", age=1)])
    adopt("ios-prod", lake=source.settings, changes={"source_id": source.source_id})
    source.archive([event("identify", 2, "2026-11-10T07:00:00Z", age=2, city="x")], "new")
    assert sync(source.settings, "ios-prod").counts.landed == 1
    return f"{source.database}.identify"


@pytest.mark.spark
def test_the_command_shows_no_password(azure: Azure, mariadb: MariaDb, tmp_path: Path) -> None:
    file = tmp_path / "azure.toml"
    file.write_text(
        f'storage_account = "{ACCOUNT}"\nstorage_container = "{azure.container}"\n'
        f'metastore_url = "{mariadb.url(mariadb.make_database())}"\nmetastore_user = "{USER}"\n'
    )
    env = {**azure.environ, "METASTORE_PASSWORD": PASSWORD}
    raw = small_sample(tmp_path / "raw")
    ran = processes.command(
        *("load", *raw, "--source", "web", "--lake", file, "--master", "local[2]"), env=env
    )
    assert ran.code == 0, ran.err
    assert "py4j" not in ran.out + ran.err
    client = azure.client()
    contents = [
        client.open_input_file(f"{azure.container}/{path}").read() for path in objects(azure)
    ]
    for secret in (PASSWORD, KEY):
        assert secret not in ran.out + ran.err
        assert not [one for one in contents if secret.encode() in one]
