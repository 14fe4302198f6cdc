"""Look into a lake a page at a time: tables, columns with shares and samples, the archive."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.errors import NotFound
from eventlake.lake import Lake
from eventlake.ledger import State
from eventlake.ledger.files import LiveFile
from eventlake.model.contents import (
    ArchiveDay,
    ArchiveDays,
    ColumnDetail,
    DetailQuery,
    EngineSql,
    TableDetail,
    TablePage,
    TableQuery,
    TableSummary,
)
from eventlake.model.layout import archive_path
from eventlake.model.naming import RESCUED
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name, table_path
from eventlake.parallel import MAX_REQUESTS
from eventlake.stores.damage import reading_parquet

MAX_FILES = 40
"""Files whose statistics are read to describe a table: the newest ones."""
SAMPLE_ROWS = 200
MAX_SAMPLES = 3
MAX_SAMPLE_CHARS = 80
RESCUED_ROWS = 5000
"""Rows whose rescued values are counted by column."""


@dataclass(frozen=True)
class SourceTables:
    """The tables of a source after a commit."""

    state: State
    files: Mapping[str, Sequence[LiveFile]]

    @property
    def names(self) -> dict[str, str]:
        """By the name in the catalog, the table's own name."""
        settings = self.state.settings
        if settings is None:
            return {}
        return {catalog_name(settings, one): name for name, one in self.state.tables.items()}


@dataclass
class Browser:
    """Answers questions about one lake; remembers the tables of sources until they change."""

    lake: Lake
    _known: dict[str, SourceTables] = field(default_factory=dict, init=False)

    def list_tables(self, folder: str, query: TableQuery) -> TablePage:
        """A page of a source's tables, by name."""
        found = self._read(folder)
        names, needle = found.names, query.search.lower()
        matching = sorted(name for name in names if needle in name)
        rest = [name for name in matching if name > query.after]
        shown = rest[: query.limit]
        return TablePage(
            items=tuple(_summarize(found, name, names[name]) for name in shown),
            next=shown[-1] if len(rest) > len(shown) else None,
            total=len(matching),
        )

    def describe_table(self, folder: str, query: DetailQuery) -> TableDetail:
        """A table with its columns; raises NotFound."""
        found = self._read(folder)
        own = found.names.get(query.table)
        if own is None:
            raise NotFound(f"table is {query.table!r}: the source has no such table")
        newest = sorted(found.files.get(own, ()), key=_time_of, reverse=True)[:MAX_FILES]
        looked = _Looked.read(self.lake, newest)
        rescued = self._count_rescued(newest) if looked.has(RESCUED) else Counter()
        samples = self._read_samples(newest) if query.with_samples else {}
        schema, settings = found.state.tables[own], _settings_of(found.state)
        pinned = found.state.pinned.get(own, {})
        summary = _summarize(found, query.table, own)
        location = self._locate(settings, schema)
        return TableDetail(
            summary=summary,
            partition_columns=settings.date_partition.columns,
            location=location,
            looked_at_rows=looked.rows,
            rescued_share=looked.share_of_values(RESCUED) if looked.rows else None,
            columns=tuple(
                ColumnDetail(
                    name=one.name,
                    type=str(one.type),
                    is_pinned=one.name in pinned,
                    null_share=looked.null_share(one.name),
                    rescued=rescued[one.name],
                    last_seen=looked.last_seen.get(one.name),
                    samples=tuple(samples.get(one.name, ())),
                )
                for one in schema.columns
            ),
            sql=tuple(write_sql(summary, schema, settings, location)),
        )

    def list_archive(self, folder: str) -> ArchiveDays:
        """The days of a source's archive, oldest first."""
        days: dict[str, list[int]] = {}
        root = archive_path(folder)
        for one in self.lake.store.objects(root):
            day, _, name = one.path.removeprefix(f"{root}/").partition("/")
            if name and not day.startswith(".") and not name.startswith(("_", ".")):
                days.setdefault(day, []).append(one.size)
        return ArchiveDays(
            items=tuple(
                ArchiveDay(day=day, files=len(sizes), bytes=sum(sizes))
                for day, sizes in sorted(days.items())
            )
        )

    def _read(self, folder: str) -> SourceTables:
        """The tables of a source, read again if it has newer commits."""
        ledger, known = self.lake.ledger(folder), self._known.get(folder)
        if known is None or ledger.has_commits_after(known.state.sequence):
            self._known[folder] = SourceTables(*ledger.read_state_and_files())
        return self._known[folder]

    def _locate(self, settings: SourceSettings, schema: TableSchema) -> str:
        store = self.lake.store
        return f"{store.root}/{table_path(self.lake.layout, settings, schema)}"

    def _count_rescued(self, files: Sequence[LiveFile]) -> Counter[str]:
        """Rescued values in the newest rows, by the last part of their path as a column's name."""
        counts: Counter[str] = Counter()
        for values in self._read_columns(files, [RESCUED], RESCUED_ROWS):
            for text in values[RESCUED]:
                if text:
                    counts.update(_column_of(path) for path in json.loads(str(text)))
        return counts

    def _read_samples(self, files: Sequence[LiveFile]) -> dict[str, list[str]]:
        """Some different values of each column in the newest file."""
        samples: dict[str, list[str]] = {}
        for values in self._read_columns(files[:1], None, SAMPLE_ROWS):
            for name, column in values.items():
                distinct = dict.fromkeys(str(one) for one in column if one is not None)
                samples[name] = [_shorten(one) for one in list(distinct)[:MAX_SAMPLES]]
        return samples

    def _read_columns(
        self, files: Sequence[LiveFile], columns: list[str] | None, max_rows: int
    ) -> Iterable[dict[str, list[object]]]:
        rows = 0
        for one in files:
            if rows >= max_rows:
                return
            with reading_parquet(self.lake.store, one.path), self.lake.store.open(one.path) as file:
                opened = pq.ParquetFile(file)
                wanted = columns and [name for name in columns if name in opened.schema_arrow.names]
                if columns and not wanted:
                    continue
                for batch in opened.iter_batches(min(max_rows, 1000), columns=wanted):
                    yield pa.Table.from_batches([batch]).to_pydict()
                    rows += batch.num_rows
                    if rows >= max_rows:
                        break


