"""SQL over the lake's tables: DuckDB on Arrow datasets, or Spark on the same files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem, copy_files

from eventlake.errors import Damaged, InvalidSettings, LimitExceeded, Unavailable
from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.model.contents import QueryLimits
from eventlake.model.types import Type
from eventlake.parallel import MAX_REQUESTS
from eventlake.stores.damage import RESTORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

File = tuple[str, Mapping[str, str]]
"""The path of a Parquet file in its filesystem, and its partition."""

# No database of a lake begins with an underscore and a letter, so `lake.table` stays unambiguous.
_CATALOG = "_lake"
_QUERY_STATEMENTS = (
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.MULTI,  # DuckDB's type of PIVOT
)
_QUERY_ERRORS = (
    duckdb.ProgrammingError,
    duckdb.DataError,
    duckdb.NotSupportedError,
    duckdb.PermissionException,
)
_ARROW_FAILURE = re.compile(r"\b(?:Invalid|IOError|NotImplemented|Type error): ")
"""Start of the errors of Arrow's reader, through which DuckDB reads."""
_REFUSED = re.compile(r"\bError \w+ during \w+ operation|\bAzure Error\b")
"""In an error of Arrow's reader if a bucket or container refuses a request."""
_SPARK_FAILURE = "FAILED_READ_FILE"
_ABOUT_TABLES = re.compile(r"\b(?:show|information_schema|duckdb_\w+)\b", re.IGNORECASE)
_NO_TABLE = re.compile(r'Table with name "?([^"\s]+)"? does not exist[^.!]*[.!]')
_NO_SPARK_TABLE = re.compile(r"The table or view (\S+) cannot be found\.")


TYPE_BY_ARROW = {arrow: kind for kind, arrow in ARROW_BY_TYPE.items()}
_TEXTS = {
    Type.BOOLEAN: ("(?i)true|false", "boolean"),
    Type.BIGINT: (r"[+-]?\d+", "bigint"),
    Type.DECIMAL: (r"[+-]?\d+(\.\d+)?", "decimal(38,6)"),
    Type.TIMESTAMP: (r"\d{4}-\d\d-\d\d.*", "timestamptz"),
}
"""Texts that cast to a type, and the type's name in DuckDB."""


@dataclass(frozen=True)
class QueryTable:
    """A table of the catalog and its data files."""

    database: str
    name: str
    columns: Sequence[tuple[str, str]]
    partition_columns: Sequence[str]
    files: Sequence[File]
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    retyped: Sequence[str] = ()
    """Columns that have another type in some files."""

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


def run_query(
    tables: Iterable[QueryTable], sql: str, limits: QueryLimits | None = None
) -> pa.Table:
    """Run one query with DuckDB; each table is visible as `database.table`.

    With limits, at most one row more than `max_rows` is returned. Raises InvalidSettings for a
    mistake in the SQL, Damaged for a corrupt file, LimitExceeded without enough memory.
    """
    _check_utf8(sql)
    lake = list(tables)
    used = select_mentioned(lake, sql)
    try:
        with _connection(limits) as connection:
            for database in {table.database for table in lake}:
                connection.execute(f'create schema if not exists "{database}"')
            for table in used:
                _register(connection, table)
            return _execute(connection, sql, limits.max_rows + 1 if limits else None)
    except (*_QUERY_ERRORS, duckdb.OperationalError) as problem:
        if _ARROW_FAILURE.search(str(problem)):
            _raise_if_damaged(used)
        if isinstance(problem, duckdb.OutOfMemoryException):
            memory = f" than {limits.memory}" if limits else ""
            raise LimitExceeded(
                f"the query needs more memory{memory}: read fewer rows or columns"
            ) from problem
        if isinstance(problem, duckdb.OperationalError):
            raise Unavailable(_one_line(str(problem))) from problem
        raise InvalidSettings(_explain(str(problem), lake)) from problem


