"""A Hive metastore: where Databricks, HDInsight, Spark and Trino find the tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from hive_metastore.ttypes import (
    AddPartitionsRequest,
    Database,
    DropPartitionsRequest,
    EnvironmentContext,
    GetTableRequest,
    GetTablesRequest,
    InvalidOperationException,
    RequestPartsSpec,
)

from eventlake.catalogs.changes import ChangedError, retry_on_change
from eventlake.catalogs.hive_calls import EXISTS, MISSING, HiveCalls
from eventlake.catalogs.hive_tables import (
    VERSION,
    catalog_table,
    check_locations,
    check_same,
    make_partition,
    make_table,
    missing_columns,
    partition_location,
    partition_name,
    partition_names,
    path_below,
    set_types,
)
from eventlake.catalogs.spark_schema import update_spark_schema
from eventlake.errors import EventLakeError, MissingTable
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.parallel import run_per_table
from eventlake.ports import NoProgress, Progress

MAX_BATCH = 500
"""Tables or partitions in one call."""

MARK = "eventlake.tables"
"""The parameter of databases that have tables of a lake."""


@dataclass(frozen=True)
class HiveCatalog:
    """A Hive database per source, in it an external table per event type."""

    calls: HiveCalls
    root: str
    """Such as `abfss://container@account.dfs.core.windows.net`; other tables are ignored."""
    databases_path: str = DEFAULT_LAYOUT.databases

    def databases(self) -> Sequence[str]:
        return list(self.calls.call("get_all_databases"))

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        """The tables of this lake in databases with our parameter or with a location in the lake.

        Other databases are not listed: a metastore may have thousands.
        """
        databases = [database] if database else filter(self._is_own, self.databases())
        entries = (entry for name in databases for entry in self._entries(name))
        return [
            catalog_table(self.root, one)
            for one in entries
            if path_below(self.root, one.sd) is not None
        ]

    def table(self, database: str, name: str) -> CatalogTable | None:
        entry = self._get(database, name)
        if entry is None or path_below(self.root, entry.sd) is None:
            return None
        table, keys = catalog_table(self.root, entry), partition_names(entry)
        every = ((dict(zip(keys, p.values, strict=True)), p) for p in self._partitions(table))
        return table.with_partitions([v for v, p in every if self._is_in_place(table, v, p)])

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
        entry = self._get(table.database, table.name)
        if entry is not None and not self._is_same(table, entry):
            if path_below(self.root, entry.sd) is None:
                check_same(self.root, table, entry)
            self._delete(table)
        self._ensure_table(table)
        self._correct_partitions(table)

    def retype(self, table: CatalogTable) -> None:
        entry = self._get(table.database, table.name)
        if entry is None:
            return
        check_same(self.root, table, entry)
        if not set_types(entry, table.columns):
            return
        # Partitions have columns of their own, and Hive reads them in these types.
        done = self._alter(entry, {"CASCADE": "true"}, accept=(InvalidOperationException,))
        if done is None:  # the server allows only changes to wider types
            values = [one.values for one in self._partitions(table)]
            keys = partition_names(entry)
            self._delete(table)
            self.calls.call("create_table", entry, accept=EXISTS)
            every = tuple(dict(zip(keys, one, strict=True)) for one in values)
            self._add_partitions(table.model_copy(update={"partitions": every}), entry)

    def remove_partitions(self, table: CatalogTable) -> None:
        self._delete_partitions(table, [partition_name(table, one) for one in table.partitions])

    def drop(self, table: CatalogTable) -> None:
        entry = self._get(table.database, table.name)
        if entry is not None:
            check_same(self.root, table, entry)
            self._delete(table)

    def _delete(self, table: CatalogTable) -> None:
        keep_files = False
        self.calls.call("drop_table", table.database, table.name, keep_files, accept=MISSING)

    # Databases

    def _ensure_database(self, name: str) -> None:
        if self.calls.call("get_database", name, accept=MISSING) is None:
            place = f"{self.root}/{self.databases_path}/{name}"
            made = Database(name=name, locationUri=place, parameters={MARK: "true"})
            self.calls.call("create_database", made, accept=EXISTS)

    def _is_own(self, name: str) -> bool:
        database = self.calls.call("get_database", name, accept=MISSING)
        if database is None:
            return False
        in_lake = f"{database.locationUri or ''}/".startswith(f"{self.root}/")
        return in_lake or MARK in (database.parameters or {})

    def _entries(self, database: str) -> Iterator[Any]:
        names = iter(self.calls.call("get_all_tables", database, accept=MISSING) or ())
        while batch := list(islice(names, MAX_BATCH)):
            request = GetTablesRequest(dbName=database, tblNames=batch)
            yield from self.calls.call("get_table_objects_by_name_req", request).tables

    # Tables

    def _get(self, database: str, name: str) -> Any:
        """A table as the metastore has it, or None."""
        request = GetTableRequest(dbName=database, tblName=name)
        answer = self.calls.call("get_table_req", request, accept=MISSING)
        return answer and answer.table

    def _is_same(self, table: CatalogTable, entry: Any) -> bool:
        same_keys = partition_names(entry) == table.partition_columns
        return path_below(self.root, entry.sd) == table.location and same_keys

    def _ensure_table(self, table: CatalogTable) -> None:
        change = self._add_columns if table.is_partial else self._create_or_update
        self._add_partitions(table, retry_on_change(self.calls.clock, partial(change, table)))

    def _create_or_update(self, table: CatalogTable) -> Any:
        """Create the table or add its missing columns; return it as the metastore has it."""
        made = make_table(self.root, table)
        if self.calls.call("create_table", made, accept=EXISTS) is not None:
            return made
        try:
            return self._add_columns(table)
        except MissingTable as problem:  # dropped since: try to create it again
            raise ChangedError(f"{table.full_name} in Hive keeps being dropped") from problem

    def _add_columns(self, table: CatalogTable) -> Any:
        """Add missing columns and return the table as the metastore has it; raises MissingTable.

        Registered partitions keep their columns: engines read those of the table.
        """
        entry = self._read(table)
        missing = missing_columns(entry, table.columns)
        if not missing:
            return entry
        entry.sd.cols = [*(entry.sd.cols or ()), *missing]
        self._alter(entry, {})
        # Hive 3.1 lets a concurrent change replace ours.
        after = self._read(table)
        if missing_columns(after, table.columns):
            raise ChangedError(f"{table.full_name} in Hive keeps changing")
        return after

    def _read(self, table: CatalogTable) -> Any:
        """The registered table; raises MissingTable, or InvalidSettings if it is another."""
        entry = self._get(table.database, table.name)
        if entry is None:
            raise MissingTable(f"the Hive metastore has no table {table.full_name}")
        check_same(self.root, table, entry)
        return entry

    def _alter(
        self, entry: Any, options: Mapping[str, str], accept: tuple[type[Exception], ...] = ()
    ) -> Any:
        """Change a table; raises ChangedError if its version in the metastore is not that of
        `entry`, where the server can tell.
        """
        update_spark_schema(entry)
        version = entry.parameters.get(VERSION, "")
        expected = {"expected_parameter_key": VERSION, "expected_parameter_value": version}
        entry.parameters[VERSION] = str(int(version or 0) + 1)
        context = EnvironmentContext({**options, **(expected if version else {})})
        names = entry.dbName, entry.tableName
        method = "alter_table_with_environment_context"
        return self.calls.call(method, *names, entry, context, accept=accept)

    # Partitions

    def _partitions(self, table: CatalogTable) -> Iterator[Any]:
        """Read partitions in batches: they all have columns, so that one answer might be huge."""
        names, every = (table.database, table.name), -1
        found = self.calls.call("get_partition_names", *names, every, accept=MISSING) or ()
        for start in range(0, len(found), MAX_BATCH):
            batch = found[start : start + MAX_BATCH]
            yield from self.calls.call("get_partitions_by_names", *names, batch)

    def _is_in_place(self, table: CatalogTable, values: Mapping[str, str], entry: Any) -> bool:
        """Whether a partition's location is its own folder; others are treated as missing."""
        if table.format != "parquet":
            return True
        return path_below(self.root, entry.sd) == partition_location("", table, values).strip("/")

    def _add_partitions(self, table: CatalogTable, entry: Any) -> None:
        each = {partition_name(table, one): one for one in table.partitions}
        made = (make_partition(self.root, table, entry, one) for one in each.values())
        while batch := list(islice(made, MAX_BATCH)):
            request = AddPartitionsRequest(
                table.database, table.name, batch, ifNotExists=True, needResult=False
            )
            self.calls.call("add_partitions_req", request)
        if table.format == "json" and each:  # lakes of a metastore share the table of reports
            names = table.database, table.name, list(each)
            check_locations(self.root, table, self.calls.call("get_partitions_by_names", *names))

    def _delete_partitions(self, table: CatalogTable, names: Sequence[str]) -> None:
        for start in range(0, len(names), MAX_BATCH):
            request = DropPartitionsRequest(
                table.database,
                table.name,
                RequestPartsSpec(names=names[start : start + MAX_BATCH]),
                deleteData=False,
                ifExists=True,
                needResult=False,
            )
            self.calls.call("drop_partitions_req", request, accept=MISSING)

    def _correct_partitions(self, table: CatalogTable) -> None:
        """Set partitions' locations to their own folders, and delete those not in `table`."""
        wanted = {
            tuple(one[name] for name in table.partition_columns): one for one in table.partitions
        }
        moved, extra = [], []
        for entry in self._partitions(table):
            values = wanted.get(tuple(entry.values))
            if values is None:
                keys = dict(zip(table.partition_columns, entry.values, strict=True))
                extra.append(partition_name(table, keys))
            elif entry.sd.location.rstrip("/") != (
                place := partition_location(self.root, table, values)
            ):
                entry.sd.location = place
                moved.append(entry)
        for start in range(0, len(moved), MAX_BATCH):
            batch = moved[start : start + MAX_BATCH]
            self.calls.call("alter_partitions", table.database, table.name, batch)
        self._delete_partitions(table, extra)
