"""Metastores that cannot be used, each with its own message; and the private one's secrets."""

import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar

import psutil
import pytest

from eventlake.catalogs.hive import HiveCatalog
from eventlake.catalogs.hive_calls import Address, HiveCalls
from eventlake.catalogs.maven import find_files
from eventlake.catalogs.metastore_database import CREATING, MetastoreDatabase, read_statements
from eventlake.catalogs.private_metastore import HIVE, PrivateMetastore
from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    Unavailable,
)
from eventlake.lakes import open_parts
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.ports import NoProgress
from tests.aws.moto import free_port
from tests.azure.azurite import Azure
from tests.azure.metastores import (
    PASSWORD,
    USER,
    Given,
    MariaDb,
    Metastore,
    java_path,
    started_mariadb,
)
from tests.catalogs import register
from tests.lakes import load, small_sample, sync

TABLE = CatalogTable(
    database="web",
    name="orders",
    source="web",
    location="staging/web/segment_type=orders",
    columns=(Column(name="id", type=Type.STRING),),
    partition_columns=("day",),
)


def refused(catalog: HiveCatalog) -> EventLakeError:
    with pytest.raises(EventLakeError) as caught:
        register(catalog, TABLE)
    assert PASSWORD not in f"{caught.value!r} {caught.value.__cause__!r}"
    return caught.value


# A server


def test_a_server_that_is_down() -> None:
    problem = refused(Metastore(("127.0.0.1", free_port())).catalog("abfss://x@y"))
    assert isinstance(problem, Unavailable)
    assert re.search(
        r"cannot connect to the Hive metastore thrift://127.* check meta", str(problem)
    )


def test_a_port_of_something_else(mariadb: MariaDb) -> None:
    problem = refused(Metastore(("127.0.0.1", mariadb.port)).catalog("abfss://x@y"))
    assert isinstance(problem, InvalidSettings)
    assert "what answers there is not a Hive metastore: its port is usually 9083" in str(problem)


def test_a_server_that_breaks_connections() -> None:
    class Closes(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(10)

    with ThreadingTCPServer(("127.0.0.1", 0), Closes) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        problem = refused(Metastore(server.server_address).catalog("abfss://x@y"))  # type: ignore[arg-type]
        server.shutdown()
    assert isinstance(problem, Unavailable)
    assert "servers with Kerberos or TLS are not supported" in str(problem)


def test_a_server_that_is_too_old(hive: Metastore) -> None:
    with pytest.raises(InvalidSettings, match=r"not supported: use Hive 2\.3, 3\.1 or 4\.0"):
        hive.calls.call("get_dataconnectors")  # of a later version than the server


def test_a_server_that_cannot_reach_the_lake(hive: Metastore) -> None:
    problem = refused(hive.catalog("other://lake"))
    assert isinstance(problem, InvalidSettings)
    assert "creates folders of tables itself: give it hadoop-azure" in str(problem)


def test_another_server_takes_over(hive: Metastore) -> None:
    calls = HiveCalls(lambda: [("127.0.0.1", free_port()), hive.address])
    assert "default" in calls.call("get_all_databases")


class Forgetful(BaseRequestHandler):
    """Passes calls on to a metastore, and loses the answers to some: it closes the connection."""

    target: Address
    lose: ClassVar[list[bytes]]

    def handle(self) -> None:
        with socket.create_connection(self.target) as server:
            while call := self.request.recv(1 << 20):
                lost = next((one for one in self.lose if one in call), None)
                server.sendall(call)
                answer = server.recv(1 << 20)
                if lost:
                    self.lose.remove(lost)
                    return
                self.request.sendall(answer)


@pytest.mark.parametrize(
    "method", ["create_database", "create_table", "add_partitions_req", "alter_table_with"]
)
def test_a_lost_answer(method: str, private: PrivateMetastore) -> None:
    (address,) = private.addresses()
    Forgetful.target, Forgetful.lose = address, [method.encode()]
    column = Column(name="total", type=Type.DECIMAL)
    with ThreadingTCPServer(("127.0.0.1", 0), Forgetful) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        catalog = HiveCatalog(HiveCalls(lambda: [server.server_address]), private.root)  # type: ignore[list-item]
        register(catalog, TABLE.with_partitions([{"day": "2026-11-01"}]))
        register(catalog, TABLE.with_columns([column]))
        found = catalog.table("web", "orders")
        del catalog  # closes its connections
        server.shutdown()
    assert Forgetful.lose == []
    assert found == TABLE.with_columns([column]).with_partitions([{"day": "2026-11-01"}])


def test_a_column_does_not_rewrite_partitions(hive: Metastore, tmp_path: Path) -> None:
    catalog = hive.catalog(f"file:{tmp_path}")
    days = [{"day": f"2026-11-{day:02}"} for day in range(1, 11)]
    register(catalog, TABLE.with_partitions(days))
    register(catalog, TABLE.with_columns([Column(name="total", type=Type.DECIMAL)]))
    found = hive.calls.call("get_partitions", "web", "orders", -1)
    assert {len(one.sd.cols) for one in found} == {1}
    table = catalog.table("web", "orders")
    assert table is not None
    assert [one.name for one in table.columns] == ["id", "total"]
    parameters = found[0].parameters
    assert "DO_NOT_UPDATE_STATS" not in parameters


def test_many_new_tables_take_two_calls_each(private: PrivateMetastore) -> None:
    """So that 1,000 register within a minute; `measure_metastores` says how long it takes."""
    catalog = HiveCatalog(HiveCalls(private.addresses), private.root)
    days = [{"day": f"2026-11-0{day}"} for day in range(1, 4)]
    tables = [
        TABLE.with_partitions(days).model_copy(
            update={"name": f"t{number}", "location": f"staging/web/segment_type=t{number}"}
        )
        for number in range(100)
    ]
    calls: list[str] = []
    call = HiveCalls.call

    def count(self: HiveCalls, method: str, *arguments: Any, **options: Any) -> Any:
        calls.append(method)
        return call(self, method, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HiveCalls, "call", count)
        assert catalog.ensure(tables, NoProgress()) == {}
    assert Counter(calls) == {
        "get_database": 1,
        "create_database": 1,
        "create_table": 100,
        "add_partitions_req": 100,
    }
    assert len(catalog.tables("web")) == 100


def test_nothing_new_makes_no_call(azure: Azure, hive: Metastore, tmp_path: Path) -> None:
    first, _, _ = small_sample(tmp_path / "raw")
    lake = azure.settings(metastore_url=hive.url)
    assert load([first], lake, keep_raw=True).status == "finished"
    calls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HiveCalls, "call", lambda _, name, *given, **options: calls.append(name))
        assert sync(lake).status == "nothing"
    assert calls == []


