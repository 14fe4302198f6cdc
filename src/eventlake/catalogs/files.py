"""A catalog in the lake itself, with one JSON file per table."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from eventlake.errors import EventLakeError
from eventlake.model.catalog import CatalogTable, merge_tables
from eventlake.model.layout import DEFAULT_LAYOUT, Layout
from eventlake.model.types import Type
from eventlake.parallel import MAX_REQUESTS, run_per_table
from eventlake.ports import Progress
from eventlake.stores import Store
from eventlake.stores.damage import parse_value, read_value

OWN_TYPES = frozenset(map(str, Type))


@dataclass(frozen=True)
class FilesCatalog:
    """Tables in `<database>/<table>.json` below the layout's catalog; a database is a folder."""

    store: Store
    layout: Layout = DEFAULT_LAYOUT

    def databases(self) -> Sequence[str]:
        return self.store.names(self.layout.catalog)[0]

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        folder = self.layout.catalog
        databases = [database] if database else self.databases()
        paths = [
            f"{folder}/{name}/{file}"
            for name in databases
            for file in self.store.names(f"{folder}/{name}")[1]
            if file.endswith(".json") and not file.startswith(".")  # ignore foreign files
        ]
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # reads from a bucket mostly wait
            return list(pool.map(self._list_entry, paths))

    def table(self, database: str, name: str) -> CatalogTable | None:
        path = self._path(database, name)
        return self._read(path) if self.store.exists(path) else None

    def ensure(
        self, tables: Sequence[CatalogTable], progress: Progress
    ) -> dict[str, EventLakeError]:
        work = [(table.full_name, partial(self._ensure_table, table)) for table in tables]
        return run_per_table("register", work, progress)

    def replace(self, table: CatalogTable) -> None:
        self.store.update(self._path(table.database, table.name), lambda _: table.to_json())

    def retype(self, table: CatalogTable) -> None:
        self._update(table, lambda before: before.with_types_of(table.columns))

    def remove_partitions(self, table: CatalogTable) -> None:
        self._update(table, lambda before: before.without_partitions(table.partitions))

    def _update(self, table: CatalogTable, change: Callable[[CatalogTable], CatalogTable]) -> None:
        """Change a registered table, atomically; does nothing if there is none."""
        path = self._path(table.database, table.name)

        def update(data: bytes | None) -> bytes | None:
            if data is None:
                return None
            return change(parse_value(self.store, path, CatalogTable, data)).to_json()

        self.store.update(path, update)

    def drop(self, table: CatalogTable) -> None:
        self.store.delete([self._path(table.database, table.name)])

    def _ensure_table(self, table: CatalogTable) -> None:
        # Two runs may register a table at the same time, and neither may undo the other's change.
        path = self._path(table.database, table.name)

        def update(data: bytes | None) -> bytes | None:
            before = None if data is None else parse_value(self.store, path, CatalogTable, data)
            after = merge_tables(before, table)
            return after.to_json() if after != before else None

        self.store.update(path, update)

    def _list_entry(self, path: str) -> CatalogTable:
        """Read a table without its partitions; types that EventLake does not use are foreign."""
        data = self.store.read(path)
        with suppress(msgspec.MsgspecError, KeyError, TypeError):  # parsing names what is wrong
            entry: dict[str, Any] = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            entry.pop("partitions", None)  # without parsing these, which may be many
            columns = msgspec.json.decode(entry["columns"])
            foreign = {one["name"]: one["type"] for one in columns if one["type"] not in OWN_TYPES}
            known = [one | {"type": "string"} if one["name"] in foreign else one for one in columns]
            data = msgspec.json.encode({**entry, "columns": known, "foreign": foreign})
        return parse_value(self.store, path, CatalogTable, data)

    def _read(self, path: str) -> CatalogTable:
        return read_value(self.store, path, CatalogTable)

    def _path(self, database: str, name: str) -> str:
        return f"{self.layout.catalog}/{database}/{name}.json"
