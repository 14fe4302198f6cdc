"""Unity Catalog: where the tables of a lake are for Databricks."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from eventlake.catalogs.changes import ChangedError, retry_on_change
from eventlake.catalogs.unity_tables import (
    SCHEMA_COMMENT,
    catalog_table,
    change_table_statement,
    create_schema_statement,
    create_table_statement,
    drop_table_statement,
    path_below,
    unity_table,
)
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.databricks.sql import SqlError, Warehouse
from eventlake.databricks.unity import UnityApi, UnityTable
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.catalog import CatalogTable, merge_tables
from eventlake.model.schema import Column
from eventlake.parallel import run_per_table
from eventlake.ports import NoProgress, Progress

_EXISTS = ("COLUMN_ALREADY_EXISTS", "FIELD_ALREADY_EXISTS", "FIELDS_ALREADY_EXISTS")


class Registrar(Protocol):
    """Changes the entries of one catalog."""

    @property
    def probe_format(self) -> str:
        """A format of tables that can be registered without files."""

    def create_schema(self, schema: str) -> None:
        """Create a schema, unless it exists."""

    def create_table(self, table: UnityTable) -> None:
        """Create a table, unless one of the name exists."""

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        """Add columns that the entry lacks; raises ChangedError if it has one of them."""

    def drop_table(self, table: CatalogTable) -> None:
        """Remove a table, unless it is gone; its files stay."""


@dataclass(frozen=True)
class UnityCatalog:
    """A schema per source in one catalog, in it an external table per event type.

    Partitions are not registered: Databricks finds those of Delta tables in their log, and those of
    other tables by their folders.
    """

    api: UnityApi
    registrar: Registrar
    root: str
    """The address of the lake's storage; tables elsewhere are ignored."""
    clock: Clock = SYSTEM_CLOCK
    follows_tables = True

    @property
    def probe_format(self) -> str:
        """The format of the table with which `eventlake check` tries the catalog."""
        return self.registrar.probe_format

    def databases(self) -> Sequence[str]:
        return [name for name, _ in self.api.schemas()]

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        """The tables of this lake in one schema, or in all that EventLake created."""
        names = [database] if database else self._own_schemas()
        entries = (one for name in names for one in self.api.tables(name))
        return [
            catalog_table(self.root, one)
            for one in entries
            if path_below(self.root, one) is not None
        ]

    def _own_schemas(self) -> list[str]:
        return [name for name, comment in self.api.schemas() if comment == SCHEMA_COMMENT]

    def table(self, database: str, name: str) -> CatalogTable | None:
        found = self._find(database, name)
        return found if found and not _is_elsewhere(found) else None

    def _find(self, database: str, name: str) -> CatalogTable | None:
        found = self.api.table(database, name)
        return found and catalog_table(self.root, found)

    def ensure(
        self, tables: Sequence[CatalogTable], progress: Progress
    ) -> dict[str, EventLakeError]:
        names = {table.database for table in tables}
        schemas = [(name, partial(self._ensure_schema, name)) for name in names]
        refused = run_per_table("register", schemas, NoProgress())
        work = [
            (table.full_name, partial(self._ensure_table, table))
            for table in tables
            if table.database not in refused
        ]
        errors = run_per_table("register", work, progress)
        errors |= {
            one.full_name: refused[one.database] for one in tables if one.database in refused
        }
        return errors

    def _ensure_schema(self, name: str) -> None:
        if not self.api.has_schema(name):
            self.registrar.create_schema(name)

    def _ensure_table(self, table: CatalogTable) -> None:
        retry_on_change(self.clock, partial(self._create_or_change, table))

    def _create_or_change(self, table: CatalogTable) -> None:
        found = self._find(table.database, table.name)
        merge_tables(found, table)
        if found is None:
            self.registrar.create_table(unity_table(self.root, table))
            # Another run may have created it at the same time, elsewhere.
            merge_tables(self._find(table.database, table.name), table)
        elif missing := found.missing_columns(table.columns):
            self.registrar.add_columns(table, missing)

    def replace(self, table: CatalogTable) -> None:
        self._ensure_schema(table.database)
        found = self._find(table.database, table.name)
        if found and _is_elsewhere(found):
            merge_tables(found, table)
        keys = table.partition_columns if table.format != "json" else ()
        if found and (found.location != table.location or found.partition_columns != keys):
            self.registrar.drop_table(found)
        self._ensure_table(table.model_copy(update={"is_partial": False}))

    def retype(self, table: CatalogTable) -> None:
        found = self._find(table.database, table.name)
        if found is None:
            return
        merge_tables(found, table)
        wanted = found.with_types_of(table.columns)
        if table.format == "delta":  # its log has the new types
            self.registrar.add_columns(wanted, ())
        elif wanted != found:
            self.registrar.drop_table(found)
            self.registrar.create_table(unity_table(self.root, wanted))

    def remove_partitions(self, table: CatalogTable) -> None:
        """Nothing: partitions are not registered."""

    def drop(self, table: CatalogTable) -> None:
        found = self._find(table.database, table.name)
        if found is not None:
            merge_tables(found, table)
            self.registrar.drop_table(table)


def _is_elsewhere(found: CatalogTable) -> bool:
    """Whether a table is not in the lake: its location is then a whole address."""
    return ":" in found.location


@dataclass(frozen=True)
class SqlRegistrar:
    """Changes entries by statements on a SQL warehouse."""

    warehouse: Warehouse
    catalog: str
    probe_format = "parquet"

    def create_schema(self, schema: str) -> None:
        self.warehouse.execute(create_schema_statement(self.catalog, schema))

    def create_table(self, table: UnityTable) -> None:
        self.warehouse.execute(create_table_statement(self.catalog, table))

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        try:
            self.warehouse.execute(change_table_statement(self.catalog, table, columns))
        except SqlError as problem:
            if problem.sql_code not in _EXISTS:
                raise
            raise ChangedError(f"{table.full_name} keeps changing: {problem}") from problem

    def drop_table(self, table: CatalogTable) -> None:
        self.warehouse.execute(drop_table_statement(self.catalog, table))


@dataclass(frozen=True)
class ApiRegistrar:
    """Changes entries by Unity Catalog's API, which has only Delta tables and no new columns.

    A table with new columns is registered anew, with the grants that it had.
    """

    api: UnityApi
    root: str
    probe_format = "delta"

    def create_schema(self, schema: str) -> None:
        self.api.create_schema(schema, SCHEMA_COMMENT)

    def create_table(self, table: UnityTable) -> None:
        if table.format == "json":  # the table of reports, without which a lake is complete
            return
        if table.format != "delta":
            raise InvalidSettings(
                f"the table {table.schema}.{table.name} is of the format {table.format}, and "
                "without a SQL warehouse only Delta tables can be registered: set registration "
                "= 'sql'"
            )
        self.api.create_table(table)

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        grants = []
        with suppress(EventLakeError):  # only who may manage the table reads them
            grants = self.api.grants(table.database, table.name)
        found = self.api.table(table.database, table.name)
        kept = catalog_table(self.root, found) if found else table
        wanted = kept.with_columns(columns) if columns else kept.with_types_of(table.columns)
        self.drop_table(table)
        self.create_table(unity_table(self.root, wanted))
        self.api.restore_grants(table.database, table.name, grants)

    def drop_table(self, table: CatalogTable) -> None:
        self.api.delete_table(table.database, table.name)
