"""Registration in catalogs, one table at a time, and a catalog in memory."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eventlake.errors import EventLakeError
from eventlake.model.catalog import CatalogTable, merge_tables
from eventlake.model.schema import Column
from eventlake.ports import Catalog, NoProgress, Progress


def register(catalog: Catalog, table: CatalogTable) -> None:
    """Register a table; raises the catalog's error."""
    for problem in catalog.ensure([table], NoProgress()).values():
        raise problem


def add_columns(catalog: Catalog, table: CatalogTable, columns: Sequence[Column]) -> None:
    change = {"columns": tuple(columns), "partitions": (), "is_partial": True}
    register(catalog, table.model_copy(update=change))


def add_partitions(
    catalog: Catalog, table: CatalogTable, partitions: Sequence[Mapping[str, str]]
) -> None:
    change = {"columns": (), "partitions": tuple(map(dict, partitions)), "is_partial": True}
    register(catalog, table.model_copy(update=change))


@dataclass(frozen=True)
class MemoryCatalog:
    """A catalog in memory: all that an adapter for another catalog needs."""

    entries: dict[str, CatalogTable] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def databases(self) -> Sequence[str]:
        return sorted({one.database for one in self.entries.values()})

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        entries = (one for one in self.entries.values() if database in ("", one.database))
        return [one.model_copy(update={"partitions": ()}) for one in entries]

    def table(self, database: str, name: str) -> CatalogTable | None:
        return self.entries.get(f"{database}.{name}")

    def ensure(
        self, tables: Sequence[CatalogTable], progress: Progress
    ) -> dict[str, EventLakeError]:
        errors: dict[str, EventLakeError] = {}
        with self.lock:
            for number, table in enumerate(tables, 1):
                try:
                    known = self.entries.get(table.full_name)
                    self.entries[table.full_name] = merge_tables(known, table)
                except EventLakeError as problem:
                    errors[table.full_name] = problem
                progress.step("register", number, len(tables), 0)
        return errors

    def replace(self, table: CatalogTable) -> None:
        self.entries[table.full_name] = table

    def retype(self, table: CatalogTable) -> None:
        before = self.entries[table.full_name]
        self.entries[table.full_name] = before.with_types_of(table.columns)

    def remove_partitions(self, table: CatalogTable) -> None:
        before = self.entries[table.full_name]
        self.entries[table.full_name] = before.without_partitions(table.partitions)

    def drop(self, table: CatalogTable) -> None:
        self.entries.pop(table.full_name, None)
