"""What a lake has, as pages and the API show it: tables, columns, quarantined lines, results."""

from pydantic import Field

from eventlake.model.values import FrozenModel


class TableQuery(FrozenModel):
    """Which tables of a source to list."""

    search: str = ""
    """Part of the table's name."""
    after: str = ""
    """The last table of the page before."""
    limit: int = 100


class TableSummary(FrozenModel):
    """A table of a source with its size."""

    table: str
    database: str
    columns: int
    rows: int | None
    """None if other programs wrote some of its files."""
    files: int
    bytes: int
    newest: str | None
    """The last time of receipt, in UTC."""


class TablePage(FrozenModel):
    """A part of a source's tables, by name."""

    items: tuple[TableSummary, ...] = ()
    next: str | None = None
    total: int = 0
    """Tables that match."""


class DetailQuery(FrozenModel):
    """Which table to describe, and whether with values of events."""

    table: str
    with_samples: bool = False


class ColumnDetail(FrozenModel):
    """A column, by the newest files of its table."""

    name: str
    type: str
    is_pinned: bool = False
    is_fixed: bool = False
    """Whether no retype can change its type, which is the same in every table."""
    null_share: float | None = None
    """Of the rows that were looked at; None without any."""
    rescued: int = 0
    """Values for this column in `_rescued_data` of the rows that were looked at."""
    last_seen: str | None = None
    """The last time of receipt of a file with a value."""
    samples: tuple[str, ...] = ()
    """Some values, if they were asked for."""


class EngineSql(FrozenModel):
    """Statements for an engine, to copy."""

    engine: str
    sql: str


class TableDetail(FrozenModel):
    """A table with its columns."""

    summary: TableSummary
    partition_columns: tuple[str, ...]
    location: str
    looked_at_rows: int
    rescued_share: float | None
    """Of these rows, those with a rescued value."""
    columns: tuple[ColumnDetail, ...]
    sql: tuple[EngineSql, ...]


class ArchiveDay(FrozenModel):
    """A day of a source's archive."""

    day: str
    files: int
    bytes: int


class ArchiveDays(FrozenModel):
    """What a source's archive has."""

    items: tuple[ArchiveDay, ...] = ()


class QueryLimits(FrozenModel):
    """What a query may use."""

    seconds: float = 30.0
    memory: str = "1GB"
    """For DuckDB, and as much again on disk; a number and a unit."""
    max_rows: int = 10_000


class QueryRequest(FrozenModel):
    """A query over the tables of a lake."""

    sql: str
    format: str = "json"
    """`json`, `csv` or `parquet`."""
    limits: QueryLimits = QueryLimits()


class QueryColumn(FrozenModel):
    """A column of a result."""

    name: str
    type: str


class QueryResult(FrozenModel):
    """The rows of a query; values as text, None for null."""

    columns: tuple[QueryColumn, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    is_cut: bool = False
    """Whether it had more rows than are returned."""
    seconds: float = 0.0
    tables: tuple[str, ...] = Field(default=())
