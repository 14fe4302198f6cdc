"""Conversion of tables to and from Unity Catalog, and the statements that register them."""

import re
from collections.abc import Iterator, Sequence

from eventlake.catalogs.hive_types import is_own_type, parse_column
from eventlake.databricks.grants import quote_name, quote_text
from eventlake.databricks.unity import UnityColumn, UnityTable
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column

SOURCE = "eventlake.source"
"""The table property with the source's id."""
SCHEMA_COMMENT = "Customer events, written by EventLake"
_TABLE_COMMENT = "Events of the source {}, written by EventLake"
_SOURCE_IN_COMMENT = re.compile(r"^Events of the source (.+), written by EventLake$")
_COLUMN_COMMENTS = {
    "id": "The id of the message",
    "message_id": "The id of the message",
    "received_at": "When the event was received; partitions follow it",
    "sent_at": "When the client sent the event, by its clock",
    "original_timestamp": "When the event occurred, by the client's clock",
    "timestamp": "When the event occurred, corrected by the offset of the client's clock",
    "_rescued_data": "Values that fit no column, as a JSON object of path and value",
}


def table_comment(table: CatalogTable) -> str:
    if table.format == "json":  # all sources share the table of reports
        return "Reports of EventLake's runs"
    return _TABLE_COMMENT.format(table.source)


# From Unity Catalog


def path_below(root: str, table: UnityTable) -> str | None:
    """A table's location relative to the lake's root; None if it is elsewhere."""
    place, lake = _normalize(table.location), _normalize(root)
    return place.removeprefix(f"{lake}/") if place.startswith(f"{lake}/") else None


def _normalize(address: str) -> str:
    return re.sub(r"^file:/+", "file:/", address).rstrip("/")


def catalog_table(root: str, table: UnityTable) -> CatalogTable:
    """A table as EventLake knows it; its location is whole if it is not in the lake."""
    keys = sorted((one.partition, one.name) for one in table.columns if one.partition is not None)
    own = [one for one in table.columns if one.partition is None]
    location = path_below(root, table)
    return CatalogTable(
        database=table.schema,
        name=table.name,
        source=_find_source(table, location),
        location=table.location if location is None else location,
        columns=tuple(parse_column(one.name, one.type) for one in own),
        partition_columns=tuple(name for _, name in keys),
        format=table.format,
        foreign={one.name: one.type for one in own if not is_own_type(one.type)},
    )


def _find_source(table: UnityTable, location: str | None) -> str:
    """The source by the table's property or comment, else by its folder."""
    if source := table.properties.get(SOURCE):
        return source
    if match := _SOURCE_IN_COMMENT.match(table.comment):
        return match[1]
    return location.rpartition("/")[0].rpartition("/")[2] if location else ""


# To Unity Catalog


def unity_table(root: str, table: CatalogTable) -> UnityTable:
    """The table to register, with the columns of partitions last."""
    return UnityTable(
        schema=table.database,
        name=table.name,
        location=f"{root}/{table.location}",
        format=table.format,
        columns=tuple(unity_columns(table)),
        properties={SOURCE: table.source} if table.source else {},
        comment=table_comment(table),
    )


def unity_columns(table: CatalogTable) -> Iterator[UnityColumn]:
    for column in table.columns:
        comment = _COLUMN_COMMENTS.get(column.name, "")
        yield UnityColumn(column.name, str(column.type), comment=comment)
    if table.format == "json":
        # Folders of reports have other names than these columns; the files have the source's id.
        yield UnityColumn("source_id", "string")
        return
    for number, name in enumerate(table.partition_columns):
        yield UnityColumn(name, "string", number)


def create_schema_statement(catalog: str, schema: str) -> str:
    name = _full_name(catalog, schema)
    return f"CREATE SCHEMA IF NOT EXISTS {name} COMMENT {quote_text(SCHEMA_COMMENT)}"


def create_table_statement(catalog: str, table: UnityTable) -> str:
    """The statement that registers an external table.

    Columns and partitions of a Delta table are in its log; naming them again could only differ.
    """
    words = [f"CREATE TABLE IF NOT EXISTS {_full_name(catalog, table.schema, table.name)}"]
    if table.format != "delta":
        words.append(f"({', '.join(map(_column, table.columns))})")
    words.append(f"USING {table.format.upper()}")
    if table.format == "json":
        words.append("OPTIONS (recursiveFileLookup 'true')")
    keys = [quote_name(one.name) for one in table.columns if one.partition is not None]
    if table.format != "delta" and keys:
        words.append(f"PARTITIONED BY ({', '.join(keys)})")
    words.append(f"COMMENT {quote_text(table.comment)} LOCATION {quote_text(table.location)}")
    if table.format != "delta" and table.properties:
        pairs = (f"{quote_text(k)} = {quote_text(v)}" for k, v in table.properties.items())
        words.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return " ".join(words)


def change_table_statement(catalog: str, table: CatalogTable, columns: Sequence[Column]) -> str:
    """The statement that adds columns; of a Delta table, which has them, reads its log again."""
    name = _full_name(catalog, table.database, table.name)
    if table.format == "delta":
        return f"MSCK REPAIR TABLE {name} SYNC METADATA"
    added = (UnityColumn(one.name, str(one.type)) for one in columns)
    return f"ALTER TABLE {name} ADD COLUMNS ({', '.join(map(_column, added))})"


def drop_table_statement(catalog: str, table: CatalogTable) -> str:
    return f"DROP TABLE IF EXISTS {_full_name(catalog, table.database, table.name)}"


def _full_name(*names: str) -> str:
    return ".".join(map(quote_name, names))


def _column(column: UnityColumn) -> str:
    comment = f" COMMENT {quote_text(column.comment)}" if column.comment else ""
    return f"{quote_name(column.name)} {column.type}{comment}"