# A database alone


def start(database: MetastoreDatabase, **options: Any) -> HiveCatalog:
    root = "abfss://lake@events.dfs.core.windows.net"
    private = PrivateMetastore(database, root, "segment-data/databases", java_path, **options)
    return HiveCatalog(HiveCalls(private.addresses), root)


def test_a_database_that_is_down() -> None:
    url = f"jdbc:mysql://127.0.0.1:{free_port()}/hms"
    problem = refused(start(MetastoreDatabase.from_url(url, USER, Given())))
    assert isinstance(problem, Unavailable)
    assert "cannot use the metastore's database mysql://127.0.0.1:" in str(problem)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"secrets": Given("wrong")}, "does not accept metastore_user 'hive' with this password"),
        ({"secrets": Given("")}, "needs metastore_user, and METASTORE_PASSWORD"),
        ({"name": "hms_nowhere"}, "the server has no such database: create it"),
    ],
)
def test_a_setting_that_is_wrong(mariadb: MariaDb, change: dict[str, Any], message: str) -> None:
    problem = refused(start(replace(mariadb.database(mariadb.make_database()), **change)))
    assert isinstance(problem, InvalidSettings)
    assert message in str(problem)


def test_a_user_who_may_not_use_the_database(mariadb: MariaDb) -> None:
    problem = refused(start(mariadb.database("mysql")))
    assert isinstance(problem, InsufficientPermissions)
    assert "grant all privileges on mysql.* to hive" in str(problem)
    assert problem.grant == "GRANT ALL PRIVILEGES ON `mysql`.* TO 'hive'@'%'"


def test_a_database_of_something_else(mariadb: MariaDb) -> None:
    name = mariadb.make_database()
    mariadb.run("create table orders (id int)", database=name)
    assert "is not that of a Hive metastore" in str(refused(start(mariadb.database(name))))


def test_a_server_that_stores_names_in_lower_case() -> None:
    with started_mariadb("--lower-case-table-names=1") as server:
        problem = refused(start(server.database(server.make_database())))
    assert isinstance(problem, InvalidSettings)
    assert "has lower_case_table_names = 1, with which Hive does not find" in str(problem)


