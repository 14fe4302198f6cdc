"""Catalogs of a workspace for tests: by statements, and by the API of Unity Catalog."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlake.catalogs.unity import ApiRegistrar, SqlRegistrar, UnityCatalog
from eventlake.databricks.sql import Warehouse
from eventlake.databricks.unity import UnityApi
from eventlake.databricks.workspace import Workspace
from eventlake.errors import EventLakeError
from eventlake.model.catalog import CatalogTable
from eventlake.model.databricks import DatabricksAuth
from eventlake.ports import Catalog, Progress
from tests.databricks.standin import PRINCIPAL, SECRET, StandIn
from tests.databricks.unity import CATALOG


@dataclass(frozen=True)
class GivenSecrets:
    """Secrets that a test gives."""

    values: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.values.get(name)


def workspace(here: StandIn, **changes: object) -> Workspace:
    """A client that signs in as the service principal."""
    given = {"databricks_client_secret": SECRET}
    return Workspace(
        host=here.url,
        auth=DatabricksAuth.OAUTH,
        client_id=PRINCIPAL,
        secrets=GivenSecrets(given),
        **changes,  # type: ignore[arg-type]
    )


def sql_catalog(here: StandIn, root: str, warehouse_id: str = "") -> UnityCatalog:
    calls = workspace(here)
    registrar = SqlRegistrar(Warehouse(calls, warehouse_id), CATALOG)
    return UnityCatalog(UnityApi(calls, CATALOG), registrar, root)


def api_catalog(here: StandIn, root: str) -> UnityCatalog:
    api = UnityApi(workspace(here), CATALOG)
    return UnityCatalog(api, ApiRegistrar(api, root), root)


@dataclass(frozen=True)
class AsDelta:
    """A catalog that is given Delta tables instead of Parquet."""

    catalog: Catalog
    follows_tables = True

    def databases(self) -> Sequence[str]:
        return self.catalog.databases()

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        return [_of_format(one, "parquet") for one in self.catalog.tables(database)]

    def table(self, database: str, name: str) -> CatalogTable | None:
        found = self.catalog.table(database, name)
        return found and _of_format(found, "parquet")

    def ensure(
        self, tables: Sequence[CatalogTable], progress: Progress
    ) -> Mapping[str, EventLakeError]:
        return self.catalog.ensure([_of_format(one, "delta") for one in tables], progress)

    def replace(self, table: CatalogTable) -> None:
        self.catalog.replace(_of_format(table, "delta"))

    def retype(self, table: CatalogTable) -> None:
        self.catalog.retype(_of_format(table, "delta"))

    def remove_partitions(self, table: CatalogTable) -> None:
        self.catalog.remove_partitions(_of_format(table, "delta"))

    def drop(self, table: CatalogTable) -> None:
        self.catalog.drop(_of_format(table, "delta"))


def _of_format(table: CatalogTable, name: str) -> CatalogTable:
    return table.model_copy(update={"format": name})