def cast_to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as DuckDB prints them, such as `1 month 2 days`, `\\x00` and `{'a': NULL}`."""
    with _connection() as connection:
        connection.register("column", pa.table({"value": column}))
        text = connection.sql('select cast(value as varchar) as value from "column"')
        return text.to_arrow_table().column("value")


def run_spark_query(spark: "SparkSession", tables: Iterable[QueryTable], sql: str) -> pa.Table:
    """Run one query with Spark; each table is visible as `database.table`.

    Raises InvalidSettings for a mistake in the SQL, Damaged for a corrupt file.
    """
    # Imported here, so that queries with DuckDB do not load Spark.
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark import errors  # noqa: PLC0415

    _silence_spark()
    _check_utf8(sql)
    lake = list(tables)
    used = select_mentioned(lake, sql)
    try:
        with _spark_tables(spark, used):
            # Fails for everything but a query: an INSERT OVERWRITE could harm the lake's files.
            spark.sql(f"DESCRIBE QUERY (\n{sql.strip().rstrip(';')}\n)")
            return _to_arrow(spark.sql(sql))
    except (errors.PySparkException, Py4JJavaError) as problem:
        if _SPARK_FAILURE in str(problem):
            _raise_if_damaged(used)
            _raise_if_retyped(used)
        raise InvalidSettings(_explain_spark(str(problem), lake)) from problem


def _silence_spark() -> None:
    """Stop PySpark 4 from printing the stack trace of every mistake in a query to stderr."""
    with suppress(ImportError):  # PySpark 3.5 has no such logger
        from pyspark.logger import PySparkLogger  # noqa: PLC0415

        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def _to_arrow(frame: Any) -> pa.Table:
    """The rows of a Spark data frame."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # PySpark 3.5 has the parts only.
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    return pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))


def _check_utf8(sql: str) -> None:
    try:
        sql.encode()
    except UnicodeEncodeError as problem:
        raise InvalidSettings("the SQL is not valid UTF-8") from problem


def _raise_if_damaged(tables: Iterable[QueryTable]) -> None:
    """Raise `Damaged` for the first file that cannot be read; engines do not always name it."""
    for table in tables:
        on_disk = isinstance(table.filesystem, LocalFileSystem)
        scheme = "" if on_disk else f"{table.filesystem.type_name}://"
        for path, partition in table.files:
            try:
                fixed = [one for one in table.columns if one[0] not in table.retyped]
                one_file = replace(table, files=[(path, partition)], columns=fixed)
                for _ in dataset(one_file).to_batches():
                    pass
            except (pa.ArrowException, OSError) as problem:
                if _REFUSED.search(str(problem)):  # by the store: the file may be fine
                    return
                reason = _one_line(str(problem))
                raise Damaged(f"{scheme}{path} is damaged ({reason}): {RESTORE}") from problem


def _raise_if_retyped(tables: Iterable[QueryTable]) -> None:
    columns = [f"{table.full_name}.{name}" for table in tables for name in table.retyped]
    if columns:
        raise InvalidSettings(
            f"the type of {', '.join(columns)} was changed, and Spark cannot read the files that "
            "have the old type: bring them along with `eventlake replay`, or query with DuckDB"
        )


def similar_tables(name: str, tables: Iterable[QueryTable]) -> list[str]:
    """The full names of up to three tables with names similar to `name`."""
    by_name: dict[str, list[str]] = {}
    for table in tables:
        by_name.setdefault(table.name, []).append(table.full_name)
    word = name.replace("`", "").rpartition(".")[2].lower()
    close = get_close_matches(word, by_name, n=3)
    return [full_name for match in close for full_name in by_name[match]][:3]


