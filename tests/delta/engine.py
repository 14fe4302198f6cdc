"""Readers of Delta tables that are not ours, each in a process with packages of its own.

    python -m tests.delta.engine spark|duckdb <job>

runs the statements in the JSON file `<job>`, and writes the rows of each, or its error, beside it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PATIENCE = 900.0
# A JVM that lives for seconds is not worth optimising.
SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

Rows = list[dict[str, Any]]


def run_on_spark(statements: Sequence[str], settings: dict[str, str] | None = None) -> list[Any]:
    """Run statements on a Spark with Delta; return the rows of each, or the text of its error."""
    from tests.delta_env import spark_with_delta

    spark = spark_with_delta()
    job = {"statements": statements, "settings": spark.settings | (settings or {})}
    return _run("spark", job, spark.packages)


def run_on_duckdb(statements: Sequence[str]) -> list[Any]:
    """Run statements on a DuckDB with the delta extension, as `run_on_spark`."""
    from tests.delta_env import duckdb_with_delta

    return _run("duckdb", {"statements": statements}, duckdb_with_delta())


def _run(engine: str, job: dict[str, Any], packages: Path) -> list[Any]:
    with TemporaryDirectory(prefix="engine-") as folder:
        given = Path(folder) / "job"
        given.write_text(json.dumps(job))
        done = subprocess.run(
            [sys.executable, "-m", "tests.delta.engine", engine, str(given)],
            env={
                **os.environ,
                **SHORT_LIVED,
                "PYTHONPATH": str(packages),
                "TZ": "UTC",
                "HOME": folder,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        results = given.with_suffix(".out")
        assert results.exists(), done.stderr[-4000:]
        found: list[Any] = json.loads(results.read_text())
    return found


def plain(value: Any) -> Any:
    """A value as JSON can hold it, the same for all readers."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return value


def normalize(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The rows as sorted text, without nulls: a table need not have all columns."""
    texts = ({k: plain(v) for k, v in row.items() if v is not None} for row in rows)
    return sorted(json.dumps(row, sort_keys=True) for row in texts)


# In the process of the engine


def main(engine: str, job: Path) -> None:
    given = json.loads(job.read_text())
    run = _spark(given["settings"]) if engine == "spark" else _duckdb()
    results = [_answer(run, statement) for statement in given["statements"]]
    part = job.with_suffix(".part")
    part.write_text(json.dumps(results))
    part.rename(job.with_suffix(".out"))


def _answer(run: Callable[[str], Rows], statement: str) -> Any:
    try:
        return [{k: plain(v) for k, v in row.items()} for row in run(statement)]
    except Exception as problem:
        return str(problem)


def _spark(settings: dict[str, str]) -> Callable[[str], Rows]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("another")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    return lambda sql: [row.asDict() for row in session.sql(sql).collect()]


def _duckdb() -> Callable[[str], Rows]:
    import duckdb
    import duckdb_extensions

    duckdb_extensions.import_extension("delta")
    connection = duckdb.connect()
    connection.execute("load delta")
    connection.execute("set timezone = 'UTC'")

    def run(sql: str) -> Rows:
        connection.execute(sql)
        names = [column[0] for column in connection.description]
        return [dict(zip(names, row, strict=True)) for row in connection.fetchall()]

    return run


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