def test_a_schema_that_is_too_old(mariadb: MariaDb) -> None:
    name = mariadb.make_database()
    (archive,) = find_files("", [HIVE], java_path())
    mariadb.run(*read_statements(archive, ["hive-schema-1.2.0"]), database=name)
    message = str(refused(start(mariadb.database(name))))
    assert "has the schema 1.2.0: EventLake works with 2.3.0 and 3.1.0" in message


def test_a_schema_of_hive_3(mariadb: MariaDb) -> None:
    name = mariadb.make_database()
    (archive,) = find_files("", [HIVE], java_path())
    mariadb.run(*read_statements(archive, ["hive-schema-3.1.0"]), database=name)
    catalog = start(mariadb.database(name))
    register(catalog, TABLE.with_partitions([{"day": "2026-11-01"}]))
    assert catalog.table("web", "orders") == TABLE.with_partitions([{"day": "2026-11-01"}])
    assert mariadb.run("select SCHEMA_VERSION from VERSION", database=name) == [("3.1.0",)]


def test_a_killed_creation_of_the_schema_is_started_over(mariadb: MariaDb) -> None:
    name = mariadb.make_database()
    (archive,) = find_files("", [HIVE], java_path())
    some = list(read_statements(archive))[:60]
    mariadb.run(f"create table {CREATING} (id int)", *some, database=name)
    assert mariadb.database(name).ensure_schema(lambda: archive) == "2.3.0"
    tables = {row[0] for row in mariadb.run("show tables", database=name)}
    assert CREATING not in tables
    assert len(tables) == 57


def test_a_folder_without_the_files(mariadb: MariaDb, tmp_path: Path) -> None:
    problem = refused(start(mariadb.database(mariadb.make_database()), jars=str(tmp_path)))
    assert isinstance(problem, InvalidSettings)
    assert "it lacks hive-standalone-metastore-3.1.3-bin.tar.gz (org.apache.hive)" in str(problem)


@pytest.fixture
def server(private: PrivateMetastore) -> psutil.Process:
    """The JVM of the private metastore."""
    ((_, port),) = private.addresses()
    (jvm,) = [one for one in psutil.Process().children() if port in java_ports(one)]
    return jvm


def java_ports(process: psutil.Process) -> set[int]:
    """The ports on which a JVM listens; JVMs of earlier tests may end meanwhile."""
    try:
        if "java" not in process.name():
            return set()
        connections = process.net_connections()
    except psutil.NoSuchProcess:
        return set()
    return {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}


def test_the_private_server_shows_no_password_and_listens_on_loopback(
    server: psutil.Process,
) -> None:
    assert PASSWORD not in " ".join(server.cmdline())
    listening = [c.laddr.ip for c in server.net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


PROGRAM = """
import sys
from tests.azure.metastores import MariaDb
from tests.azure.test_metastore import start
from pathlib import Path
catalog = start(MariaDb(Path(sys.argv[1]), int(sys.argv[2])).database(sys.argv[3]))
print(catalog.databases(), flush=True)
sys.stdin.read()
"""


def test_the_private_server_ends_with_its_process(mariadb: MariaDb) -> None:
    given = [str(mariadb.folder), str(mariadb.port), mariadb.make_database()]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert b"default" in process.stdout.readline()
        (jvm,) = [one for one in psutil.Process(process.pid).children() if java_ports(one)]
        process.kill()
    until = time.monotonic() + 30
    while not has_ended(jvm):
        assert time.monotonic() < until
        time.sleep(0.1)


def has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_password_is_refused_in_settings(azure: Azure) -> None:
    for url in ("jdbc:mysql://h/db?password=x", "mysql://h/db?useSSL=true&user=x"):
        with pytest.raises(ValueError, match="without user and password"):
            azure.settings(metastore_url=url)
    with pytest.raises(ValueError, match="metastore_password is not a setting"):
        azure.settings(metastore_password="x")


def test_catalogs_of_a_lake_share_one_server(
    azure: Azure, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", PASSWORD)
    url = mariadb.url(mariadb.make_database())
    lake = azure.settings(metastore_url=url, metastore_user=USER)
    first, second = open_parts(lake).catalog, open_parts(lake).catalog
    assert isinstance(first, HiveCatalog)
    assert isinstance(second, HiveCatalog)
    assert first.calls.find_addresses() == second.calls.find_addresses()
