"""Look into a lake a page at a time: tables, columns with shares and samples, the archive."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.errors import NotFound
from eventlake.lake import Lake
from eventlake.ledger import Ledger, State
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
from eventlake.model.quarantine import QuarantinePage, QuarantineQuery, QuarantineSummary
from eventlake.model.schema import TableSchema, find_fixed_columns
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name, table_path
from eventlake.pipeline.quarantine import choose_published
from eventlake.services.quarantine import list_quarantined, summarize_quarantine
from eventlake.stores.damage import reading_parquet

LOOKED_ROWS = 5_000
LOOKED_VALUES = 2_000_000
"""The newest rows, and values, that are read to describe a table."""
SAMPLE_VALUES = 200
MAX_SAMPLES = 3
MAX_SAMPLE_CHARS = 80


@dataclass(frozen=True)
class SourceTables:
    """The tables of a source after a commit."""

    state: State
    files: Mapping[str, Sequence[LiveFile]]
    quarantine: Mapping[str, str]
    """The live quarantine files: by path, the path in the stage until published."""

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
        newest = sorted(found.files.get(own, ()), key=_time_of, reverse=True)
        looked = self._look_at(newest, len(found.state.tables[own].columns))
        schema, settings = found.state.tables[own], _settings_of(found.state)
        pinned = found.state.pinned.get(own, {})
        fixed = find_fixed_columns(schema.call, settings.columns)
        summary = _summarize(found, query.table, own)
        location = self._locate(settings, schema)
        return TableDetail(
            summary=summary,
            partition_columns=settings.date_partition.columns,
            location=location,
            looked_at_rows=looked.rows,
            rescued_share=looked.values[RESCUED] / looked.rows if looked.rows else None,
            columns=tuple(
                ColumnDetail(
                    name=one.name,
                    type=str(one.type),
                    is_pinned=one.name in pinned,
                    is_fixed=one.name in fixed,
                    null_share=looked.null_share(one.name),
                    rescued=looked.rescued[one.name],
                    last_seen=looked.last_seen.get(one.name),
                    samples=tuple(looked.samples.get(one.name, ())) if query.with_samples else (),
                )
                for one in schema.columns
            ),
            sql=tuple(write_sql(summary, schema, settings, location)),
        )

    def list_quarantined(self, folder: str, query: QuarantineQuery) -> QuarantinePage:
        """A page of a source's quarantined lines, those of the newest runs first."""
        return list_quarantined(self.lake, folder, query, self._find_quarantine)

    def summarize_quarantine(self, folder: str) -> QuarantineSummary:
        """How many lines are in a source's quarantine, by the day of their run and reason."""
        return summarize_quarantine(self.lake, folder, self._find_quarantine)

    def _find_quarantine(self, ledger: Ledger) -> list[str]:
        return choose_published(ledger, self._read(ledger.folder).quarantine)

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
            state, files = ledger.read_state_and_files()
            self._known[folder] = SourceTables(state, files, ledger.list_quarantine())
        return self._known[folder]

    def _locate(self, settings: SourceSettings, schema: TableSchema) -> str:
        store = self.lake.store
        return f"{store.root}/{table_path(self.lake.layout, settings, schema)}"

    def _look_at(self, files: Sequence[LiveFile], columns: int) -> "_Looked":
        """Read the newest rows of a table."""
        looked = _Looked()
        wanted = min(LOOKED_ROWS, max(1, LOOKED_VALUES // max(1, columns)))
        for one in files:
            with reading_parquet(self.lake.store, one.path), self.lake.store.open(one.path) as file:
                for batch in pq.ParquetFile(file).iter_batches(min(wanted, 1000)):
                    looked.add(one, batch)
                    if looked.rows >= wanted:
                        return looked
        return looked


@dataclass
class _Looked:
    """What the newest rows of a table have."""

    rows: int = 0
    values: Counter[str] = field(default_factory=Counter)
    """By column, the number of values that are not null."""
    rescued: Counter[str] = field(default_factory=Counter)
    """By column, the number of values that are in `_rescued_data` instead."""
    last_seen: dict[str, str] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)
    """By column, some different values."""

    def null_share(self, column: str) -> float | None:
        return 1 - self.values[column] / self.rows if self.rows else None

    def add(self, file: LiveFile, batch: pa.RecordBatch) -> None:
        """Count the rows of a file, of which newer ones were added before."""
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            count = batch.num_rows - column.null_count
            self.values[name] += count
            if count and file.received:
                self.last_seen.setdefault(name, file.received[1])
            if count and name not in self.samples:
                distinct = column.drop_null().slice(0, SAMPLE_VALUES).unique()
                self.samples[name] = [_shorten(one) for one in distinct[:MAX_SAMPLES].to_pylist()]
            if count and name == RESCUED:
                for text in column.drop_null().to_pylist():
                    self.rescued.update(_column_of(path) for path in json.loads(text))


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


def _shorten(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= MAX_SAMPLE_CHARS else f"{text[: MAX_SAMPLE_CHARS - 1]}…"
