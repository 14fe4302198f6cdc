"""Read a lake: its tables, queries, reports, quarantine, and verification."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.lake import Lake as Parts
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, find_source, list_ledgers, list_sources
from eventlake.ledger.files import LiveFile
from eventlake.model import report
from eventlake.model.contents import QueryLimits
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import LOGS, partition_path
from eventlake.model.schema import Column
from eventlake.model.tables import catalog_name
from eventlake.model.values import FrozenModel
from eventlake.parallel import MAX_REQUESTS
from eventlake.pipeline.quarantine import (
    QUARANTINE_SCHEMA,
    find_quarantine_files,
    read_quarantine,
)
from eventlake.query import QueryTable, run_query, run_spark_query, select_mentioned
from eventlake.reports import read_reports, report_files
from eventlake.runners.local import LocalSpark
from eventlake.stores.damage import reading_parquet
from eventlake.verify import LakeFiles, Prefixes, Registration, Verification, verify


class TableInfo(FrozenModel):
    """A table of a lake, with its size."""

    database: str
    name: str
    source: str
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    partitions: int
    rows: int
    files: int
    bytes: int
    pinned: tuple[str, ...] = ()
    """Columns whose type was set by `retype`."""


@dataclass(frozen=True)
class LakeTable:
    """A table under its name in the catalog, with its live files."""

    database: str
    name: str
    source: str
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    files: Sequence[LiveFile]
    retyped: tuple[str, ...] = ()
    """Columns that have another type in some files."""
    pinned: tuple[str, ...] = ()

    def for_query(self, filesystem: FileSystem, root: str) -> QueryTable:
        return QueryTable(
            database=self.database,
            name=self.name,
            columns=[(column.name, str(column.type)) for column in self.columns],
            partition_columns=self.partition_columns,
            files=[(f"{root}/{file.path}", file.partition) for file in self.files],
            filesystem=filesystem,
            retyped=self.retyped,
        )


def open_lake(lake: str | Path | LakeSettings) -> "Lake":
    """Open an existing lake for reading; raises `InvalidSettings` if there is none."""
    parts = open_parts(lake)
    folders = (*parts.layout.roots, LOGS)
    if not any(any(parts.store.names(folder)) for folder in folders):
        raise InvalidSettings(
            f"there is no lake at {parts.store.root}: it has none of the folders "
            f"{', '.join(folders)}, which the first load creates"
        )
    return Lake(parts)


@dataclass(frozen=True)
class Lake:
    """An open lake."""

    parts: Parts

    def tables(self) -> list[TableInfo]:
        """List all tables of the ledgers, sorted by database and name."""
        return [self._info(table) for table in self._tables()]

    def schema(self, name: str) -> TableInfo:
        """One table, named `database.table`; raises `InvalidSettings` if there is none."""
        tables = {f"{table.database}.{table.name}": table for table in self._tables()}
        if name not in tables:
            raise InvalidSettings(f"there is no table {name!r}: {_describe_names(tables)}")
        return self._info(tables[name])

    def query(self, sql: str, engine: str = "duckdb", master: str = "local[*]") -> pa.Table:
        """Run SQL over the lake's tables with DuckDB, or with Spark on `master`."""
        if engine not in ("duckdb", "spark"):
            raise InvalidSettings(f"engine is {engine!r}: choose one of duckdb, spark")
        with TemporaryDirectory(prefix="eventlake-") as scratch:
            tables = self._query_tables(sql, Path(scratch))
            if engine == "spark":
                spark = LocalSpark(master, self.parts.spark_settings)
                return run_spark_query(spark.session(), tables, sql)
            return run_query(tables, sql)

    def query_within(self, sql: str, limits: QueryLimits) -> pa.Table:
        """Run SQL with DuckDB within limits."""
        with TemporaryDirectory(prefix="eventlake-") as scratch:
            return run_query(self._query_tables(sql, Path(scratch)), sql, limits)

    def _tables(self) -> list[LakeTable]:
        """The tables of all sources, under their current catalog names."""
        ledgers = list_ledgers(self.parts.store, self.parts.layout)
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            by_source = pool.map(_tables_of, ledgers)
        tables = (table for tables in by_source for table in tables)
        return sorted(tables, key=lambda table: (table.database, table.name))

    def _info(self, table: LakeTable) -> TableInfo:
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # reads from a bucket mostly wait
            rows = sum(pool.map(self._count_rows, table.files))
        return TableInfo(
            database=table.database,
            name=table.name,
            source=table.source,
            columns=table.columns,
            partition_columns=table.partition_columns,
            partitions=len({tuple(file.partition.items()) for file in table.files}),
            rows=rows,
            files=len(table.files),
            bytes=sum(file.bytes for file in table.files),
            pinned=table.pinned,
        )

    def _count_rows(self, file: LiveFile) -> int:
        """The number of rows in a file; read from its footer if another program wrote it."""
        if file.rows is not None:
            return file.rows
        store = self.parts.store
        with reading_parquet(store, file.path), store.open(file.path) as opened:
            return int(pq.read_metadata(opened).num_rows)

    def _query_tables(self, sql: str, scratch: Path) -> list[QueryTable]:
        """All tables and the reports, written to `scratch` if the query mentions them."""
        filesystem, root = self.parts.store.filesystem()
        tables = [table.for_query(filesystem, root) for table in self._tables()]
        reports = QueryTable(
            database=report.DATABASE,
            name=report.TABLE,
            columns=[(name, str(kind)) for name, kind in report.COLUMNS.items()],
            partition_columns=report.PARTITIONS,
            files=[],
        )
        if select_mentioned([reports], sql):
            files = report_files(self.parts.store, self.parts.layout, scratch)
            reports = replace(reports, files=files)
        return [*tables, reports]

    def reports(self, source: str) -> list[dict[str, Any]]:
        """The lines of all reports of a source, oldest run first."""
        settings = find_source(self.parts.store, self.parts.layout, source)
        folder = settings.folder if settings else source  # it may have only failed runs
        lines = read_reports(self.parts.store, self.parts.layout, folder)
        if not (settings or lines):
            raise self._unknown_source(source)
        return lines

    def quarantine(self, source: str) -> pa.Table:
        """The quarantined lines of a source, with their reasons."""
        settings = find_source(self.parts.store, self.parts.layout, source)
        if settings is None:
            raise self._unknown_source(source)
        ledger = self.parts.ledger(settings.folder)
        paths = find_quarantine_files(ledger)
        while True:
            try:
                batches = [one for path in paths for one in read_quarantine(ledger.store, path)]
            except EventLakeError:
                before, paths = paths, find_quarantine_files(ledger)
                if paths == before:  # otherwise a run has published or replaced some of the files
                    raise
            else:
                return pa.Table.from_batches(batches, QUARANTINE_SCHEMA)

    def verify(self, source: str, progress: Callable[[str], None] | None = None) -> Verification:
        """Compare archive with tables and ledger with catalog, by a second implementation."""
        layout = self.parts.layout
        prefixes = Prefixes(layout.data, layout.quarantine, layout.ledger, layout.sources)
        place = LakeFiles(*self.parts.store.filesystem(), prefixes)
        return verify(place, source, progress, self._registration)

    def _registration(self, database: str, name: str) -> Registration | None:
        table = self.parts.catalog.table(database, name)
        if table is None:
            return None
        return Registration(
            table.location,
            frozenset(column.name for column in table.columns),
            None
            if table.projected or not self.parts.format.needs_partitions
            else frozenset(map(partition_path, table.partitions)),
        )

    def _unknown_source(self, source: str) -> InvalidSettings:
        sources = list_sources(self.parts.store, self.parts.layout)
        known = sorted({name for one in sources for name in (one.source, one.source_id)})
        names = ", ".join(known) or "none yet"
        return InvalidSettings(f"there is no source {source!r} in this lake; known: {names}")


def _tables_of(ledger: Ledger) -> list[LakeTable]:
    state, files = ledger.read_state(), ledger.list_live_files()
    if state.settings is None:
        return []
    return [
        LakeTable(
            database=state.settings.database,
            name=catalog_name(state.settings, schema),
            source=state.settings.source,
            columns=schema.columns,
            partition_columns=state.settings.date_partition.columns,
            files=files.get(name, []),
            retyped=state.retyped.get(name, ()),
            pinned=tuple(sorted(state.pinned.get(name, ()))),
        )
        for name, schema in state.tables.items()
    ]


def _describe_names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    if not ordered:
        return "the lake has no tables yet"
    return f"known: {', '.join(ordered[:10])}{' …' if len(ordered) > 10 else ''}"
