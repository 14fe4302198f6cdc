"""A Spark of one's own that reads `s3a://`, with its jars from a cache outside the project."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


def cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "eventlake-tests" / f"ivy-{HADOOP}-{SDK}"


@contextmanager
def spark(aws: Aws) -> Iterator[Any]:
    """A session that reads what is in an AWS."""
    from pyspark.sql import SparkSession

    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.xml").write_text(SETTINGS)
    builder = SparkSession.builder.master("local[2]").appName("another")
    for name, value in conf(aws, folder).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"the jars for s3a are not to be had: {problem}")
    try:
        yield session
    finally:
        session.stop()


def conf(aws: Aws, folder: Path) -> dict[str, str]:
    return {
        "spark.jars.ivy": str(folder),
        "spark.jars.ivySettings": str(folder / "settings.xml"),
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.jars.excludes": ",".join(LEFT_OUT),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.fs.s3a.endpoint": aws.url,
        "spark.hadoop.fs.s3a.endpoint.region": aws.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": "another",
        "spark.hadoop.fs.s3a.secret.key": "another",
    }
