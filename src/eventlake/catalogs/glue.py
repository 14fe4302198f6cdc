"""The AWS Glue Data Catalog: where Athena, EMR and Redshift Spectrum find the tables."""

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from eventlake.aws import Access, aws_errors, error_code
from eventlake.catalogs.glue_projection import ENABLED, projection
from eventlake.catalogs.glue_tables import (
    Shape,
    below,
    catalog_table,
    check_same,
    columns_of,
    glue_column,
    grown,
    lacking,
    location,
    partition_input,
    partition_location,
    partition_names,
    table_input,
)
from eventlake.errors import InsufficientPermissions, MissingTable, Unavailable
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column

BATCH = 100
"""Partitions that Glue takes in one call."""
DELETE_BATCH = 25
"""Partitions that Glue deletes in one call."""
TRIES = 8
"""How often a table is read again that someone else has changed meanwhile."""

MARK = "eventlake.tables"
"""The database parameter that says: here may be tables of a lake."""

MISSING, EXISTS = "EntityNotFoundException", "AlreadyExistsException"
CHANGED = "ConcurrentModificationException"

Partitions = Sequence[Mapping[str, str]]


class _Changed(Unavailable):
    """Someone else was faster: look again."""


@dataclass(frozen=True)
class GlueCatalog:
    """A Glue database per source, in it an external table per event type."""

    access: Access
    root: str
    """Such as `s3://bucket`; tables that lie elsewhere are none of ours."""
    catalog_id: str = ""
    projection: bool = False
    """Have Athena reckon the partitions, and register none but those of the reports."""

    def database(self, name: str) -> None:
        resource = f"database/{name}"
        found = self._ask("GetDatabase", resource, {"Name": name}, accept=MISSING)
        if found is None:
            made = {"DatabaseInput": {"Name": name, "Parameters": {MARK: "true"}}}
            self._ask("CreateDatabase", resource, made, accept=EXISTS)
        elif MARK not in found["Database"].get("Parameters", {}):
            self._mark(found["Database"])

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        """Every table of this lake that is in a marked database, or in one that lies in the lake.

        An account may have thousands of databases, and those of others are not looked into.
        """
        databases = [database] if database else self._databases()
        found = (table for name in databases for table in self._tables_of(name))
        return [catalog_table(self.root, table) for table in found]

    def table(self, database: str, name: str) -> CatalogTable | None:
        known = self._get(database, name)
        return None if known is None or below(self.root, known) is None else self._read(known)

    def create(self, table: CatalogTable) -> None:
        known = _persist(partial(self._ensure, table))
        self._add_partitions(table, known, table.partitions)

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        self._with(table, columns, ())

    def add_partitions(self, table: CatalogTable, partitions: Partitions) -> None:
        if partitions:
            self._add_partitions(table, self._with(table, (), partitions), partitions)

    def replace(self, table: CatalogTable) -> None:
        known = self._get(table.database, table.name)
        if known is not None and not self._is_same(table, known):
            if below(self.root, known) is None:
                check_same(self.root, table, known)
            self._delete(table)
        self.create(table)
        if not self._projects(table):
            self._correct_partitions(table)

    def _is_same(self, table: CatalogTable, known: Shape) -> bool:
        same_keys = partition_names(known) == table.partition_columns
        return below(self.root, known) == table.location and same_keys

    def drop(self, table: CatalogTable) -> None:
        known = self._get(table.database, table.name)
        if known is not None:
            check_same(self.root, table, known)
            self._delete(table)

    def _delete(self, table: CatalogTable) -> None:
        given = {"DatabaseName": table.database, "Name": table.name}
        self._ask("DeleteTable", _table(table), given, accept=MISSING)

    # Databases

    def _mark(self, known: Shape) -> None:
        """Say that a database that was there before is one to look into; it is as good without."""
        kept = {name: value for name, value in known.items() if name in self._takes("Database")}
        marked = {**kept, "Parameters": {**known.get("Parameters", {}), MARK: "true"}}
        given = {"Name": known["Name"], "DatabaseInput": marked}
        try:
            self._ask("UpdateDatabase", f"database/{known['Name']}", given)
        except (InsufficientPermissions, _Changed):
            return

    def _databases(self) -> list[str]:
        return [
            found["Name"]
            for found in self._pages("GetDatabases", "DatabaseList", "catalog", {})
            if MARK in found.get("Parameters", {})
            or f"{found.get('LocationUri', '')}/".startswith(f"{self.root}/")
        ]

    def _tables_of(self, database: str) -> list[Shape]:
        given = {"DatabaseName": database}
        found = self._pages("GetTables", "TableList", f"database/{database}", given)
        return [table for table in found if below(self.root, table) is not None]

    # Tables

    def _get(self, database: str, name: str) -> Shape | None:
        given = {"DatabaseName": database, "Name": name}
        found = self._ask("GetTable", f"table/{database}/{name}", given, accept=MISSING)
        return found and dict(found["Table"])

    def _read(self, known: Shape) -> CatalogTable:
        table, keys = catalog_table(self.root, known), partition_names(known)
        found = self._partitions(table, ExcludeColumnSchema=True)
        every = ((dict(zip(keys, one["Values"], strict=False)), one) for one in found)
        return table.with_partitions([v for v, one in every if self._is_in_place(table, v, one)])

    def _is_in_place(self, table: CatalogTable, values: Mapping[str, str], known: Shape) -> bool:
        """Whether a partition reads its own folder; one that reads another is as good as none."""
        if table.format != "parquet":
            return True
        place = below(self.root, known)
        return place == partition_location("", table, values).strip("/")

    def _make(self, table: CatalogTable) -> Shape | None:
        """The table as it was made; None when it was there."""
        made = table_input(self.root, table)
        made["Parameters"] |= self._projection(table, {}, table.partitions)
        given = {"DatabaseName": table.database, "TableInput": made}
        is_new = self._ask("CreateTable", _table(table), given, accept=EXISTS) is not None
        return made if is_new else None

    def _with(
        self, table: CatalogTable, columns: Sequence[Column], partitions: Partitions
    ) -> Shape:
        """Add columns, and return the table as Glue has it; MissingTable if it has none."""
        known: Shape = _persist(partial(self._grow, table, columns, partitions))
        return known

    def _ensure(self, table: CatalogTable) -> Shape:
        """Create the table, or add the columns that it lacks; return it as Glue has it."""
        made = self._make(table)
        if made is not None:
            return made
        try:
            return self._grow(table, table.columns, table.partitions)
        except MissingTable as problem:  # dropped since: try to create it again
            raise _Changed(f"others keep dropping {_table(table)} in Glue") from problem

    def _grow(
        self, table: CatalogTable, columns: Sequence[Column], partitions: Partitions
    ) -> Shape:
        known = self._get(table.database, table.name)
        if known is None:
            raise MissingTable(f"Glue has no table {table.database}.{table.name}")
        check_same(self.root, table, known)
        return self._update(table, known, columns, partitions)

    def _update(
        self,
        table: CatalogTable,
        known: Shape,
        columns: Sequence[Column],
        partitions: Partitions,
    ) -> Shape:
        """What others put there stays: only what is lacking is added to what Glue gave."""
        parameters = known.get("Parameters", {})
        if self._projects(table) and ENABLED not in parameters:
            # From now on Athena asks for none of those that are registered.
            partitions = [*partitions, *self._read(known).partitions]
        added = self._projection(table, parameters, partitions)
        lacks = lacking(columns_of(known), list(map(glue_column, columns)))
        if not lacks and not added:
            return known
        update = grown(known, lacks, self._takes("Table"))
        update["Parameters"] = {**parameters, **added}
        if lacks:
            # First the partitions: if we end in between, the table still lacks the columns, and
            # whoever finishes the run finds that there is something left to do.
            self._pass_on(table, columns_of(update))
        given = {
            "DatabaseName": table.database,
            "TableInput": update,
            "VersionId": known["VersionId"],
            # Glue keeps every old version and stops at a limit, which hourly syncs would reach.
            "SkipArchive": True,
        }
        self._ask("UpdateTable", _table(table), given)
        return update

    def _projection(
        self, table: CatalogTable, known: Mapping[str, str], partitions: Partitions
    ) -> dict[str, str]:
        if not self._projects(table):
            return {}
        return projection(known, table.partition_columns, partitions, location(self.root, table))

    def _projects(self, table: CatalogTable) -> bool:
        # Which sources there are, Athena cannot reckon.
        return self.projection and table.format == "parquet"

    # Partitions

    def _partitions(self, table: CatalogTable, **given: Any) -> Iterator[Shape]:
        named = {"DatabaseName": table.database, "TableName": table.name, **given}
        return self._pages("GetPartitions", "Partitions", _table(table), named)

    def _add_partitions(self, table: CatalogTable, known: Shape, partitions: Partitions) -> None:
        if self._projects(table):
            return
        each = {tuple(one[name] for name in table.partition_columns): one for one in partitions}
        inputs = [partition_input(self.root, table, known, dict(one)) for one in each.values()]
        self._batches("BatchCreatePartition", "PartitionInputList", table, inputs)

    def _correct_partitions(self, table: CatalogTable) -> None:
        """Point partitions at their own folders, and remove those that the table has not."""
        wanted = {
            tuple(one.values()): partition_location(self.root, table, one)
            for one in table.partitions
        }
        takes, moved, extra = self._takes("Partition"), [], []
        for one in self._partitions(table):
            place = wanted.get(tuple(one["Values"]))
            if place is None:
                extra.append({"Values": one["Values"]})
            elif one["StorageDescriptor"]["Location"].rstrip("/") != place.rstrip("/"):
                storage = {**one["StorageDescriptor"], "Location": place}
                kept = {name: value for name, value in one.items() if name in takes}
                moved.append(
                    {
                        "PartitionValueList": one["Values"],
                        "PartitionInput": {**kept, "StorageDescriptor": storage},
                    }
                )
        self._batches("BatchUpdatePartition", "Entries", table, moved)
        for start in range(0, len(extra), DELETE_BATCH):
            batch = extra[start : start + DELETE_BATCH]
            self._batches("BatchDeletePartition", "PartitionsToDelete", table, batch)

    def _pass_on(self, table: CatalogTable, columns: Sequence[Shape]) -> None:
        """Give a table's columns to those of its partitions that lack any."""
        takes = self._takes("Partition")
        entries = (
            {"PartitionValueList": one["Values"], "PartitionInput": grown(one, lacks, takes)}
            for one in self._partitions(table)
            if (lacks := lacking(columns_of(one), columns))
        )
        self._batches("BatchUpdatePartition", "Entries", table, entries)

    def _batches(
        self,
        action: str,
        field: str,
        table: CatalogTable,
        items: Collection[Shape] | Iterator[Shape],
    ) -> None:
        rest = iter(items)
        while batch := list(islice(rest, BATCH)):
            given = {"DatabaseName": table.database, "TableName": table.name, field: batch}
            answer = _persist(partial(self._ask, action, _table(table), given))
            with self._errors(action, _table(table)):
                _raise_first(action, answer.get("Errors", ()))

    # Calls

    def _ask(self, action: str, resource: str, given: Mapping[str, Any], accept: str = "") -> Any:
        """Glue's answer; None when it refuses with the code that is accepted."""
        call = getattr(self.access.client("glue"), xform_name(action))
        with self._errors(action, resource):
            try:
                return call(**self._catalog, **given)
            except ClientError as problem:
                if error_code(problem) == CHANGED:
                    raise _Changed(
                        f"others keep changing {resource} in Glue: {problem}"
                    ) from problem
                if error_code(problem) != accept:
                    raise
                return None

    def _pages(
        self, action: str, field: str, resource: str, given: Mapping[str, Any]
    ) -> Iterator[Shape]:
        """All that Glue lists; nothing of what is not there, or not there any more."""
        pages = self.access.client("glue").get_paginator(xform_name(action))
        with self._errors(action, resource):
            try:
                for page in pages.paginate(**self._catalog, **given):
                    yield from page.get(field, ())
            except ClientError as problem:
                if error_code(problem) != MISSING:
                    raise

    def _errors(self, action: str, resource: str) -> AbstractContextManager[None]:
        partition = self.access.client("glue").meta.partition
        arn = f"arn:{partition}:glue:{self.access.region}:{self.catalog_id or '*'}:{resource}"
        above = {"table": ", its database and the catalog", "database": " and the catalog"}
        needs = f"glue:{action} on {arn}{above.get(resource.partition('/')[0], '')}"
        return aws_errors(f"call Glue's {action} for {resource}", needs)

    @property
    def _catalog(self) -> dict[str, str]:
        return {"CatalogId": self.catalog_id} if self.catalog_id else {}

    def _takes(self, shape: str) -> Collection[str]:
        """What an update takes of what Glue gives; the rest is Glue's own."""
        model = self.access.client("glue").meta.service_model
        return frozenset(model.shape_for(f"{shape}Input").members)


def _table(table: CatalogTable) -> str:
    return f"table/{table.database}/{table.name}"


def _persist(work: Callable[[], Any]) -> Any:
    """Do something again while others are faster."""
    for number in range(TRIES):
        try:
            return work()
        except _Changed:
            time.sleep(random.uniform(0, 0.05 * 2**number))  # noqa: S311 - not a secret
    return work()


def _raise_first(action: str, errors: Sequence[Shape]) -> None:
    """A partition that is there already, or is gone, is as it should be; else the batch failed."""
    for error in errors:
        detail = error.get("ErrorDetail", {})
        if detail.get("ErrorCode") not in (EXISTS, MISSING):
            found = {"Code": detail.get("ErrorCode", ""), "Message": detail.get("ErrorMessage", "")}
            raise ClientError({"Error": found}, action)
