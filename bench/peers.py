"""What others do with the same files: `python -m bench.peers TOOL IN OUT` in a process of its own.

Each prints `seconds`, which begins when the tool is up, and `start_up` where that takes a while.
"""

import gzip
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

THREADS = 2
WORDS = "[A-Z0-9]+[a-z0-9]*|[a-z0-9]+"

# DuckDB's own default of a file's lines to look at. At a million events it finds every column that
# sample_size=-1 finds; a sample that turns out too small is answered by reading all lines.
SAMPLE_SIZE = 20_480


def duckdb_auto(source: Path, out: Path) -> dict[str, Any]:
    """DuckDB as it comes: `properties`, having too many keys, become a map of JSON texts."""
    return _duckdb(source, out, "")


def duckdb_typed(source: Path, out: Path) -> dict[str, Any]:
    """DuckDB with a typed column for every property, in one schema for all events."""
    return _duckdb(source, out, ", map_inference_threshold = -1")


def _duckdb(source: Path, out: Path, options: str) -> dict[str, Any]:
    import duckdb

    too_small = (duckdb.ConversionException, duckdb.InvalidInputException)
    with duckdb.connect() as base:
        base.execute(f"SET threads = {THREADS}; SET TimeZone = 'UTC'")
        try:
            return _timed_copy(base, source, out, f"sample_size = {SAMPLE_SIZE}{options}")
        except too_small:
            shutil.rmtree(out / "tables", ignore_errors=True)
            return _timed_copy(base, source, out, f"sample_size = -1{options}")


def _timed_copy(base: Any, source: Path, out: Path, options: str) -> dict[str, Any]:
    began = time.perf_counter()
    base.execute(_duckdb_copy(source, out / "tables", options))
    return {"seconds": time.perf_counter() - began, "options": options}


def _duckdb_copy(source: Path, out: Path, options: str) -> str:
    table = f"lower(array_to_string(regexp_extract_all(event, '{WORDS}'), '_'))"
    return f"""
        COPY (
            SELECT *,
                CASE type WHEN 'track' THEN {table} ELSE type END AS "table",
                strftime(receivedAt, '%Y-%m-%d') AS day,
                strftime(receivedAt, '%H') AS hr
            FROM read_json(
                '{source}/*.gz', format = 'newline_delimited', union_by_name = true,
                {options})
        ) TO '{out}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY ("table", day, hr))"""


def spark(source: Path, out: Path) -> dict[str, Any]:
    """Plain Spark: a pass to infer one schema, a pass to write."""
    began = time.perf_counter()
    session = _spark_session(out)
    start_up = time.perf_counter() - began
    events = session.read.json(f"{source}/*.gz")
    inferred = time.perf_counter() - began - start_up
    _with_partitions(events).write.partitionBy("table", "day", "hr").parquet(str(out / "tables"))
    seconds = time.perf_counter() - began - start_up
    session.stop()
    return {"start_up": start_up, "seconds": seconds, "inference": inferred}


def _spark_session(out: Path) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "localhost",
        "spark.local.dir": str(out / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(out / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName("bench").master("local[*]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _with_partitions(events: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    table = f"lower(array_join(regexp_extract_all(event, '({WORDS})', 1), '_'))"
    return events.withColumns(
        {
            "table": F.expr(f"CASE type WHEN 'track' THEN {table} ELSE type END"),
            "day": F.substring("receivedAt", 1, 10),
            "hr": F.substring("receivedAt", 12, 2),
        }
    )


def dlt(source: Path, out: Path) -> dict[str, Any]:
    """dlt's filesystem destination: a table per event, lists as tables of their own."""
    os.environ |= {
        "DLT_DATA_DIR": str(out / "state"),
        "NORMALIZE__WORKERS": str(THREADS),
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "RUNTIME__LOG_LEVEL": "ERROR",
    }
    import dlt as library

    began = time.perf_counter()
    pipeline = library.pipeline(
        "bench",
        destination=library.destinations.filesystem((out / "tables").as_uri()),
        dataset_name="bench",
        pipelines_dir=str(out / "pipelines"),
    )
    events = library.resource(_batches(source), name="events", table_name=_table)
    pipeline.run(events, loader_file_format="parquet").raise_on_failed_jobs()
    return {"seconds": time.perf_counter() - began}


def _batches(source: Path, size: int = 1000) -> Iterator[list[dict[str, Any]]]:
    from dlt.common import json as fast

    batch = []
    for path in sorted(source.glob("*.gz")):
        with gzip.open(path) as lines:
            for line in lines:
                batch.append(fast.loadb(line))
                if len(batch) == size:
                    yield batch
                    batch = []
    yield batch


def _table(event: dict[str, Any], _words: re.Pattern[str] = re.compile(WORDS)) -> str:
    call = event["type"]
    if call != "track":
        return str(call)
    return "_".join(_words.findall(event["event"])).lower()


PEERS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "duckdb": duckdb_auto,
    "duckdb_typed": duckdb_typed,
    "spark": spark,
    "dlt": dlt,
}


if __name__ == "__main__":
    tool, given, to = sys.argv[1:]
    print(json.dumps(PEERS[tool](Path(given), Path(to))))
