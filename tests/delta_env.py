"""Delta readers that are not ours, each in a process of its own: Spark with Delta, and DuckDB.

Neither works with the releases that EventLake runs on, so both have packages of their own in the
cache: `spark_with_delta` and `duckdb_with_delta` return folders for PYTHONPATH.
"""

from dataclasses import dataclass
from pathlib import Path

from eventlake.catalogs.maven import Artifact, find_files
from eventlake.errors import Unavailable
from eventlake.runners.java import find_java
from tests.downloads import cached, pip_install, spark_release

SPARK, DELTA, DUCKDB = "4.2.1", "4.4.0", "1.5.5"
"""Delta 4.4.0 has no build for Spark 4.3, and DuckDB 2.0 no delta extension."""
JARS = tuple(
    Artifact("io.delta", name, DELTA)
    for name in (
        "delta-spark_4.2_2.13",
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    )
)


@dataclass(frozen=True)
class SparkWithDelta:
    """A PySpark that has Delta: the folder to put first on PYTHONPATH, and its jars."""

    packages: Path
    jars: tuple[Path, ...]

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a session that reads and writes Delta tables."""
        return {
            "spark.jars": ",".join(map(str, self.jars)),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # By default each query starts 50 tasks to read a log.
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }


def spark_with_delta() -> SparkWithDelta:
    """The Spark that delta-spark has a build for, and Delta's jars; downloaded once, 460 MB.

    Skips the test if they cannot be downloaded, or fails it if the environment has `CI=true`.
    """
    jars = cached(f"Delta {DELTA}", f"delta-{DELTA}", _copy_jars)
    return SparkWithDelta(spark_release(SPARK), tuple(sorted(jars.glob("*.jar"))))


def duckdb_with_delta() -> Path:
    """A folder for PYTHONPATH with a DuckDB and its delta extension; downloaded once, 330 MB."""
    names = ("duckdb", "duckdb-extensions", "duckdb-extension-delta")
    wanted = [f"{name}=={DUCKDB}" for name in names]
    return cached(f"DuckDB {DUCKDB}", f"duckdb-{DUCKDB}", lambda new: pip_install(new, *wanted))


def _copy_jars(folder: Path) -> None:
    try:
        for jar in find_files("", JARS, find_java().path):
            (folder / jar.name).write_bytes(jar.read_bytes())
    except Unavailable as problem:
        raise OSError(str(problem)) from problem
