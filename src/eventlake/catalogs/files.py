"""The catalog of a lake that is complete by itself: one JSON file per table, in the lake."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import CATALOG
from eventlake.model.schema import Column
from eventlake.stores import Store


@dataclass(frozen=True)
class FilesCatalog:
    """Tables under `segment-data/catalog/<database>/<table>.json`."""

    store: Store

    def database(self, name: str) -> None:
        """A database is there as soon as a table is in it."""

    def tables(self) -> Sequence[CatalogTable]:
        databases, _ = self.store.names(CATALOG)
        return [
            self._read(f"{CATALOG}/{database}/{file}")
            for database in databases
            for file in self.store.names(f"{CATALOG}/{database}")[1]
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
        with self.store.alone(f"{CATALOG}/.lock"):
            known = self.table(table.database, table.name)
            changed = change(known or table)
            if changed != known:
                self.store.write(_path(table.database, table.name), changed.to_json())

    def _read(self, path: str) -> CatalogTable:
        return CatalogTable.from_json(self.store.read(path))


def _path(database: str, name: str) -> str:
    return f"{CATALOG}/{database}/{name}.json"
