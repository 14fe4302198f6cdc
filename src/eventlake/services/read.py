"""Look into a lake: its tables, queries over them, reports, the quarantine, a verification."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from eventlake.errors import InvalidSettings
from eventlake.lake import Lake as Parts
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, find_source, known_sources, sources
from eventlake.ledger.files import LiveFile
from eventlake.model import report
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import LOGS, QUARANTINE, partition_path
from eventlake.model.naming import catalog_name
from eventlake.model.schema import Column
from eventlake.model.values import FrozenModel
from eventlake.pipeline.chunks import QUARANTINE as REJECTED
from eventlake.pipeline.parallel import MAX_REQUESTS
from eventlake.query import QueryTable, run_query, run_spark_query, select_mentioned
from eventlake.reports import read_reports, report_files
from eventlake.runners.local import LocalSpark
from eventlake.stores import Store
from eventlake.stores.damage import reading_parquet
from eventlake.verify import LakeFiles, Registration, Verification, verify

ROOT = "segment-data"
"""The folder of all that a load writes."""


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


@dataclass(frozen=True)
class LakeTable:
    """A table under its name in the catalog, with its live files."""

    database: str
    name: str
    source: str
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    files: Sequence[LiveFile]

    def for_query(self, filesystem: FileSystem, root: str) -> QueryTable:
        return QueryTable(
            database=self.database,
            name=self.name,
            columns=[(column.name, str(column.type)) for column in self.columns],
            partition_columns=self.partition_columns,
            files=[(f"{root}/{file.path}", file.partition) for file in self.files],
            filesystem=filesystem,
        )


def open_lake(lake: str | Path | LakeSettings) -> "Lake":
    """A lake to look into; raises `InvalidSettings` where there is none."""
    parts = open_parts(lake)
    if not any(any(parts.store.names(folder)) for folder in (ROOT, LOGS)):
        raise InvalidSettings(
            f"there is no lake at {parts.store.root}: it has neither {ROOT} nor {LOGS}, which the "
            "first load makes"
        )
    return Lake(parts)


@dataclass(frozen=True)
class Lake:
    """What a lake holds, and what it says to a query."""

    parts: Parts

    def tables(self) -> list[TableInfo]:
        """Every table, by database and name, as the ledger has it."""
        return [self._info(table) for table in self._tables()]

    def schema(self, name: str) -> TableInfo:
        """One table, named `database.table`."""
        known = {f"{table.database}.{table.name}": table for table in self._tables()}
        if name not in known:
            raise InvalidSettings(f"there is no table {name!r}: {_listed(known)}")
        return self._info(known[name])

    def query(self, sql: str, engine: str = "duckdb", master: str = "local[*]") -> pa.Table:
        """What DuckDB, or Spark, answers to a query over the lake's tables."""
        if engine not in ("duckdb", "spark"):
            raise InvalidSettings(f"engine is {engine!r}: choose one of duckdb, spark")
        with TemporaryDirectory(prefix="eventlake-") as scratch:
            tables = self._queried(sql, Path(scratch))
            if engine == "spark":
                return run_spark_query(LocalSpark(master).session(), tables, sql)
            return run_query(tables, sql)

    def _tables(self) -> list[LakeTable]:
        """The tables of all sources, under the names that they have now."""
        folders = sources(self.parts.store)
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            found = pool.map(partial(_tables_of, self.parts.store), folders)
        tables = (table for tables in found for table in tables)
        return sorted(tables, key=lambda table: (table.database, table.name))

    def _info(self, table: LakeTable) -> TableInfo:
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # in a bucket, each is some waiting
            rows = sum(pool.map(self._rows, table.files))
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
        )

    def _rows(self, file: LiveFile) -> int:
        """The rows of a file; its footer tells where somebody else wrote it."""
        if file.rows is not None:
            return file.rows
        store = self.parts.store
        with reading_parquet(store, file.path), store.open(file.path) as opened:
            return int(pq.read_metadata(opened).num_rows)

    def _queried(self, sql: str, scratch: Path) -> list[QueryTable]:
        """All tables, those that the query mentions with their files."""
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
            reports = replace(reports, files=report_files(self.parts.store, scratch))
        return [*tables, reports]

    def reports(self, source: str) -> list[dict[str, Any]]:
        """The lines of every report of a source, oldest run first."""
        settings = find_source(self.parts.store, source)
        folder = settings.folder if settings else source  # a source may have only failed so far
        lines = read_reports(self.parts.store, folder)
        if not (settings or lines):
            raise self._no_source(source)
        return lines

    def quarantine(self, source: str) -> pa.Table:
        """The lines that were no events, with their reasons."""
        settings = find_source(self.parts.store, source)
        if settings is None:
            raise self._no_source(source)
        found = (one.path for one in self.parts.store.objects(f"{QUARANTINE}/{settings.folder}"))
        tables = [self._rejected(path) for path in sorted(found) if _is_parquet(path)]
        return pa.concat_tables(tables) if tables else pa.table({})

    def _rejected(self, path: str) -> pa.Table:
        store = self.parts.store
        with reading_parquet(store, path), store.open(path) as file:
            table = pq.read_table(file, partitioning=None)
            if missing := set(REJECTED.names) - set(table.column_names):
                raise pa.ArrowInvalid(f"it has no column {min(missing)}")
            return table.select(REJECTED.names).cast(REJECTED)

    def verify(self, source: str, progress: Callable[[str], None] | None = None) -> Verification:
        """Compare the archive with the tables and the ledger with the catalog, by other code."""
        place = LakeFiles(*self.parts.store.filesystem())
        return verify(place, source, progress, self._registration)

    def _registration(self, database: str, name: str) -> Registration | None:
        table = self.parts.catalog.table(database, name)
        if table is None:
            return None
        return Registration(
            table.location,
            frozenset(column.name for column in table.columns),
            None if table.projected else frozenset(map(partition_path, table.partitions)),
        )

    def _no_source(self, source: str) -> InvalidSettings:
        known = {n for one in known_sources(self.parts.store) for n in (one.source, one.source_id)}
        names = ", ".join(sorted(known)) or "none yet"
        return InvalidSettings(f"there is no source {source!r} in this lake; known: {names}")


def _tables_of(store: Store, folder: str) -> list[LakeTable]:
    ledger = Ledger(store, folder)
    state, files = ledger.state(), ledger.live_files()
    if state.settings is None:
        return []
    return [
        LakeTable(
            database=state.settings.database,
            name=catalog_name(name, state.settings.table_prefix),
            source=state.settings.source,
            columns=schema.columns,
            partition_columns=state.settings.date_partition.columns,
            files=files.get(name, []),
        )
        for name, schema in state.tables.items()
    ]


def _listed(names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return "the lake has no tables yet"
    return f"known are {', '.join(known[:10])}{' …' if len(known) > 10 else ''}"


def _is_parquet(path: str) -> bool:
    """Whether an object is a Parquet file; engines leave out names that begin with a dot."""
    return path.endswith(".parquet") and not path.rpartition("/")[2].startswith(".")
