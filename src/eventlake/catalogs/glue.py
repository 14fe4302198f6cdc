"""The AWS Glue Data Catalog: where Athena, EMR and Redshift Spectrum find the tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eventlake.aws import Access
from eventlake.catalogs.changes import ChangedError, retry_on_change
from eventlake.catalogs.glue_calls import EXISTS, MISSING, GlueCalls, resource_of
from eventlake.catalogs.glue_projection import ENABLED, missing_parameters
from eventlake.catalogs.glue_tables import (
    Shape,
    add_columns,
    catalog_table,
    check_locations,
    check_same,
    columns_of,
    glue_column,
    location,
    missing_columns,
    partition_input,
    partition_location,
    partition_names,
    partition_range,
    path_below,
    set_types,
    table_input,
)
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import EventLakeError, InsufficientPermissions, MissingTable
from eventlake.model.catalog import CatalogTable
from eventlake.parallel import run_per_table
from eventlake.ports import NoProgress, Progress

MAX_DELETE_BATCH = 25
"""Glue's maximum of partitions in one delete call."""

MARK = "eventlake.tables"
"""The parameter of databases that have tables of a lake."""

Partitions = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class GlueCatalog:
    """A Glue database per source, in it an external table per event type."""

    access: Access
    root: str
    """Such as `s3://bucket`; tables with another location are ignored."""
    catalog_id: str = ""
    projection: bool = False
    """Use Athena's partition projection; register partitions of the reports only."""
    clock: Clock = SYSTEM_CLOCK

    @property
    def _calls(self) -> GlueCalls:
        return GlueCalls(self.access, self.catalog_id, self.clock)

    def databases(self) -> Sequence[str]:
        return [
            one["Name"] for one in self._calls.pages("GetDatabases", "DatabaseList", "catalog", {})
        ]

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        """The tables of this lake in databases with our parameter or with a location in the lake.

        Other databases are not listed: an account may have thousands.
        """
        databases = [database] if database else self._databases()
        tables = (table for name in databases for table in self._tables_of(name))
        return [catalog_table(self.root, table) for table in tables]

    def table(self, database: str, name: str) -> CatalogTable | None:
        current = self._get(database, name)
        if current is None or path_below(self.root, current) is None:
            return None
        return self._read(current)

    def ensure(
        self, tables: Sequence[CatalogTable], progress: Progress
    ) -> dict[str, EventLakeError]:
        names = {table.database for table in tables}
        databases = [(name, partial(self._ensure_database, name)) for name in names]
        refused = run_per_table("register", databases, NoProgress())
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

    def replace(self, table: CatalogTable) -> None:
        self._ensure_database(table.database)
        current = self._get(table.database, table.name)
        if current is not None and not self._is_same(table, current):
            if path_below(self.root, current) is None:
                check_same(self.root, table, current)
            self._delete(table)
        self._ensure_table(table)
        if not self._projects(table):
            self._correct_partitions(table)

    def _is_same(self, table: CatalogTable, current: Shape) -> bool:
        same_keys = partition_names(current) == table.partition_columns
        return path_below(self.root, current) == table.location and same_keys

    def retype(self, table: CatalogTable) -> None:
        retry_on_change(self.clock, partial(self._retype, table))

    def _retype(self, table: CatalogTable) -> None:
        current = self._get(table.database, table.name)
        if current is None:
            return
        check_same(self.root, table, current)
        columns = list(map(glue_column, table.columns))
        writable = self._calls.writable_fields("Partition")
        # Partitions first: until the table has the types, a run that recovers repeats this.
        entries = (
            {"PartitionValueList": one["Values"], "PartitionInput": changed}
            for one in self._partitions(table)
            if (changed := set_types(one, columns, writable))
        )
        self._calls.call_in_batches("BatchUpdatePartition", "Entries", table, entries)
        if update := set_types(current, columns, self._calls.writable_fields("Table")):
            self._update_table(table, current, update)

    def remove_partitions(self, table: CatalogTable) -> None:
        if self._projects(table):
            return
        keys = table.partition_columns
        values = [{"Values": [one[name] for name in keys]} for one in table.partitions]
        self._delete_partitions(table, values)

    def _delete_partitions(self, table: CatalogTable, values: Sequence[Shape]) -> None:
        for start in range(0, len(values), MAX_DELETE_BATCH):
            batch = values[start : start + MAX_DELETE_BATCH]
            self._calls.call_in_batches("BatchDeletePartition", "PartitionsToDelete", table, batch)

    def _update_table(self, table: CatalogTable, current: Shape, update: Shape) -> None:
        arguments = {
            "DatabaseName": table.database,
            "TableInput": update,
            "VersionId": current["VersionId"],
            # Glue keeps old versions up to a limit, which hourly syncs would reach.
            "SkipArchive": True,
        }
        self._calls.call("UpdateTable", resource_of(table), arguments)

    def drop(self, table: CatalogTable) -> None:
        current = self._get(table.database, table.name)
        if current is not None:
            check_same(self.root, table, current)
            self._delete(table)

    def _delete(self, table: CatalogTable) -> None:
        arguments = {"DatabaseName": table.database, "Name": table.name}
        self._calls.call("DeleteTable", resource_of(table), arguments, accept=MISSING)

    # Databases

    def _ensure_database(self, name: str) -> None:
        resource = f"database/{name}"
        result = self._calls.call("GetDatabase", resource, {"Name": name}, accept=MISSING)
        if result is None:
            arguments = {"DatabaseInput": {"Name": name, "Parameters": {MARK: "true"}}}
            self._calls.call("CreateDatabase", resource, arguments, accept=EXISTS)
        elif MARK not in result["Database"].get("Parameters", {}):
            self._mark(result["Database"])

    def _mark(self, current: Shape) -> None:
        """Add our parameter to an existing database; give up silently if that is not possible."""
        writable = self._calls.writable_fields("Database")
        kept = {name: value for name, value in current.items() if name in writable}
        marked = {**kept, "Parameters": {**current.get("Parameters", {}), MARK: "true"}}
        arguments = {"Name": current["Name"], "DatabaseInput": marked}
        try:
            self._calls.call("UpdateDatabase", f"database/{current['Name']}", arguments)
        except (InsufficientPermissions, ChangedError):
            return

    def _databases(self) -> list[str]:
        return [
            database["Name"]
            for database in self._calls.pages("GetDatabases", "DatabaseList", "catalog", {})
            if MARK in database.get("Parameters", {})
            or f"{database.get('LocationUri', '')}/".startswith(f"{self.root}/")
        ]

    def _tables_of(self, database: str) -> list[Shape]:
        arguments = {"DatabaseName": database}
        tables = self._calls.pages("GetTables", "TableList", f"database/{database}", arguments)
        return [table for table in tables if path_below(self.root, table) is not None]

    # Tables

    def _ensure_table(self, table: CatalogTable) -> None:
        change = self._read_and_update if table.is_partial else self._create_or_update
        current = retry_on_change(self.clock, partial(change, table))
        self._add_partitions(table, current)

    def _get(self, database: str, name: str) -> Shape | None:
        arguments = {"DatabaseName": database, "Name": name}
        result = self._calls.call("GetTable", f"table/{database}/{name}", arguments, accept=MISSING)
        return result and dict(result["Table"])

    def _read(self, current: Shape) -> CatalogTable:
        table, keys = catalog_table(self.root, current), partition_names(current)
        partitions = self._partitions(table, ExcludeColumnSchema=True)
        every = ((dict(zip(keys, one["Values"], strict=False)), one) for one in partitions)
        return table.with_partitions([v for v, one in every if self._is_in_place(table, v, one)])

    def _is_in_place(self, table: CatalogTable, values: Mapping[str, str], current: Shape) -> bool:
        """Whether a partition's location is its own folder; others are treated as missing."""
        if table.format != "parquet":
            return True
        place = path_below(self.root, current)
        return place == partition_location("", table, values).strip("/")

    def _try_create(self, table: CatalogTable) -> Shape | None:
        """Create a table and return it; None if it exists."""
        made = table_input(self.root, table)
        made["Parameters"] |= self._projection(table, {}, table.partitions)
        arguments = {"DatabaseName": table.database, "TableInput": made}
        is_new = (
            self._calls.call("CreateTable", resource_of(table), arguments, accept=EXISTS)
            is not None
        )
        return made if is_new else None

    def _create_or_update(self, table: CatalogTable) -> Shape:
        """Create the table or add its missing columns; return it as Glue has it."""
        made = self._try_create(table)
        if made is not None:
            return made
        try:
            return self._read_and_update(table)
        except MissingTable as problem:  # dropped since: try to create it again
            raise ChangedError(f"{resource_of(table)} in Glue keeps being dropped") from problem

    def _read_and_update(self, table: CatalogTable) -> Shape:
        """Add missing columns and parameters, and return the table as Glue has it.

        Raises MissingTable.
        """
        current = self._get(table.database, table.name)
        if current is None:
            raise MissingTable(f"Glue has no table {table.full_name}")
        check_same(self.root, table, current)
        parameters, partitions = current.get("Parameters", {}), table.partitions
        if self._projects(table) and ENABLED not in parameters:
            # Athena ignores registered partitions from now on.
            partitions += self._read(current).partitions
        added = self._projection(table, parameters, partitions)
        missing = missing_columns(columns_of(current), list(map(glue_column, table.columns)))
        if not missing and not added:
            return current
        update = add_columns(current, missing, self._calls.writable_fields("Table"))
        update["Parameters"] = {**parameters, **added}
        if missing:
            # Partitions first: if this process dies in between, the table still lacks the
            # columns, so the run that recovers repeats the update.
            self._add_columns_to_partitions(table, columns_of(update))
        self._update_table(table, current, update)
        return update

    def _projection(
        self, table: CatalogTable, current: Mapping[str, str], partitions: Partitions
    ) -> dict[str, str]:
        if not self._projects(table):
            return {}
        return missing_parameters(
            current,
            table.partition_columns,
            partitions,
            location(self.root, table),
            f"{self.clock.now():%Y-%m-%d}",
        )

    def _projects(self, table: CatalogTable) -> bool:
        # The reports are partitioned by source, which projection cannot enumerate.
        return self.projection and table.format == "parquet"

    # Partitions

    def _partitions(self, table: CatalogTable, **arguments: Any) -> Iterator[Shape]:
        arguments |= {"DatabaseName": table.database, "TableName": table.name}
        return self._calls.pages("GetPartitions", "Partitions", resource_of(table), arguments)

    def _add_partitions(self, table: CatalogTable, current: Shape) -> None:
        if self._projects(table):
            return
        keys = table.partition_columns
        each = {tuple(one[name] for name in keys): one for one in table.partitions}
        inputs = [partition_input(self.root, table, current, dict(one)) for one in each.values()]
        self._calls.call_in_batches("BatchCreatePartition", "PartitionInputList", table, inputs)
        if table.format == "json" and inputs:  # lakes of an account share the table of reports
            chosen = partition_range(table, inputs)
            current_ones = self._partitions(table, Expression=chosen, ExcludeColumnSchema=True)
            check_locations(table, inputs, current_ones)

    def _correct_partitions(self, table: CatalogTable) -> None:
        """Set partitions' locations to their own folders, and delete those not in `table`."""
        wanted = {
            tuple(one.values()): partition_location(self.root, table, one)
            for one in table.partitions
        }
        writable, moved, extra = self._calls.writable_fields("Partition"), [], []
        for one in self._partitions(table):
            place = wanted.get(tuple(one["Values"]))
            if place is None:
                extra.append({"Values": one["Values"]})
            elif one["StorageDescriptor"]["Location"].rstrip("/") != place.rstrip("/"):
                storage = {**one["StorageDescriptor"], "Location": place}
                kept = {name: value for name, value in one.items() if name in writable}
                moved.append(
                    {
                        "PartitionValueList": one["Values"],
                        "PartitionInput": {**kept, "StorageDescriptor": storage},
                    }
                )
        self._calls.call_in_batches("BatchUpdatePartition", "Entries", table, moved)
        self._delete_partitions(table, extra)

    def _add_columns_to_partitions(self, table: CatalogTable, columns: Sequence[Shape]) -> None:
        """Add a table's columns to those of its partitions that lack any."""
        writable = self._calls.writable_fields("Partition")
        entries = (
            {
                "PartitionValueList": one["Values"],
                "PartitionInput": add_columns(one, missing, writable),
            }
            for one in self._partitions(table)
            if (missing := missing_columns(columns_of(one), columns))
        )
        self._calls.call_in_batches("BatchUpdatePartition", "Entries", table, entries)
