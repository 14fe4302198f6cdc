"""The catalog of a lake that is complete by itself: one JSON file per table, in the lake."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eventlake.errors import MissingTable
from eventlake.model.catalog import CatalogTable, check_location
from eventlake.model.layout import CATALOG
from eventlake.model.schema import Column
from eventlake.stores import Store
from eventlake.stores.damage import parse_value, read_value


@dataclass(frozen=True)
class FilesCatalog:
    """Tables under `segment-data/catalog/<database>/<table>.json`."""

    store: Store

    def database(self, name: str) -> None:
        """A database is there as soon as a table is in it."""

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        databases = [database] if database else self.store.names(CATALOG)[0]
        return [
            self._read(f"{CATALOG}/{name}/{file}").model_copy(update={"partitions": ()})
            for name in databases
            for file in self.store.names(f"{CATALOG}/{name}")[1]
            if file.endswith(".json") and not file.startswith(".")  # others are not ours
        ]

    def table(self, database: str, name: str) -> CatalogTable | None:
        path = _path(database, name)
        return self._read(path) if self.store.exists(path) else None

    def create(self, table: CatalogTable) -> None:
        def created(known: CatalogTable | None) -> CatalogTable:
            before = known or table
            return before.with_columns(table.columns).with_partitions(table.partitions)

        self._change(table, created)

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        self._change(table, lambda known: _existing(known, table).with_columns(columns))

    def add_partitions(self, table: CatalogTable, partitions: Sequence[Mapping[str, str]]) -> None:
        self._change(table, lambda known: _existing(known, table).with_partitions(partitions))

    def replace(self, table: CatalogTable) -> None:
        self.store.update(_path(table.database, table.name), lambda _: table.to_json())

    def drop(self, table: CatalogTable) -> None:
        self.store.delete([_path(table.database, table.name)])

    def _change(
        self, table: CatalogTable, change: Callable[[CatalogTable | None], CatalogTable]
    ) -> None:
        # Two runs may register one table at once, and neither may undo what the other wrote.
        path = _path(table.database, table.name)

        def changed(known: bytes | None) -> bytes | None:
            before = None if known is None else parse_value(self.store, path, CatalogTable, known)
            if before:
                check_location(table, before.location)
            after = change(before)
            return after.to_json() if after != before else None

        self.store.update(path, changed)

    def _read(self, path: str) -> CatalogTable:
        return read_value(self.store, path, CatalogTable)


def _existing(known: CatalogTable | None, table: CatalogTable) -> CatalogTable:
    if known is None:
        raise MissingTable(f"the catalog has no table {table.database}.{table.name}")
    return known


def _path(database: str, name: str) -> str:
    return f"{CATALOG}/{database}/{name}.json"
