"""A Spark of one's own that reads `s3a://`, in a process of its own: a JVM has one set of jars.

    python -m tests.aws.engine <tables as JSON: name, schema, location> <Spark's settings as JSON>

prints the number of whole rows of each table as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.aws.moto import Aws

HADOOP, SDK = "3.5.0", "2.35.4"
# Hadoop asks for a bundle of every AWS service, half a gigabyte; these are what S3 takes.
PACKAGES = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3:{SDK}",
    f"software.amazon.awssdk:s3-transfer-manager:{SDK}",
    f"software.amazon.awssdk:sts:{SDK}",
    f"software.amazon.awssdk:url-connection-client:{SDK}",
)
LEFT_OUT = ("software.amazon.awssdk:bundle", "org.apache.hadoop:hadoop-common")
# Spark's own list of repositories has one more, which is not asked.
SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
PATIENCE = 400
"""Seconds, for fetching the jars the first time."""
NO_JARS = 3


def count_rows(aws: Aws, tables: list[dict[str, str]]) -> dict[str, int]:
    """The rows of tables, each with a schema and a location, as another Spark finds them."""
    command = [sys.executable, "-m", "tests.aws.engine", json.dumps(tables), json.dumps(conf(aws))]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=aws.environ
    )
    if done.returncode == NO_JARS and os.environ.get("CI") != "true":
        pytest.skip("the jars with which Spark reads s3a are not to be had here")
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def conf(aws: Aws) -> dict[str, str]:
    folder = cache()
    return {
        "spark.jars.ivy": str(folder),
        "spark.jars.ivySettings": str(folder / "settings.xml"),
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.jars.excludes": ",".join(LEFT_OUT),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.fs.s3a.endpoint": aws.url,
        "spark.hadoop.fs.s3a.endpoint.region": aws.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": "another",
        "spark.hadoop.fs.s3a.secret.key": "another",
    }


def cache() -> Path:
    """A folder of the user's that outlives the tests, with where jars come from."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "eventlake-tests" / f"ivy-{HADOOP}-{SDK}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.xml").write_text(SETTINGS)
    return folder


def main(tables: list[dict[str, str]], given: dict[str, str]) -> int:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("another")
    for name, value in given.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as problem:
        sys.stderr.write(f"{problem}\n")
        return NO_JARS
    found = {table["name"]: _whole_rows(session, table) for table in tables}
    session.stop()
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


def _whole_rows(session: Any, table: dict[str, str]) -> int:
    """Every column is read in the type that the catalog has for it."""
    frame = session.read.schema(table["schema"]).parquet(table["location"])
    return len([row for row in frame.collect() if row["id"] and row["received_at"]])


if __name__ == "__main__":
    sys.exit(main(*map(json.loads, sys.argv[1:])))
