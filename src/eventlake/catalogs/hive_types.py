"""Names that the catalogs with Hive's structures share: of types, file formats and folders."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import partition_path
from eventlake.model.schema import Column
from eventlake.model.types import Type


class FormatClasses(NamedTuple):
    """The Java classes with which engines read and write the files of a format."""

    input: str
    output: str
    serde: str


FORMATS: Mapping[str, FormatClasses] = {
    "parquet": FormatClasses(
        input="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        output="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    # Engines that know Delta tables use none of these; the others must not read the files.
    "delta": FormatClasses(
        input="org.apache.hadoop.mapred.SequenceFileInputFormat",
        output="org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
        serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    ),
    # With this serde, a list in a string column is read as JSON text.
    "json": FormatClasses(
        input="org.apache.hadoop.mapred.TextInputFormat",
        output="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serde="org.openx.data.jsonserde.JsonSerDe",
    ),
}

PROVIDER = "spark.sql.sources.provider"
"""The table parameter with the data source that Spark, and Athena too, reads a table with."""
PARTITION_COLUMNS = "eventlake.partition_columns"
"""The table parameter with the partition columns that are not registered as such."""

_OWN_TYPES = frozenset(map(str, Type))
_TYPES: Mapping[str, Type] = {
    **{str(kind): kind for kind in Type},
    **dict.fromkeys(("tinyint", "smallint", "int", "integer"), Type.BIGINT),
    **dict.fromkeys(("decimal", "double", "float"), Type.DECIMAL),
}
"""The catalog's types as column types; all others become strings."""


def is_own_type(text: str) -> bool:
    """Whether a catalog's type is one that EventLake uses, so that nothing is lost by parsing."""
    return _normalize(text) in _OWN_TYPES


def parse_column(name: str, text: str) -> Column:
    """A column of a catalog, in the column type that is closest to its type there."""
    kind = _normalize(text)
    column_type = _TYPES.get(kind) or _TYPES.get(kind.partition("(")[0], Type.STRING)
    return Column(name=name, type=column_type)


def _normalize(text: str) -> str:
    return text.lower().replace(" ", "")


def parse_format(serde: str, parameters: Mapping[str, str]) -> str:
    """The format of a table, by its parameters or the serde of its files; empty for any other."""
    if parameters.get(PROVIDER, "").lower() == "delta":
        return "delta"
    return next((name for name in FORMATS if name in serde.lower()), "")


def partition_keys(table: CatalogTable) -> tuple[str, ...]:
    """The partition columns to register as such: a Delta table's are only in its own log."""
    return () if table.format == "delta" else table.partition_columns


def registered_columns(table: CatalogTable) -> tuple[Column, ...]:
    """The columns to register that are no partition keys."""
    others = set(table.partition_columns).difference(partition_keys(table))
    keys = (Column(name=name, type=Type.STRING) for name in table.partition_columns)
    return (*table.columns, *(column for column in keys if column.name in others))


def format_parameters(table: CatalogTable) -> dict[str, str]:
    """The table parameters by which engines know a Delta table; none for other formats."""
    if table.format != "delta":
        return {}
    keys = ",".join(table.partition_columns)
    return {PROVIDER: "delta", "table_type": "DELTA", PARTITION_COLUMNS: keys}


def parse_partition_columns(keys: Sequence[str], parameters: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns of a registered table."""
    return tuple(keys) or tuple(filter(None, parameters.get(PARTITION_COLUMNS, "").split(",")))


def partition_folder(table: CatalogTable, values: Mapping[str, str]) -> str:
    """The path of a partition below its table."""
    if table.format == "json":  # reports are in folders by day, then by source
        return partition_path({"day": values["day"], "source": table.source or values["source_id"]})
    return partition_path(values)
