"""Spark's own parameters of tables in a Hive metastore.

Spark reads the columns of tables that have them from there, and ignores those of the metastore.
Tables have them that were made by Spark or Databricks with `using parquet`, and our table of
reports: Spark does not bring the serde with which Hive reads JSON.
"""

import json
from collections.abc import Iterable
from typing import Any

from eventlake.catalogs.hive_types import is_own_type
from eventlake.model.catalog import CatalogTable

PROVIDER = "spark.sql.sources.provider"
SCHEMA = "spark.sql.sources.schema"
PARTS = f"{SCHEMA}.numParts"
PART_CHARACTERS = 4000
"""The length of a parameter in old metastores, for which Spark before 3.1 cuts the schema."""

_TYPES = {"bigint": "long"}
"""Spark's names of types in JSON, where they are others."""


def spark_parameters(table: CatalogTable) -> dict[str, str]:
    """Parameters with which Spark reads the JSON files of a new table."""
    columns = [(one.name.lower(), str(one.type)) for one in table.columns]
    columns += [(name, "string") for name in table.partition_columns]
    keys = {f"{SCHEMA}.partCol.{n}": name for n, name in enumerate(table.partition_columns)}
    return {
        PROVIDER: "json",
        "spark.sql.partitionProvider": "catalog",
        SCHEMA: _to_json(_field(name, kind) for name, kind in columns),
        f"{SCHEMA}.numPartCols": str(len(keys)),
        **keys,
    }


def update_spark_schema(entry: Any) -> None:
    """Give Spark's parameters of a registered table, if it has them, the table's columns.

    Columns of types that EventLake does not use keep the types that Spark has for them.
    """
    if PROVIDER not in entry.parameters:
        return
    known = {field["name"].lower(): field for field in _read_fields(entry.parameters)}
    fields = []
    for column in (*entry.sd.cols, *(entry.partitionKeys or ())):
        field = known.get(column.name.lower()) or _field(column.name, column.type)
        if is_own_type(column.type):
            field = {**field, "type": _TYPES.get(column.type, column.type)}
        fields.append(field)
    _write_schema(entry.parameters, _to_json(fields))


def _field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": _TYPES.get(kind, kind), "nullable": True, "metadata": {}}


def _to_json(fields: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def _read_fields(parameters: dict[str, str]) -> list[dict[str, Any]]:
    text = parameters.get(SCHEMA) or "".join(
        parameters.get(f"{SCHEMA}.part.{number}", "")
        for number in range(int(parameters.get(PARTS, 0)))
    )
    fields: list[dict[str, Any]] = json.loads(text)["fields"] if text else []
    return fields


def _write_schema(parameters: dict[str, str], text: str) -> None:
    """Write a schema in the form in which the table has it, whole or in parts."""
    if PARTS not in parameters:
        parameters[SCHEMA] = text
        return
    parts = [text[at : at + PART_CHARACTERS] for at in range(0, len(text), PART_CHARACTERS)]
    parameters[PARTS] = str(len(parts))
    parameters |= {f"{SCHEMA}.part.{number}": part for number, part in enumerate(parts)}
