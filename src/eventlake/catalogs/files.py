"""A catalog in the lake itself, with one JSON file per table."""

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
        """Do nothing: a database is the folder of its tables."""

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        databases = [database] if database else self.store.names(CATALOG)[0]
        return [
            self._read(f"{CATALOG}/{name}/{file}").model_copy(update={"partitions": ()})
            for name in databases
            for file in self.store.names(f"{CATALOG}/{name}")[1]
            if file.endswith(".json") and not file.startswith(".")  # ignore foreign files
        ]

    def table(self, database: str, name: str) -> CatalogTable | None:
        path = _path(database, name)
        return self._read(path) if self.store.exists(path) else None

    def create(self, table: CatalogTable) -> None:
        def merge(registered: CatalogTable | None) -> CatalogTable:
            before = registered or table
            return before.with_columns(table.columns).with_partitions(table.partitions)

        self._update(table, merge)

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        self._update(table, lambda registered: _require(registered, table).with_columns(columns))

    def add_partitions(self, table: CatalogTable, partitions: Sequence[Mapping[str, str]]) -> None:
        self._update(
            table, lambda registered: _require(registered, table).with_partitions(partitions)
        )

    def replace(self, table: CatalogTable) -> None:
        self.store.update(_path(table.database, table.name), lambda _: table.to_json())

    def drop(self, table: CatalogTable) -> None:
        self.store.delete([_path(table.database, table.name)])

    def _update(
        self, table: CatalogTable, change: Callable[[CatalogTable | None], CatalogTable]
    ) -> None:
        # Two runs may register a table at the same time, and neither may undo the other's change.
        path = _path(table.database, table.name)

        def update(data: bytes | None) -> bytes | None:
            before = None if data is None else parse_value(self.store, path, CatalogTable, data)
            if before:
                check_location(table, before.location)
            after = change(before)
            return after.to_json() if after != before else None

        self.store.update(path, update)

    def _read(self, path: str) -> CatalogTable:
        return read_value(self.store, path, CatalogTable)


def _require(registered: CatalogTable | None, table: CatalogTable) -> CatalogTable:
    if registered is None:
        raise MissingTable(f"the catalog has no table {table.database}.{table.name}")
    return registered


def _path(database: str, name: str) -> str:
    return f"{CATALOG}/{database}/{name}.json"
