"""A lake with objects in ADLS, and tables in a Hive metastore or in files."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from eventlake.catalogs.files import FilesCatalog
from eventlake.catalogs.hive import HiveCatalog
from eventlake.catalogs.hive_calls import Address, HiveCalls
from eventlake.catalogs.metastore_database import MetastoreDatabase
from eventlake.catalogs.private_metastore import PrivateMetastore
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.formats import make_format
from eventlake.lakes.kinds import LakeKind, needs_extra
from eventlake.model.azure import AZURE_SECRETS
from eventlake.model.databricks import DatabricksAuth, workspace_address
from eventlake.model.layout import ADLS_LAYOUT
from eventlake.ports import Catalog, JobRunner
from eventlake.runners.java import find_java
from eventlake.secrets import FileSecrets, FirstSecrets, Secrets
from eventlake.stores import Store
from eventlake.stores.azure import Adls
from eventlake.stores.azure_login import Login

if TYPE_CHECKING:
    from eventlake.databricks.workspace import Workspace
    from eventlake.lakes.databricks_jobs import DatabricksJobs

RESOURCE_ID = "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Databricks/workspaces/{}"


@dataclass(frozen=True)
class AzureKind(LakeKind):
    """A container; credentials are not checked before the first request."""

    settings: AzureSettings
    secrets: Secrets

    def open_store(self, *, make: bool) -> Store:  # noqa: ARG002 - containers are not created
        settings = self.settings
        return Adls(
            account=settings.storage_account,
            container=settings.storage_container,
            login=Login(
                how=settings.login,
                tenant_id=self._identity()["tenant_id"],
                client_id=self._identity()["client_id"],
                secrets=self._secrets(),
            ),
            endpoint=self._endpoint().removesuffix(f"/{settings.storage_account}"),
        )

    def _secrets(self) -> Secrets:
        file = self.settings.credentials_file
        if not file:
            return self.secrets
        return FirstSecrets((FileSecrets(file, tuple(self.settings.secrets)), self.secrets))

    def make_lake(self, store: Store) -> Lake:
        return Lake(
            store=store,
            catalog=self._catalog(store),
            format=make_format(self.settings, store),
            layout=ADLS_LAYOUT,
        )

    def _catalog(self, store: Store) -> Catalog:
        url = self.settings.metastore_url
        if not url:
            return FilesCatalog(store, ADLS_LAYOUT)
        if url.startswith("thrift://"):
            calls = HiveCalls(lambda: _parse_addresses(url))
        else:
            calls = HiveCalls(self._private_metastore(store).addresses)
        return HiveCatalog(calls, store.root, ADLS_LAYOUT.databases)

    def _private_metastore(self, store: Store) -> PrivateMetastore:
        settings = self.settings
        user, secrets = settings.metastore_user, self._secrets()
        return PrivateMetastore(
            database=MetastoreDatabase.from_url(settings.metastore_url, user, secrets),
            root=store.root,
            databases_path=ADLS_LAYOUT.databases,
            find_java=lambda: find_java().path,
            jars=settings.metastore_jars,
        )

    def job_runner(
        self,
        store: Store,  # noqa: ARG002 - as the interface
        *,
        temporary: bool,
    ) -> AbstractContextManager[JobRunner] | None:
        if not (temporary or self.settings.has_cluster):
            return None
        return self._jobs().runner(temporary=temporary)

    def cluster_checks(self) -> Iterable[tuple[str, Callable[[], str]]]:
        return self._jobs().checks() if self.settings.has_cluster else ()

    def _jobs(self) -> "DatabricksJobs":
        # Imported here because the SDK takes seconds, and is an extra of its own.
        with needs_extra("databricks"):
            from eventlake.lakes.databricks_jobs import DatabricksJobs  # noqa: PLC0415
            from eventlake.runners.wheel import JobFiles  # noqa: PLC0415

        secrets, settings = self._secrets(), self.settings
        needed = {v: name for name, v in AZURE_SECRETS.items() if secrets.get(name)}
        here = {"credentials_file": "", "metastore_jars": ""}
        job_settings = settings.model_copy(update={**self._identity(), **here})
        return DatabricksJobs(self.workspace, job_settings, needed, JobFiles(("azure",)))

    @property
    def workspace(self) -> "Workspace":
        with needs_extra("databricks"):
            from eventlake.databricks.workspace import Workspace  # noqa: PLC0415
        if not self.settings.databricks_instance_url:
            raise InvalidSettings("runs on a cluster need the setting databricks_instance_url")
        settings, secrets = self.settings, self._secrets()
        names = (
            settings.subscription_id,
            settings.databricks_workspace_resource_group,
            settings.databricks_workspace_name,
        )
        auth = DatabricksAuth.AZURE
        if secrets.get("databricks_token"):
            auth = DatabricksAuth.PAT
        elif secrets.get("databricks_client_secret"):
            auth = DatabricksAuth.OAUTH
        return Workspace(
            host=workspace_address(settings.databricks_instance_url),
            auth=auth,
            secrets=secrets,
            tenant_id=self._identity()["tenant_id"],
            client_id=self._identity()["client_id"],
            resource_id=RESOURCE_ID.format(*names) if all(names) else "",
            host_setting="databricks_instance_url",
        )

    def _identity(self) -> dict[str, str]:
        """The service principal of the settings, or that of the environment."""
        return {
            "tenant_id": self.settings.tenant_id or os.environ.get("AZURE_TENANT_ID", ""),
            "client_id": self.settings.client_id or os.environ.get("AZURE_CLIENT_ID", ""),
            "endpoint": self._endpoint(),
        }

    def _endpoint(self) -> str:
        endpoint = self.settings.endpoint or os.environ.get("AZURE_STORAGE_ENDPOINT", "")
        return endpoint.rstrip("/")


def _parse_addresses(urls: str) -> Sequence[Address]:
    """The hosts and ports of `thrift://host:port`, with commas between several."""
    parts = map(urlsplit, urls.split(","))
    return [(part.hostname or "", part.port or 0) for part in parts]
