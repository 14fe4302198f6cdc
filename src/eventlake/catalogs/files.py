"""The catalog of a lake that is complete by itself: one JSON file per table, in the lake."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eventlake.model.catalog import CatalogTable
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
        self._change(
            table, lambda known: known.with_columns(table.columns).with_partitions(table.partitions)
        )

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        self._change(table, lambda known: known.with_columns(columns))

    def add_partitions(self, table: CatalogTable, partitions: Sequence[Mapping[str, str]]) -> None:
        self._change(table, lambda known: known.with_partitions(partitions))

    def drop(self, table: CatalogTable) -> None:
        self.store.delete([_path(table.database, table.name)])

    def _change(self, table: CatalogTable, change: Callable[[CatalogTable], CatalogTable]) -> None:
        # Two runs may register one table at once, and neither may undo what the other wrote.
        path = _path(table.database, table.name)

        def changed(known: bytes | None) -> bytes | None:
            was = None if known is None else parse_value(self.store, path, CatalogTable, known)
            now = change(was or table)
            return now.to_json() if now != was else None

        self.store.change(path, changed)

    def _read(self, path: str) -> CatalogTable:
        return read_value(self.store, path, CatalogTable)


def _path(database: str, name: str) -> str:
    return f"{CATALOG}/{database}/{name}.json"
