"""Find the tables of a source that another program filled, and read what they tell about it."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventlake.errors import AmbiguousTables, InvalidSettings
from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.lake import Lake
from eventlake.model.adoption import FoundTable, source_of_location
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import partition_of
from eventlake.model.settings import SourceSettings
from eventlake.model.types import Type
from eventlake.parallel import MAX_REQUESTS
from eventlake.stores import Store

SAMPLE_COLUMNS = ("type", "event")
"""Columns that tell which events a table has."""


def find_tables(lake: Lake, settings: SourceSettings, database: str) -> list[FoundTable]:
    """The source's tables of one database, with what their newest files tell about them.

    Without a `database`, the one that is named after the source counts first, then every other.
    Raises `InvalidSettings` if there are no tables, and `AmbiguousTables` if several databases
    have tables.
    """
    entries = _find_entries(lake, settings, database)
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        return list(pool.map(lambda entry: _examine(lake.store, entry), entries))


def _find_entries(lake: Lake, settings: SourceSettings, database: str) -> list[CatalogTable]:
    tables = list(lake.catalog.tables(settings.database))
    own = _tables_of_source(tables, settings)
    if not own and not database:
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            found = pool.map(lake.catalog.tables, lake.catalog.databases())
            tables = [table for one in found for table in one]
        own = _tables_of_source(tables, settings)
    if not own:
        raise InvalidSettings(_describe_missing(lake, settings, database, tables))
    databases = sorted({table.database for table in own})
    if len(databases) > 1:
        rows = [(name, str(sum(t.database == name for t in own))) for name in databases]
        raise AmbiguousTables(
            f"several databases have tables of {settings.source}: choose one with --database",
            [("database", "tables"), *rows],
        )
    return own


def _tables_of_source(
    tables: Iterable[CatalogTable], settings: SourceSettings
) -> list[CatalogTable]:
    return [table for table in tables if source_of_location(table.location) == settings.folder]


def _describe_missing(
    lake: Lake, settings: SourceSettings, database: str, tables: Iterable[CatalogTable]
) -> str:
    where = f"the database {database!r} has" if database else "the catalog has"
    folder = lake.store.uri(f"…/data/{settings.folder}/segment_type=…")
    others = sorted({source_of_location(table.location) for table in tables} - {""})
    seen = f"; there are tables of the ids {', '.join(others[:10])}" if others else ""
    return (
        f"{where} no table at {folder}: set --source-id to the id in the paths, and --database, or "
        f"--partition-by-slug{seen}"
    )


# The newest file of each table


def _examine(store: Store, entry: CatalogTable) -> FoundTable:
    sizes = {one.path: one.size for one in store.objects(entry.location)}
    files = {path: sizes[path] for path in sorted(sizes) if path.endswith(".parquet")}
    foreign = [f"{entry.name}.{name} ({kind})" for name, kind in entry.foreign.items()]
    if not files:
        return FoundTable(entry, foreign=tuple(foreign))
    newest = max(files, key=partition_day)
    with parquet_errors(newest), store.open(newest) as file:
        parquet = pq.ParquetFile(file)
        names = [name for name in SAMPLE_COLUMNS if name in parquet.schema_arrow.names]
        values = {name: _unique(parquet.read([name])[name]) for name in names}
        foreign += _find_foreign(entry, parquet.schema_arrow, newest)
    types, events = (values.get(name, frozenset()) for name in SAMPLE_COLUMNS)
    return FoundTable(entry, files, types, events, tuple(foreign))


def _unique(values: pa.ChunkedArray) -> frozenset[str]:
    return frozenset(value for value in pc.unique(values.cast(pa.string())).to_pylist() if value)


def _find_foreign(entry: CatalogTable, schema: pa.Schema, path: str) -> Iterator[str]:
    for column in entry.columns:
        if column.name not in schema.names:
            continue
        file_type = schema.field(column.name).type
        if not _is_compatible(file_type, column.type):
            yield f"{entry.name}.{column.name} ({file_type} in {path})"


def check_types(tables: Iterable[FoundTable]) -> None:
    """Raise `InvalidSettings` if a column has a type that EventLake does not write."""
    if wrong := [column for table in tables for column in table.foreign]:
        raise InvalidSettings(
            f"{', '.join(wrong)}: EventLake writes boolean, bigint, decimal(38,6), string and "
            "timestamp; drop these columns in the catalog, and a sync adds them as new columns, "
            "or leave the lake as it is and use another database"
        )


def _is_compatible(file_type: pa.DataType, column_type: Type) -> bool:
    if column_type is Type.TIMESTAMP:
        return bool(pa.types.is_timestamp(file_type))  # older Spark versions wrote nanoseconds
    return bool(file_type in (ARROW_BY_TYPE[column_type], pa.null()))


def partition_day(path: str) -> date:
    """The day of a data file's partition."""
    values = partition_of(path)
    try:
        text = values["day"] if "year" not in values else "{year}-{month}-{day}".format(**values)
        return date.fromisoformat(text)
    except (KeyError, ValueError) as problem:
        raise InvalidSettings(
            f"{path} is not in a date partition: move it out of the table's folder"
        ) from problem


@contextmanager
def parquet_errors(path: str) -> Iterator[None]:
    """Raise errors of Arrow while it reads a file as `InvalidSettings`."""
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).partition("\n")[0]
        raise InvalidSettings(f"{path} cannot be read as Parquet: {reason}") from problem
