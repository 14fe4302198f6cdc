"""Conversion of tables to and from the structures of a Hive metastore."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from hive_metastore.ttypes import (
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)

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
from eventlake.catalogs.spark_schema import spark_parameters
from eventlake.errors import InvalidSettings
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import partition_path
from eventlake.model.schema import Column

SOURCE = "eventlake.source"
"""The table parameter with the source's id."""
VERSION = "eventlake.version"
"""The table parameter that counts our changes."""

_OLD_SCHEMES = r"^(?:abfs|wasbs?)://([^/.]+)\.(?:dfs|blob)\."

# To Hive


def make_table(root: str, table: CatalogTable) -> Any:
    """The metastore's structure of a new table."""
    classes = FORMATS[table.format]
    place = location(root, table)
    return Table(
        dbName=table.database,
        tableName=table.name,
        tableType="EXTERNAL_TABLE",
        partitionKeys=[_field(name, "string") for name in partition_keys(table)],
        parameters={
            "EXTERNAL": "TRUE",
            VERSION: "0",
            **_own_parameters(table),
        },
        sd=StorageDescriptor(
            cols=list(map(make_column, registered_columns(table))),
            location=place,
            inputFormat=classes.input,
            outputFormat=classes.output,
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo(
                serializationLib=classes.serde,
                parameters={"serialization.format": "1", **_serde_parameters(table, place)},
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )


def _serde_parameters(table: CatalogTable, place: str) -> dict[str, str]:
    return {} if table.format == "parquet" else {"path": place}


def _own_parameters(table: CatalogTable) -> dict[str, str]:
    if table.format == "json":  # all sources share the table of reports
        return spark_parameters(table)
    return {**({SOURCE: table.source} if table.source else {}), **format_parameters(table)}


def make_column(column: Column) -> Any:
    return _field(column.name.lower(), str(column.type))


def _field(name: str, kind: str) -> Any:
    return FieldSchema(name=name, type=kind, comment="")


def location(root: str, table: CatalogTable) -> str:
    return f"{root}/{table.location}"


def partition_location(root: str, table: CatalogTable, values: Mapping[str, str]) -> str:
    return f"{location(root, table)}/{partition_folder(table, values)}"


def make_partition(root: str, table: CatalogTable, entry: Any, values: Mapping[str, str]) -> Any:
    """A new partition, with the registered table's columns and classes."""
    storage = copy(entry.sd)
    storage.location = partition_location(root, table, values)
    return Partition(
        values=[values[name] for name in table.partition_columns],
        dbName=table.database,
        tableName=table.name,
        sd=storage,
        parameters={},
    )


def partition_name(table: CatalogTable, values: Mapping[str, str]) -> str:
    """The metastore's name of a partition, as `day=2026-11-01/hr=07`."""
    return partition_path({name: values[name] for name in table.partition_columns})


# From Hive


def path_below(root: str, storage: Any) -> str | None:
    """A location relative to the root; None if it is elsewhere or, as for a view, unset.

    The older schemes of Azure's storage count as `abfss`.
    """
    place = re.sub(_OLD_SCHEMES, r"abfss://\1.dfs.", getattr(storage, "location", None) or "")
    return place.removeprefix(f"{root}/").rstrip("/") if place.startswith(f"{root}/") else None


def catalog_table(root: str, entry: Any) -> CatalogTable:
    """A table of the metastore below the root, without its partitions; also one of others."""
    serde, parameters = entry.sd.serdeInfo.serializationLib or "", entry.parameters or {}
    keys, columns = partition_names(entry), entry.sd.cols or ()
    return CatalogTable(
        database=entry.dbName,
        name=entry.tableName,
        source=parameters.get(SOURCE, ""),
        location=path_below(root, entry.sd) or "",
        columns=tuple(parse_column(one.name, one.type) for one in columns if one.name not in keys),
        partition_columns=keys,
        format=parse_format(serde, parameters),
        foreign={one.name: one.type for one in entry.sd.cols or () if not is_own_type(one.type)},
    )


def partition_names(entry: Any) -> tuple[str, ...]:
    keys = [key.name for key in entry.partitionKeys or ()]
    return parse_partition_columns(keys, entry.parameters or {})


def missing_columns(entry: Any, columns: Iterable[Column]) -> list[Any]:
    """The metastore's structures of those columns that a table lacks."""
    names = {column.name.lower() for column in entry.sd.cols or ()}
    return [make_column(one) for one in columns if one.name.lower() not in names]


def set_types(entry: Any, columns: Sequence[Column]) -> bool:
    """Give the columns of a registered table these types, in place; False if it has them."""
    types = {column.name.lower(): str(column.type) for column in columns}
    changed = [one for one in entry.sd.cols if types.get(one.name.lower(), one.type) != one.type]
    for one in changed:
        one.type = types[one.name.lower()]
    return bool(changed)


def check_same(root: str, table: CatalogTable, entry: Any) -> None:
    """Raise InvalidSettings if the registered table has another location or other partitions."""
    full = table.full_name
    # All lakes of a metastore share the table of reports; its partitions have their own locations.
    if table.format != "json" and path_below(root, entry.sd) != table.location:
        raise InvalidSettings(
            f"the Hive table {full} has the location {entry.sd.location or 'none'}, not "
            f"{location(root, table)}: set another database or a table_prefix for this source, or "
            "drop that table and run `eventlake repair`"
        )
    if partition_names(entry) != table.partition_columns:
        raise InvalidSettings(
            f"the Hive table {full} is partitioned by {', '.join(partition_names(entry))}, and "
            f"date_partition asks for {', '.join(table.partition_columns)}: set the "
            "date_partition that the table has, or drop the table and load again"
        )


def check_locations(root: str, table: CatalogTable, registered: Iterable[Any]) -> None:
    """Raise InvalidSettings if a registered partition of the reports is that of another lake.

    The keys of the table are only source and day, so they cannot tell the two apart.
    """
    for one in registered:
        values = dict(zip(table.partition_columns, one.values, strict=True))
        if one.sd.location.rstrip("/") != partition_location(root, table, values):
            raise InvalidSettings(
                f"{table.full_name} has the reports of the source {values['source_id']} of "
                f"{values['day']} in another lake ({one.sd.location}): sources of lakes that share "
                "a metastore need different ids (--source-id); `eventlake reports` and "
                "`eventlake query` show this lake's own"
            )
