"""Hive metastores on this machine: a MariaDB, Hive's own servers, and the private one.

MariaDB is a Debian package (mariadb-server-core, mariadb-client-core); Hive is downloaded once.
"""

import os
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pymysql
import pytest

from eventlake.catalogs.hive import HiveCatalog
from eventlake.catalogs.hive_calls import Address, HiveCalls
from eventlake.catalogs.maven import Artifact, find_files, spark_jars
from eventlake.catalogs.metastore_database import MetastoreDatabase, read_statements
from eventlake.catalogs.private_metastore import DRIVER, HIVE, PrivateMetastore
from eventlake.errors import Unavailable
from eventlake.runners.java import find_java
from tests.aws.moto import free_port
from tests.azure.azurite import ACCOUNT, KEY, Azure
from tests.processes import end_session

USER, PASSWORD = "hive", "a password that nobody may see"
PATIENCE = 120.0
MAIN = "org.apache.hadoop.hive.metastore"
HIVE_4 = Artifact("org.apache.hive", "hive-standalone-metastore-server", "4.0.1", "bin", "tar.gz")
COMMONS = (
    Artifact("commons-cli", "commons-cli", "1.2"),
    Artifact("commons-collections", "commons-collections", "3.2.2"),
    Artifact("commons-io", "commons-io", "2.11.0"),
    Artifact("commons-logging", "commons-logging", "1.2"),
    Artifact("org.slf4j", "slf4j-api", "1.7.36"),
)
FOR_HIVE_4 = (
    Artifact("javax.servlet", "javax.servlet-api", "3.1.0"),
    Artifact("org.apache.httpcomponents", "httpclient", "4.5.13"),
    Artifact("org.apache.httpcomponents", "httpcore", "4.4.13"),
    Artifact("com.google.code.gson", "gson", "2.9.0"),
    Artifact("org.apache.hadoop", "hadoop-hdfs", "3.5.0"),
)
HADOOP_AZURE = (
    Artifact("org.apache.hadoop", "hadoop-azure", "3.5.0"),
    Artifact("com.microsoft.azure", "azure-keyvault-core", "1.0.0"),
    Artifact("com.microsoft.azure", "azure-storage", "7.0.1"),
    Artifact("commons-codec", "commons-codec", "1.11"),
    Artifact("commons-logging", "commons-logging", "1.2"),
    Artifact("org.apache.hadoop.thirdparty", "hadoop-shaded-guava", "1.5.0"),
    Artifact("org.apache.httpcomponents", "httpclient", "4.5.13"),
    Artifact("org.apache.httpcomponents", "httpcore", "4.4.13"),
    Artifact("org.hdrhistogram", "HdrHistogram", "2.1.12"),
    Artifact("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
)


def java_path() -> str:
    return find_java().path


def without(what: str, reason: object) -> None:
    """Skip a user's test, and fail one of CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is needed in CI: {reason}")
    pytest.skip(f"{what} cannot be had here: {reason}")


def downloaded(*artifacts: Artifact) -> list[Path]:
    try:
        return find_files("", artifacts, java_path())
    except Unavailable as problem:
        without("Hive", problem)
        raise


def download_hive() -> None:
    """Download all that the servers need."""
    downloaded(DRIVER, HIVE, HIVE_4, *COMMONS, *FOR_HIVE_4, *HADOOP_AZURE)


def abfs_settings(url: str) -> dict[str, str]:
    """Hadoop's settings with which a JVM reads and writes abfss:// on Azurite."""
    return {
        "fs.azure.abfs.endpoint": url.removeprefix("http://"),
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        f"fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net": KEY,
        f"fs.azure.account.key.{ACCOUNT}.blob.core.windows.net": KEY,
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.always.use.https": "false",
        "fs.abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    }


# MariaDB


@dataclass(frozen=True)
class MariaDb:
    """A database server; `hive` may do everything in databases whose names begin with `hms`."""

    folder: Path
    port: int

    def run(self, *statements: str, database: str = "") -> list[tuple[Any, ...]]:
        """The rows of the last of the administrator's statements."""
        socket = str(self.folder / "sock")
        with (
            closing(
                pymysql.connect(unix_socket=socket, user="root", autocommit=True)
            ) as connection,
            connection.cursor() as cursor,
        ):
            if database:
                cursor.execute(f"use {database}")
            for sql in statements:
                cursor.execute(sql)
            return list(cursor.fetchall())

    def make_database(self) -> str:
        name = f"hms{secrets.token_hex(4)}"
        self.run(f"create database {name} character set latin1")
        return name

    def url(self, name: str) -> str:
        return f"jdbc:mysql://127.0.0.1:{self.port}/{name}"

    def database(self, name: str) -> MetastoreDatabase:
        return MetastoreDatabase.from_url(self.url(name), USER, Given())


@dataclass(frozen=True)
class Given:
    """Secrets of a test."""

    password: str = PASSWORD

    def get(self, name: str) -> str | None:
        return {"metastore_password": self.password, "account_key": KEY}.get(name)


@contextmanager
def started_mariadb(*options: str) -> Iterator[MariaDb]:
    if not (shutil.which("mariadbd") and shutil.which("mariadb-install-db")):
        without("MariaDB", "install mariadb-server-core and mariadb-client-core")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as new:
        folder, port = Path(new), free_port()
        common = ("--no-defaults", f"--datadir={folder}/data", f"--user={_user()}")
        install = ("--auth-root-authentication-method=normal", "--skip-test-db")
        subprocess.run(["mariadb-install-db", *common, *install], check=True, capture_output=True)
        small = ("--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0")
        off = ("--skip-log-bin", "--performance-schema=OFF")
        place = (f"--socket={folder}/sock", f"--port={port}", "--bind-address=127.0.0.1")
        with running(["mariadbd", *common, *place, *small, *off, *options], folder / "log"):
            server = MariaDb(folder, port)
            wait_until_answers((folder / "sock").stat, folder / "log")
            server.run(f"create user {USER}@'127.0.0.1' identified by '{PASSWORD}'")
            server.run(f"grant all on `hms%`.* to {USER}@'127.0.0.1'")
            yield server


def _user() -> str:
    return os.environ.get("USER") or "root"


@contextmanager
def running(command: list[str], log: Path, **given: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a session of its own, which is ended by its id."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **given,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        end_session(process.pid, grace=0.0)


def wait_until_answers(ask: Any, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            ask()
        except Exception as problem:
            if time.monotonic() > until:
                raise AssertionError(log.read_text(errors="replace")[-4000:]) from problem
            time.sleep(0.1)
        else:
            return


# Servers of Hive


@dataclass(frozen=True)
class Metastore:
    """A metastore that answers at an address, for the product and for others."""

    address: Address

    @property
    def url(self) -> str:
        return f"thrift://{self.address[0]}:{self.address[1]}"

    @property
    def calls(self) -> HiveCalls:
        return HiveCalls(lambda: [self.address])

    def catalog(self, root: str) -> HiveCatalog:
        return HiveCatalog(self.calls, root)

    def empty(self) -> None:
        """Drop all databases but the default one; files stay."""
        calls = self.calls
        for name in calls.call("get_all_databases"):
            if name != "default":
                calls.call("drop_database", name, False, True)


def write_site(path: Path, properties: Mapping[str, str]) -> None:
    each = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    path.write_text(f"<configuration>{''.join(each)}</configuration>")


@contextmanager
def started_hive(database: MariaDb, azurite_url: str, archive: Artifact) -> Iterator[Metastore]:
    """A metastore server of Hive, which can reach Azurite."""
    is_4 = archive.version.startswith("4")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as new:
        folder, port, name = Path(new), free_port(), database.make_database()
        home = _unpack(archive)
        write_site(folder / "core-site.xml", abfs_settings(azurite_url))
        write_site(folder / "metastore-site.xml", _site(database, name, port, folder))
        own = [one for one in (home / "lib").glob("*.jar") if "mysql" not in one.name]
        more = downloaded(DRIVER, *COMMONS, *HADOOP_AZURE, *(FOR_HIVE_4 if is_4 else ()))
        hadoop = sorted(spark_jars().glob("hadoop-client-*.jar"))
        paths = ":".join(map(str, [folder, *sorted(own), *hadoop, *dict.fromkeys(more)]))
        java = [java_path(), "-Xmx512m", "-XX:+UseSerialGC", "-cp", paths]
        env = {**os.environ, "METASTORE_HOME": str(home)}
        (packed,) = downloaded(archive)
        schema = f"hive-schema-{'4.0.0' if is_4 else '3.1.0'}"
        database.run(*read_statements(packed, [schema]), database=name)
        server = [*java, f"{MAIN}.HiveMetaStore", "-p", str(port)]
        with running(server, folder / "log", env=env):
            metastore = Metastore(("127.0.0.1", port))
            calls = metastore.calls
            wait_until_answers(lambda: calls.call("get_all_databases"), folder / "log")
            yield metastore


def _site(database: MariaDb, name: str, port: int, folder: Path) -> dict[str, str]:
    jdbc = f"jdbc:mariadb://127.0.0.1:{database.port}/{name}?useMysqlMetadata=true"
    return {
        "javax.jdo.option.ConnectionURL": jdbc,
        "javax.jdo.option.ConnectionDriverName": "org.mariadb.jdbc.Driver",
        "javax.jdo.option.ConnectionUserName": USER,
        "javax.jdo.option.ConnectionPassword": PASSWORD,
        "metastore.thrift.uris": f"thrift://127.0.0.1:{port}",
        "metastore.warehouse.dir": f"file:{folder}/warehouse",
        "metastore.expression.proxy": f"{MAIN}.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": f"{MAIN}.events.EventCleanerTask",
        "metastore.schema.verification": "true",
        "datanucleus.connectionPool.maxPoolSize": "8",
    }


def _unpack(archive: Artifact) -> Path:
    (packed,) = downloaded(archive)
    folder = packed.with_suffix(".unpacked")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=packed.parent) as new:
            with tarfile.open(packed) as files:
                files.extractall(new, filter="data")
            try:
                Path(new, "x").symlink_to(next(Path(new).iterdir()).name)
                Path(new).rename(folder)
                Path(new).mkdir()
            except OSError:  # another run was first
                assert folder.is_dir()
    return (folder / "x").resolve()


# Fixtures: each server is one for all tests of a process

_MARIADB = pytest.StashKey[MariaDb]()
_HIVE = pytest.StashKey[dict[str, Metastore]]()


def _keep(config: pytest.Config, context: Any) -> Any:
    """Enter a context until the tests end; what is entered last ends first."""
    until_the_end = ExitStack()
    config.add_cleanup(until_the_end.close)
    return until_the_end.enter_context(context)


@pytest.fixture
def mariadb(request: pytest.FixtureRequest) -> MariaDb:
    config = request.config
    if _MARIADB not in config.stash:
        config.stash[_MARIADB] = _keep(config, started_mariadb())
    return config.stash[_MARIADB]


def _server(request: pytest.FixtureRequest, archive: Artifact) -> Metastore:
    mariadb: MariaDb = request.getfixturevalue("mariadb")
    azure: Azure = request.getfixturevalue("azure")
    servers = request.config.stash.setdefault(_HIVE, {})
    if archive.version not in servers:
        context = started_hive(mariadb, azure.url, archive)
        servers[archive.version] = _keep(request.config, context)
    servers[archive.version].empty()
    return servers[archive.version]


@pytest.fixture
def hive(request: pytest.FixtureRequest) -> Metastore:
    """A server of Hive 3.1 without databases, which can reach the tests' Azurite."""
    return _server(request, HIVE)


@pytest.fixture
def hive_4(request: pytest.FixtureRequest) -> Metastore:
    """The same of Hive 4.0."""
    return _server(request, HIVE_4)


_PRIVATE = pytest.StashKey[PrivateMetastore]()


@pytest.fixture
def private(request: pytest.FixtureRequest, mariadb: MariaDb) -> PrivateMetastore:
    """A private metastore without databases of a lake at `abfss://lake@eventsaccount…`."""
    stash = request.config.stash
    if _PRIVATE not in stash:
        database = mariadb.database(mariadb.make_database())
        root = f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"
        stash[_PRIVATE] = PrivateMetastore(database, root, "segment-data/databases", java_path)
    ((host, port),) = stash[_PRIVATE].addresses()
    Metastore((host, port)).empty()
    return stash[_PRIVATE]