@contextmanager
def _connection(limits: QueryLimits | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection in UTC without access to files; only registered tables are visible."""
    with (
        TemporaryDirectory(prefix="eventlake-") as scratch,
        closing(duckdb.connect(config={"temp_directory": scratch})) as connection,
    ):
        connection.execute(f"attach ':memory:' as {_CATALOG}; use {_CATALOG}; detach memory")
        connection.execute("set TimeZone = 'UTC'")
        if limits:
            connection.execute(f"set memory_limit = '{limits.memory}'; set threads = 2")
            connection.execute(f"set max_temp_directory_size = '{limits.memory}'")
        connection.execute("set enable_external_access = false; set lock_configuration = true")
        yield connection


def select_mentioned(tables: Sequence[QueryTable], sql: str) -> list[QueryTable]:
    """The tables whose names occur in a query; opening every table of a large lake is slow."""
    text = sql.lower()
    everything = _ABOUT_TABLES.search(text) is not None
    return [table for table in tables if everything or table.name in text]


def _register(connection: duckdb.DuckDBPyConnection, table: QueryTable) -> None:
    """Create the view of a table; columns with several types are cast to the catalog's."""
    types, parts = dict(table.columns), []
    for number, (stored, files) in enumerate(_group_by_types(table).items()):
        name = f"{table.full_name}.{number}"
        columns = [(column, dict(stored).get(column, kind)) for column, kind in table.columns]
        connection.register(name, dataset(replace(table, columns=columns, files=files)))
        casts = ", ".join(
            f'{_cast(column, Type(kind), Type(types[column]))} as "{column}"'
            for column, kind in stored
        )
        parts.append(f'(from "{name}" select *{f" replace ({casts})" if casts else ""})')
    rows = " union all ".join(parts)
    connection.execute(f'create view "{table.database}"."{table.name}" as {rows}')


def _group_by_types(table: QueryTable) -> dict[tuple[tuple[str, str], ...], list[File]]:
    """The files of a table by the types of retyped columns that are not those of the catalog."""
    if not table.retyped:
        return {(): list(table.files)}
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # reads from a bucket mostly wait
        schemas = list(pool.map(lambda file: _read_schema(table, file[0]), table.files))
    groups: dict[tuple[tuple[str, str], ...], list[File]] = {}
    for schema, file in zip(schemas, table.files, strict=True):
        stored = tuple(
            (column, str(TYPE_BY_ARROW[schema.field(column).type]))
            for column, kind in table.columns
            if column in table.retyped
            and column in schema.names
            and TYPE_BY_ARROW.get(schema.field(column).type, Type(kind)) is not Type(kind)
        )
        groups.setdefault(stored, []).append(file)
    return groups or {(): []}


def _read_schema(table: QueryTable, path: str) -> pa.Schema:
    try:
        return pq.read_schema(path, filesystem=table.filesystem)
    except (pa.ArrowException, OSError):  # the query fails with the same error
        return pa.schema([])


def _cast(column: str, stored: Type, wanted: Type) -> str:
    """The SQL that casts a stored column as a load casts values; what does not cast is null."""
    name = f'"{column}"'
    if wanted is Type.STRING:
        text = f"cast({name} as varchar)"
        return f"rtrim(rtrim({text}, '0'), '.')" if stored is Type.DECIMAL else text
    if stored is Type.STRING:
        pattern, kind = _TEXTS[wanted]
        return (
            f"case when regexp_full_match({name}, '{pattern}') then try_cast({name} as {kind}) end"
        )
    if stored in (Type.BIGINT, Type.DECIMAL) and wanted is not Type.TIMESTAMP:
        if wanted is Type.BOOLEAN:
            return f"case {name} when 1 then true when 0 then false end"
        whole = f"trunc({name})" if wanted is Type.BIGINT else name
        return f"try_cast({whole} as {wanted})"
    return f"cast(null as {_TEXTS[wanted][1]})"


def dataset(table: QueryTable) -> ds.Dataset:
    """A dataset with the catalog's types; a filter on the partition opens only its files."""
    parquet, filesystem = ds.ParquetFileFormat(), table.filesystem
    fragments = [
        parquet.make_fragment(path, filesystem, _partition_expression(partition))
        for path, partition in table.files
    ]
    return ds.FileSystemDataset(fragments, _schema(table), parquet, filesystem)


def _schema(table: QueryTable) -> pa.Schema:
    partitions = [(column, Type.STRING) for column in table.partition_columns]
    columns = (*table.columns, *partitions)
    return pa.schema([(name, ARROW_BY_TYPE[Type(kind)]) for name, kind in columns])


def _partition_expression(partition: Mapping[str, str]) -> ds.Expression:
    equal = (ds.field(column) == value for column, value in partition.items())
    return reduce(and_, equal, ds.scalar(True))


def _execute(connection: duckdb.DuckDBPyConnection, sql: str, max_rows: int | None) -> pa.Table:
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1:
        raise InvalidSettings(f"the SQL has {len(kinds)} statements; give one query")
    if kinds[0] not in _QUERY_STATEMENTS:
        raise InvalidSettings(f"the SQL is a {kinds[0].name} statement; give a query that reads")
    if max_rows is None:
        return connection.sql(sql).to_arrow_table()
    reader: Any = connection.sql(sql).to_arrow_reader(min(max_rows, 2048))
    batches, rows = [], 0
    for batch in reader:
        batches.append(batch.slice(0, max_rows - rows))
        rows += batches[-1].num_rows
        if rows >= max_rows:
            break
    return pa.Table.from_batches(batches, reader.schema)


def _explain(problem: str, lake: Sequence[QueryTable]) -> str:
    """DuckDB's message on one line; for an unknown table, with similar tables of the lake."""
    message = _one_line(problem)
    unknown = _NO_TABLE.search(message)
    return f"{unknown[0]} {_suggest_tables(unknown[1], lake)}" if unknown else message


def _one_line(problem: str) -> str:
    return " ".join(problem.strip().partition("\n\n")[0].split())


def _explain_spark(problem: str, lake: Sequence[QueryTable]) -> str:
    text = re.sub(r"^An error occurred while calling \S+\s+: (?:[\w.$]+: )?", "", problem.strip())
    line = text.partition("\n")[0].partition(" SQLSTATE:")[0]
    message = re.sub(r"^\[[A-Z_.]+\] ", "", line)
    unknown = _NO_SPARK_TABLE.search(message)
    return f"{unknown[0]} {_suggest_tables(unknown[1], lake)}" if unknown else message


def _suggest_tables(unknown: str, lake: Sequence[QueryTable]) -> str:
    close = similar_tables(unknown, lake)
    if close:
        return f"Did you mean: {', '.join(close)}"
    plural = "" if len(lake) == 1 else "s"
    return f"The lake has {len(lake)} table{plural}; run `eventlake tables` to list them"


@contextmanager
def _spark_tables(spark: "SparkSession", tables: Sequence[QueryTable]) -> Iterator[None]:
    """Register the tables in Spark's catalog, and drop them at the end.

    Spark reads whole folders, so each gets a temporary folder with links to its live files, or
    copies of files in a bucket. Statements cannot harm the lake's files.
    """
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with TemporaryDirectory(prefix="eventlake-") as scratch:
        created = []
        try:
            for table in tables:
                _create_spark_table(spark, table, scratch)
                created.append(table)
            yield
        finally:
            for table in created:
                spark.sql(f"DROP TABLE {_spark_name(table)}")


def _create_spark_table(spark: "SparkSession", table: QueryTable, scratch: str) -> None:
    folder = f"{scratch}/{table.database}"
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{table.database}` LOCATION {_literal(folder)}")
    partitions = [(column, Type.STRING) for column in table.partition_columns]
    columns = ", ".join(f"`{name}` {kind}" for name, kind in (*table.columns, *partitions))
    keys = ", ".join(f"`{column}`" for column in table.partition_columns)
    spark.sql(
        f"CREATE TABLE {_spark_name(table)} ({columns}) USING parquet PARTITIONED BY ({keys})"
        f" LOCATION {_literal(f'{folder}/{table.name}')}"
    )
    folders = _local_folders(table, Path(folder) / f"{table.name}.files")
    if folders:
        specs = " ".join(_spark_partition(*item) for item in folders.items())
        spark.sql(f"ALTER TABLE {_spark_name(table)} ADD {specs}")


def _local_folders(table: QueryTable, scratch: Path) -> dict[str, Mapping[str, str]]:
    """Link or copy a table's files into local folders; return each folder's partition."""
    numbers: dict[tuple[str, ...], int] = {}
    folders = {}
    for number, (path, partition) in enumerate(table.files):
        at = numbers.setdefault(tuple(partition.values()), len(numbers))
        folder = scratch / str(at)
        folder.mkdir(parents=True, exist_ok=True)
        _link_or_copy(table.filesystem, path, folder / f"{number}.parquet")
        folders[str(folder)] = partition
    return folders


def _link_or_copy(filesystem: FileSystem, path: str, target: Path) -> None:
    if isinstance(filesystem, LocalFileSystem):
        target.symlink_to(path)
    else:
        copy_files(path, str(target), filesystem, LocalFileSystem())


def _spark_partition(folder: str, partition: Mapping[str, str]) -> str:
    values = ", ".join(f"`{column}` = {_literal(value)}" for column, value in partition.items())
    return f"PARTITION ({values}) LOCATION {_literal(folder)}"


def _spark_name(table: QueryTable) -> str:
    return f"`{table.database}`.`{table.name}`"


def _literal(text: str) -> str:
    """A string literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