@dataclass
class _Looked:
    """The statistics of some files of a table."""

    rows: int = 0
    values: Counter[str] = field(default_factory=Counter)
    """By column, the number of values that are not null."""
    last_seen: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, lake: Lake, files: Sequence[LiveFile]) -> "_Looked":
        """Read the footers of files, the newest first."""

        def read_footer(file: LiveFile) -> pq.FileMetaData:
            with reading_parquet(lake.store, file.path), lake.store.open(file.path) as opened:
                return pq.read_metadata(opened)

        looked = cls()
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # reads from a bucket mostly wait
            for file, footer in zip(files, pool.map(read_footer, files), strict=True):
                looked._add(file, footer)
        return looked

    def has(self, column: str) -> bool:
        return self.values[column] > 0

    def share_of_values(self, column: str) -> float:
        return self.values[column] / self.rows

    def null_share(self, column: str) -> float | None:
        return 1 - self.share_of_values(column) if self.rows else None

    def _add(self, file: LiveFile, footer: pq.FileMetaData) -> None:
        self.rows += footer.num_rows
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            for at in range(group.num_columns):
                one = group.column(at)
                name, stats = one.path_in_schema, one.statistics
                nulls = stats.null_count if stats and stats.has_null_count else 0
                self.values[name] += group.num_rows - nulls
                if group.num_rows > nulls and file.received:
                    self.last_seen.setdefault(name, file.received[1])


def write_sql(
    table: TableSummary, schema: TableSchema, settings: SourceSettings, location: str
) -> Iterable[EngineSql]:
    """A query and, where an engine needs one, the statement that creates the table."""
    where = " AND ".join(f"{name} = '…'" for name in settings.date_partition.columns[:1])
    name = f"{table.database}.{table.table}"
    partitions = ", ".join(f"{one} string" for one in settings.date_partition.columns)
    columns = ",\n  ".join(f"`{one.name}` {_ddl_type(str(one.type))}" for one in schema.columns)
    ddl = (
        f"CREATE EXTERNAL TABLE {name} (\n  {columns}\n)\nPARTITIONED BY ({partitions})\n"
        f"STORED AS PARQUET\nLOCATION '{location}';"
    )
    quoted = f'"{table.database}"."{table.table}"'
    yield EngineSql(
        engine="Athena",
        sql=f"SELECT * FROM {quoted} WHERE {where} LIMIT 100;\n\n"  # noqa: S608 - shown, not run
        f"-- without a catalog:\n{ddl}",
    )
    yield EngineSql(
        engine="Spark",
        sql=f"SELECT * FROM {name} WHERE {where} LIMIT 100;\n\n"  # noqa: S608 - shown, not run
        f"-- without a catalog:\nCREATE TABLE {name} USING parquet LOCATION '{location}';",
    )
    yield EngineSql(
        engine="DuckDB",
        sql=f"SELECT * FROM read_parquet('{location}/**/*.parquet', "  # noqa: S608 - shown
        "hive_partitioning = true, union_by_name = true) LIMIT 100;",
    )


def _ddl_type(name: str) -> str:
    return {"decimal": "decimal(38,6)"}.get(name, name)


def _summarize(found: SourceTables, name: str, own: str) -> TableSummary:
    files, settings = found.files.get(own, ()), _settings_of(found.state)
    counts = [file.rows for file in files]
    known = [count for count in counts if count is not None]
    return TableSummary(
        table=name,
        database=settings.database,
        columns=len(found.state.tables[own].columns),
        rows=sum(known) if len(known) == len(counts) else None,
        files=len(files),
        bytes=sum(file.bytes for file in files),
        newest=max((file.received[1] for file in files if file.received), default=None),
    )


def _settings_of(state: State) -> SourceSettings:
    if state.settings is None:
        raise NotFound("the source has no tables yet")
    return state.settings


def _time_of(file: LiveFile) -> str:
    return file.received[1] if file.received else ""


def _column_of(path: str) -> str:
    """The column that a rescued path is for: without `properties` or `traits`, joined with `_`."""
    parts = path.split(".")
    return "_".join(parts[1:] if parts[0] in ("properties", "traits") and parts[1:] else parts)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SAMPLE_CHARS else f"{text[: MAX_SAMPLE_CHARS - 1]}…"
