"""Another Spark, which knows a metastore and how to read abfss://, and nothing of EventLake.

    python -m tests.azure.engine SETTINGS TABLES

prints the rows of tables as JSON: for each, how many there are and the texts of all their values.
"""

import json
import subprocess
import sys
from typing import Any

from tests.azure.azurite import Azure
from tests.azure.metastores import HADOOP_AZURE, Metastore, abfs_settings, downloaded

PATIENCE = 300
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "hive",
}


def read_tables(azure: Azure, metastore: Metastore, tables: list[str]) -> dict[str, list[str]]:
    """The rows of tables as another Spark finds them by SQL."""
    hadoop = {**abfs_settings(azure.url), "hive.metastore.uris": metastore.url}
    settings = {
        **QUIET,
        "spark.jars": ",".join(map(str, downloaded(*HADOOP_AZURE))),
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
    }
    command = [sys.executable, "-m", "tests.azure.engine", json.dumps(settings), json.dumps(tables)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=azure.environ
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(settings: dict[str, str], tables: list[str]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("another")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    found = {name: rows_of(session.table(name).collect()) for name in tables}
    session.stop()
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def rows_of(rows: Any) -> list[str]:
    """Rows as sorted texts, which do not depend on the order of the columns."""
    dicts = (row if isinstance(row, dict) else row.asDict() for row in rows)
    return sorted(
        json.dumps({name: _text(value) for name, value in one.items()}, sort_keys=True)
        for one in dicts
    )


def _text(value: Any) -> str | None:
    """A value's text; times are in UTC, in Spark without saying so, and lists in any spacing."""
    if isinstance(value, str) and value.startswith("[{"):
        return json.dumps(json.loads(value))
    if hasattr(value, "isoformat"):
        return str(value.replace(tzinfo=None).isoformat())
    return None if value is None else str(value)


if __name__ == "__main__":
    main(*map(json.loads, sys.argv[1:]))
