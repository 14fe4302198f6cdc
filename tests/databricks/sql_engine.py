"""Spark with Delta in a process of its own: reads statements as JSON lines, writes answers.

    python sql_engine.py FOLDER JAR,JAR,…

Started with a PySpark on PYTHONPATH that has a Delta build, and nothing of this checkout.
"""

import json
import sys
from typing import Any


def make_session(folder: str, jars: str) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": jars,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[1]").appName("warehouse")
    return builder.config(map=settings).getOrCreate()


def run(session: Any, asked: dict[str, Any]) -> dict[str, Any]:
    if "describe" in asked:
        return {"tables": [describe(session, name) for name in names(session, asked)]}
    found = session.sql(asked["sql"])
    rows = [[None if value is None else str(value) for value in row] for row in found.collect()]
    columns = [(one.name, one.dataType.simpleString()) for one in found.schema.fields]
    return {"rows": rows, "columns": columns}


def names(session: Any, asked: dict[str, Any]) -> list[str]:
    schema = asked["describe"]
    if asked.get("table"):
        return [f"{quoted(schema)}.{quoted(asked['table'])}"]
    rows = session.sql(f"SHOW TABLES IN spark_catalog.{quoted(schema)}").collect()
    return [f"{quoted(schema)}.{quoted(row.tableName)}" for row in rows]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def describe(session: Any, name: str) -> Any:
    """A table as `DESCRIBE … AS JSON` shows it, which Spark refuses for Delta tables."""
    try:
        (row,) = session.sql(f"DESCRIBE TABLE EXTENDED spark_catalog.{name} AS JSON").collect()
        return json.loads(row[0])
    except Exception as problem:
        if "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE" not in str(problem):
            raise
    (detail,) = session.sql(f"DESCRIBE DETAIL spark_catalog.{name}").collect()
    return {
        "table_name": name.partition("`.`")[2].removesuffix("`").replace("``", "`"),
        "columns": [
            {"name": one.name, "type": describe_type(one.dataType)}
            for one in session.table(f"spark_catalog.{name}").schema.fields
        ],
        "location": detail.location,
        "type": "EXTERNAL",
        "provider": "delta",
        "comment": detail.description,
        "table_properties": detail.properties,
        "partition_columns": detail.partitionColumns,
    }


def describe_type(kind: Any) -> dict[str, Any]:
    if kind.typeName() == "decimal":
        return {"name": "decimal", "precision": kind.precision, "scale": kind.scale}
    return {"name": kind.simpleString()}


def main(folder: str, jars: str) -> None:
    session = make_session(folder, jars)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        try:
            answer = run(session, json.loads(line))
        except Exception as problem:  # what Spark says is what the caller sees
            answer = {"error": str(problem).partition("\n\nJVM stacktrace")[0]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
