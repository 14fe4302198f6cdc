"""Unity Catalog's own API: schemas, external tables, grants on them, credentials of storage."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import AlreadyExists, ResourceAlreadyExists
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.catalog import (
    ColumnInfo,
    ColumnTypeName,
    DataSourceFormat,
    PermissionsChange,
    PrivilegeAssignment,
    SecurableType,
    TableInfo,
    TableType,
)

from eventlake.databricks.grants import grant_statement
from eventlake.databricks.workspace import Workspace, is_missing
from eventlake.errors import InvalidSettings

_TYPE_NAMES = {
    "bigint": ("LONG", "long"),
    "boolean": ("BOOLEAN", "boolean"),
    "decimal(38,6)": ("DECIMAL", "decimal(38,6)"),
    "string": ("STRING", "string"),
    "timestamp": ("TIMESTAMP", "timestamp"),
}
"""The API's and Spark's names of the types that tables have."""


class UnityColumn(NamedTuple):
    """A column; `partition` is its place among the partition columns, or None."""

    name: str
    type: str
    partition: int | None = None
    comment: str = ""


class UnityTable(NamedTuple):
    """A table as Unity Catalog has it."""

    schema: str
    name: str
    location: str
    format: str
    columns: Sequence[UnityColumn]
    properties: Mapping[str, str]
    comment: str = ""


@dataclass(frozen=True)
class UnityApi:
    """One catalog of the metastore that a workspace is attached to."""

    workspace: Workspace
    catalog: str

    def schemas(self) -> list[tuple[str, str]]:
        """The names of all schemas, with their comments."""
        with self._errors(f"list the schemas of {self.catalog}", "USE CATALOG"):
            try:
                found = self._client.schemas.list(self.catalog)
                return [(one.name or "", one.comment or "") for one in found]
            except DatabricksError as problem:
                if not is_missing(problem):
                    raise
                raise InvalidSettings(
                    f"catalog is {self.catalog!r}: the workspace has no such catalog: CREATE "
                    "CATALOG, or bind the catalog to this workspace"
                ) from problem

    def has_schema(self, schema: str) -> bool:
        with self._errors(f"look at the schema {schema}", "USE CATALOG"):
            try:
                self._client.schemas.get(f"{self.catalog}.{schema}")
            except DatabricksError as problem:
                if not is_missing(problem):
                    raise
                return False
        return True

    def create_schema(self, schema: str, comment: str) -> None:
        with self._errors(f"create the schema {schema}", "USE CATALOG, CREATE SCHEMA"):
            try:
                self._client.schemas.create(schema, self.catalog, comment=comment)
            except (AlreadyExists, ResourceAlreadyExists):
                return  # another run was faster

    def tables(self, schema: str) -> Iterator[UnityTable]:
        """The tables of a schema; none if there is no such schema."""
        with self._errors(f"list the tables of {schema}", "USE CATALOG, USE SCHEMA"):
            try:
                for found in self._client.tables.list(self.catalog, schema):
                    yield _read_table(found)
            except DatabricksError as problem:
                if not is_missing(problem):
                    raise

    def table(self, schema: str, name: str) -> UnityTable | None:
        with self._errors(f"look at the table {schema}.{name}", "USE CATALOG, USE SCHEMA"):
            try:
                return _read_table(self._client.tables.get(self._full_name(schema, name)))
            except DatabricksError as problem:
                if not is_missing(problem):
                    raise
                return None

    def create_table(self, table: UnityTable) -> None:
        """Create an external Delta table; nothing happens if there is one of the name."""
        grants = self._table_grants(table.schema)
        what, needs = f"create the table {table.schema}.{table.name}", f"run {'; '.join(grants)}"
        with self.workspace.errors(what, needs, grants):
            try:
                self._client.tables.create(
                    name=table.name,
                    catalog_name=self.catalog,
                    schema_name=table.schema,
                    table_type=TableType.EXTERNAL,
                    data_source_format=DataSourceFormat(table.format.upper()),
                    storage_location=table.location,
                    columns=[_make_column(*one) for one in enumerate(table.columns)],
                    properties=dict(table.properties),
                )
            except (AlreadyExists, ResourceAlreadyExists):
                return  # another run was faster

    def _table_grants(self, schema: str) -> tuple[str, ...]:
        """All statements for creating external tables by the API."""
        full, who = f"{self.catalog}.{schema}", self.workspace.principal
        on_schema = "USE SCHEMA, CREATE TABLE, EXTERNAL USE SCHEMA"
        on_location = "CREATE EXTERNAL TABLE, EXTERNAL USE LOCATION"
        return (
            grant_statement("USE CATALOG", "CATALOG", self.catalog, who),
            grant_statement(on_schema, "SCHEMA", full, who),
            grant_statement(on_location, "EXTERNAL LOCATION", "<location>", who),
        )

    def delete_table(self, schema: str, name: str) -> None:
        """Remove a table from the catalog; the files of external tables stay."""
        with self._errors(f"drop the table {schema}.{name}", "MANAGE, USE SCHEMA"):
            try:
                self._client.tables.delete(self._full_name(schema, name))
            except DatabricksError as problem:
                if not is_missing(problem):
                    raise

    def grants(self, schema: str, name: str) -> list[PrivilegeAssignment]:
        """The privileges that were granted on a table itself."""
        with self._errors(f"read the grants on {schema}.{name}", "MANAGE"):
            found = self._client.grants.get(
                SecurableType.TABLE.value, self._full_name(schema, name)
            )
        return [one for one in found.privilege_assignments or () if one.privileges]

    def restore_grants(self, schema: str, name: str, grants: list[PrivilegeAssignment]) -> None:
        changes = [PermissionsChange(principal=g.principal, add=g.privileges) for g in grants]
        if changes:
            with self._errors(f"restore the grants on {schema}.{name}", "MANAGE"):
                self._client.grants.update(
                    SecurableType.TABLE.value, self._full_name(schema, name), changes=changes
                )

    def external_location(self, url: str) -> str:
        """The name of the external location with an address in storage; empty if there is none."""
        with self.workspace.errors("list the external locations", "grant BROWSE on them"):
            found = list(self._client.external_locations.list())
        parents = [one for one in found if one.url and is_below(url, one.url)]
        longest = max(parents, key=lambda one: len(one.url or ""), default=None)
        return str(longest.name) if longest else ""

    def _full_name(self, schema: str, name: str) -> str:
        return f"{self.catalog}.{schema}.{name}"

    def _errors(self, what: str, privileges: str) -> AbstractContextManager[None]:
        grant = grant_statement(privileges, "CATALOG", self.catalog, self.workspace.principal)
        return self.workspace.errors(what, f"run {grant}", (grant,))

    @property
    def _client(self) -> WorkspaceClient:
        return self.workspace.client


def is_below(url: str, parent: str) -> bool:
    """Whether an address in storage is in a folder, or is the folder."""
    return f"{url.rstrip('/')}/".startswith(f"{parent.rstrip('/')}/")


def _read_table(found: TableInfo) -> UnityTable:
    kind = found.data_source_format.value.lower() if found.data_source_format else ""
    columns = [
        UnityColumn(
            str(one.name), (one.type_text or "").lower(), one.partition_index, one.comment or ""
        )
        for one in found.columns or ()
    ]
    return UnityTable(
        schema=found.schema_name or "",
        name=found.name or "",
        location=found.storage_location or "",
        format=kind,
        columns=columns,
        properties=found.properties or {},
        comment=found.comment or "",
    )


def _make_column(position: int, column: UnityColumn) -> ColumnInfo:
    name, spark_type = _TYPE_NAMES[column.type]
    field = {"name": column.name, "type": spark_type, "nullable": True, "metadata": {}}
    is_decimal = name == ColumnTypeName.DECIMAL.value
    return ColumnInfo(
        name=column.name,
        type_text=column.type,
        type_name=ColumnTypeName(name),
        type_json=json.dumps(field),
        type_precision=38 if is_decimal else None,
        type_scale=6 if is_decimal else None,
        position=position,
        partition_index=column.partition,
        comment=column.comment or None,
        nullable=True,
    )
