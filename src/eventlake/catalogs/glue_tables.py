"""A table in Glue's own shape: what is written there, and what is read of what others wrote."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from eventlake.catalogs.glue_projection import ENABLED
from eventlake.errors import InvalidSettings
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DATA, partition_path
from eventlake.model.schema import Column
from eventlake.model.types import Type

Shape = dict[str, Any]
"""A table, partition or storage descriptor as boto3 gives and takes it."""

SOURCE = "eventlake.source"
"""The table parameter that keeps what Glue has no field for."""

_SERDES: Mapping[str, Mapping[str, str]] = {
    "parquet": {
        "input": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "output": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "serde": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    },
    # Of a list in a JSON line this serde gives the JSON text where the column is a string.
    "json": {
        "input": "org.apache.hadoop.mapred.TextInputFormat",
        "output": "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        "serde": "org.openx.data.jsonserde.JsonSerDe",
    },
}

_OURS = frozenset(map(str, Type))
_NEAREST: Mapping[str, Type] = {
    **{str(kind): kind for kind in Type},
    **dict.fromkeys(("tinyint", "smallint", "int", "integer"), Type.BIGINT),
    **dict.fromkeys(("decimal", "double", "float"), Type.DECIMAL),
}
"""Others' types as the nearest of ours; what is not here is a string."""


# To Glue


def table_input(root: str, table: CatalogTable) -> Shape:
    """A new table."""
    return {
        "Name": table.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {
            "EXTERNAL": "TRUE",
            "classification": table.format,
            # All sources share the table of the reports.
            **({SOURCE: table.source} if table.source and table.format != "json" else {}),
        },
        "PartitionKeys": [{"Name": name, "Type": "string"} for name in table.partition_columns],
        "StorageDescriptor": _storage(root, table),
    }


def _storage(root: str, table: CatalogTable) -> Shape:
    names = _SERDES[table.format]
    return {
        "Columns": [glue_column(column) for column in table.columns],
        "Location": location(root, table),
        "InputFormat": names["input"],
        "OutputFormat": names["output"],
        "Compressed": False,  # of the files as a whole; Parquet compresses within
        "NumberOfBuckets": -1,
        "SerdeInfo": {
            "SerializationLibrary": names["serde"],
            "Parameters": {"serialization.format": "1"},
        },
        "StoredAsSubDirectories": False,
    }


def glue_column(column: Column) -> Shape:
    return {"Name": column.name, "Type": str(column.type)}


def location(root: str, table: CatalogTable) -> str:
    return f"{root}/{table.location}/"


def partition_input(root: str, table: CatalogTable, known: Shape, values: Shape) -> Shape:
    """A new partition of a table that Glue knows; it reads as the table does."""
    place = partition_location(root, table, values)
    return {
        "Values": [values[name] for name in table.partition_columns],
        "StorageDescriptor": {**known["StorageDescriptor"], "Location": place},
    }


def partition_location(root: str, table: CatalogTable, values: Mapping[str, str]) -> str:
    return f"{location(root, table)}{_folder(table, values)}/"


def _folder(table: CatalogTable, values: Mapping[str, str]) -> str:
    if table.format == "json":  # reports lie by day first, and by the source's folder
        return partition_path({"day": values["day"], "source": table.source or values["source_id"]})
    return partition_path(values)


def lacking(known: Collection[Shape], wanted: Collection[Shape]) -> list[Shape]:
    """Those of the wanted columns that are not known, whatever their type or comment there."""
    names = {column["Name"].lower() for column in known}
    return [column for column in wanted if column["Name"].lower() not in names]


def grown(shape: Shape, columns: Sequence[Shape], takes: Collection[str]) -> Shape:
    """A table or partition with more columns at its end, and all else that an update takes."""
    more = {**shape.get("StorageDescriptor", {}), "Columns": [*columns_of(shape), *columns]}
    kept = {name: value for name, value in shape.items() if name in takes}
    return {**kept, "StorageDescriptor": more}


# From Glue


def below(root: str, shape: Shape) -> str | None:
    """Where a table lies below the root; None when it lies elsewhere, or nowhere as a view does."""
    place = re.sub(r"^s3[an]://", "s3://", shape.get("StorageDescriptor", {}).get("Location", ""))
    return place.removeprefix(f"{root}/").rstrip("/") if place.startswith(f"{root}/") else None


def catalog_table(root: str, shape: Shape) -> CatalogTable:
    """A table below the root, whoever made it, without its partitions."""
    storage, place = shape["StorageDescriptor"], below(root, shape) or ""
    return CatalogTable(
        database=shape["DatabaseName"],
        name=shape["Name"],
        source=shape.get("Parameters", {}).get(SOURCE) or _source(place),
        location=place,
        columns=tuple(map(_column, columns_of(shape))),
        partition_columns=partition_names(shape),
        format=_format(storage),
        projected=shape.get("Parameters", {}).get(ENABLED) == "true",
        foreign={
            column["Name"]: column.get("Type", "")
            for column in columns_of(shape)
            if _spelled(column) not in _OURS
        },
    )


def columns_of(shape: Shape) -> Sequence[Shape]:
    """A table's or partition's columns; what others made may have none."""
    return shape.get("StorageDescriptor", {}).get("Columns") or ()


def partition_names(shape: Shape) -> tuple[str, ...]:
    return tuple(key["Name"] for key in shape.get("PartitionKeys", ()))


def _source(place: str) -> str:
    """What a table that others made is of: the folder it lies in says so."""
    found = re.match(rf"{DATA}/([^/]+)/segment_type=", place)
    return found[1] if found else ""


def _column(shape: Shape) -> Column:
    kind = _spelled(shape)
    nearest = _NEAREST.get(kind) or _NEAREST.get(kind.partition("(")[0], Type.STRING)
    return Column(name=shape["Name"], type=nearest)


def _spelled(shape: Shape) -> str:
    return str(shape.get("Type", "")).lower().replace(" ", "")


def _format(storage: Shape) -> str:
    serde = storage.get("SerdeInfo", {}).get("SerializationLibrary", "").lower()
    return next((name for name in _SERDES if name in serde), "")


def check_same(root: str, table: CatalogTable, known: Shape) -> None:
    """Refuse to change a table that is another one of the same name."""
    full, place = f"{table.database}.{table.name}", location(root, table)
    # The reports of all lakes of an account are one table, whose partitions have own locations.
    if table.format != "json" and below(root, known) != table.location:
        there = known.get("StorageDescriptor", {}).get("Location") or "none"
        raise InvalidSettings(
            f"the Glue table {full} has the location {there}, not {place}: set another database or "
            "a table_prefix for this source, or drop that table and run `eventlake repair`"
        )
    if partition_names(known) != table.partition_columns:
        raise InvalidSettings(
            f"the Glue table {full} is partitioned by {', '.join(partition_names(known))}, and "
            f"date_partition asks for {', '.join(table.partition_columns)}: set the date_partition "
            "that the table has, or drop the table and load again"
        )
