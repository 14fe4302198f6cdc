"""Conversion of tables to and from Glue's structures, also of tables that others created."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from eventlake.catalogs.glue_projection import ENABLED
from eventlake.catalogs.hive_types import (
    FORMATS,
    format_parameters,
    is_own_type,
    parse_column,
    parse_format,
    parse_partition_columns,
    partition_folder,
    partition_keys,
    registered_columns,
)
from eventlake.errors import InvalidSettings
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column

Shape = dict[str, Any]
"""A table, partition or storage descriptor of boto3."""

SOURCE = "eventlake.source"
"""The table parameter with the source's id."""

# To Glue


def table_input(root: str, table: CatalogTable) -> Shape:
    """The TableInput of a new table."""
    return {
        "Name": table.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {
            "EXTERNAL": "TRUE",
            "classification": table.format,
            # All sources share the table of reports.
            **({SOURCE: table.source} if table.source and table.format != "json" else {}),
            **format_parameters(table),
        },
        "PartitionKeys": [{"Name": name, "Type": "string"} for name in partition_keys(table)],
        "StorageDescriptor": _storage(root, table),
    }


def _storage(root: str, table: CatalogTable) -> Shape:
    classes = FORMATS[table.format]
    return {
        "Columns": [glue_column(column) for column in registered_columns(table)],
        "Location": location(root, table),
        "InputFormat": classes.input,
        "OutputFormat": classes.output,
        "Compressed": False,  # Parquet is compressed inside the file
        "NumberOfBuckets": -1,
        "SerdeInfo": {
            "SerializationLibrary": classes.serde,
            "Parameters": {"serialization.format": "1", **_serde_parameters(root, table)},
        },
        "StoredAsSubDirectories": False,
    }


def _serde_parameters(root: str, table: CatalogTable) -> Shape:
    return {"path": location(root, table)} if table.format == "delta" else {}


def glue_column(column: Column) -> Shape:
    return {"Name": column.name, "Type": str(column.type)}


def location(root: str, table: CatalogTable) -> str:
    return f"{root}/{table.location}/"


def partition_input(root: str, table: CatalogTable, registered: Shape, values: Shape) -> Shape:
    """The PartitionInput of a new partition, with the registered table's storage descriptor."""
    folder = partition_location(root, table, values)
    return {
        "Values": [values[name] for name in table.partition_columns],
        "StorageDescriptor": {**registered["StorageDescriptor"], "Location": folder},
    }


def partition_location(root: str, table: CatalogTable, values: Mapping[str, str]) -> str:
    return f"{location(root, table)}{partition_folder(table, values)}/"


def partition_range(table: CatalogTable, inputs: Sequence[Shape]) -> str:
    """The filter expression of the partitions from the first to the last of `inputs`."""
    keys = zip(
        table.partition_columns, zip(*(one["Values"] for one in inputs), strict=True), strict=True
    )
    return " AND ".join(f"{key} >= '{min(v)}' AND {key} <= '{max(v)}'" for key, v in keys)


def missing_columns(current: Collection[Shape], wanted: Collection[Shape]) -> list[Shape]:
    """Those of the wanted columns whose names are not among the current ones."""
    names = {column["Name"].lower() for column in current}
    return [column for column in wanted if column["Name"].lower() not in names]


def add_columns(shape: Shape, columns: Sequence[Shape], writable: Collection[str]) -> Shape:
    """The update of a table or partition that appends columns; `writable` are its other fields."""
    storage = {**shape.get("StorageDescriptor", {}), "Columns": [*columns_of(shape), *columns]}
    kept = {name: value for name, value in shape.items() if name in writable}
    return {**kept, "StorageDescriptor": storage}


def set_types(shape: Shape, columns: Sequence[Shape], writable: Collection[str]) -> Shape | None:
    """The update of a table or partition to the types of `columns`; None if it has these."""
    types = {column["Name"].lower(): column["Type"] for column in columns}
    before = columns_of(shape)
    after = [{**one, "Type": types.get(one["Name"].lower(), one.get("Type"))} for one in before]
    if after == list(before):
        return None
    kept = {name: value for name, value in shape.items() if name in writable}
    return {**kept, "StorageDescriptor": {**shape["StorageDescriptor"], "Columns": after}}


# From Glue


def path_below(root: str, shape: Shape) -> str | None:
    """A table's location relative to the root; None if it is elsewhere or, as for a view, unset."""
    place = re.sub(r"^s3[an]://", "s3://", shape.get("StorageDescriptor", {}).get("Location", ""))
    return place.removeprefix(f"{root}/").rstrip("/") if place.startswith(f"{root}/") else None


def catalog_table(root: str, shape: Shape) -> CatalogTable:
    """A Glue table below the root, without its partitions; also one that others created."""
    storage, place = shape["StorageDescriptor"], path_below(root, shape) or ""
    parameters, keys = shape.get("Parameters", {}), partition_names(shape)
    return CatalogTable(
        database=shape["DatabaseName"],
        name=shape["Name"],
        source=parameters.get(SOURCE, ""),
        location=place,
        columns=tuple(_column(one) for one in columns_of(shape) if one["Name"] not in keys),
        partition_columns=keys,
        format=parse_format(
            storage.get("SerdeInfo", {}).get("SerializationLibrary", ""), parameters
        ),
        projected=shape.get("Parameters", {}).get(ENABLED) == "true",
        foreign={
            column["Name"]: column.get("Type", "")
            for column in columns_of(shape)
            if not is_own_type(column.get("Type", ""))
        },
    )


def columns_of(shape: Shape) -> Sequence[Shape]:
    """The columns of a table or partition; those of others may have none."""
    return shape.get("StorageDescriptor", {}).get("Columns") or ()


def partition_names(shape: Shape) -> tuple[str, ...]:
    keys = [key["Name"] for key in shape.get("PartitionKeys", ())]
    return parse_partition_columns(keys, shape.get("Parameters", {}))


def _column(shape: Shape) -> Column:
    return parse_column(shape["Name"], shape.get("Type", ""))


def check_same(root: str, table: CatalogTable, registered: Shape) -> None:
    """Raise InvalidSettings if the registered table has another location or other partitions."""
    full, place = table.full_name, location(root, table)
    # All lakes of an account share the table of reports; its partitions have their own locations.
    if table.format != "json" and path_below(root, registered) != table.location:
        current = registered.get("StorageDescriptor", {}).get("Location") or "none"
        raise InvalidSettings(
            f"the Glue table {full} has the location {current}, not {place}: set another database "
            "or a table_prefix for this source, or drop that table and run `eventlake repair`"
        )
    if partition_names(registered) != table.partition_columns:
        raise InvalidSettings(
            f"the Glue table {full} is partitioned by {', '.join(partition_names(registered))}, "
            f"and date_partition asks for {', '.join(table.partition_columns)}: set the "
            "date_partition that the table has, or drop the table and load again"
        )


def check_locations(
    table: CatalogTable, inputs: Iterable[Shape], registered: Iterable[Shape]
) -> None:
    """Raise InvalidSettings if a registered partition of the reports is that of another lake.

    The keys of the table are only source and day, so they cannot tell the two apart.
    """
    wanted = {tuple(one["Values"]): one["StorageDescriptor"]["Location"] for one in inputs}
    for one in registered:
        place = one["StorageDescriptor"]["Location"]
        if wanted.get(tuple(one["Values"]), place).rstrip("/") != place.rstrip("/"):
            source, day = one["Values"]
            raise InvalidSettings(
                f"{table.full_name} has the reports of the source {source} of {day} in another "
                f"lake ({place}): sources of lakes that share a Glue catalog need different ids "
                "(--source-id); `eventlake reports` and `eventlake query` show this lake's own"
            )
