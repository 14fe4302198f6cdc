"""A lake with objects in ADLS, and tables in a Hive metastore or in files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from eventlake.catalogs.files import FilesCatalog
from eventlake.catalogs.hive import HiveCatalog
from eventlake.catalogs.hive_calls import Address, HiveCalls
from eventlake.catalogs.metastore_database import MetastoreDatabase
from eventlake.catalogs.private_metastore import PrivateMetastore
from eventlake.lake import Lake
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.formats import make_format
from eventlake.lakes.kinds import LakeKind
from eventlake.model.layout import ADLS_LAYOUT
from eventlake.ports import Catalog
from eventlake.runners.java import find_java
from eventlake.secrets import FileSecrets, FirstSecrets, Secrets
from eventlake.stores import Store
from eventlake.stores.azure import Adls
from eventlake.stores.azure_login import Login


@dataclass(frozen=True)
class AzureKind(LakeKind):
    """A container; credentials are not checked before the first request."""

    settings: AzureSettings
    secrets: Secrets

    def open_store(self, *, make: bool) -> Store:  # noqa: ARG002 - containers are not created
        settings = self.settings
        endpoint = settings.endpoint or os.environ.get("AZURE_STORAGE_ENDPOINT", "").rstrip("/")
        return Adls(
            account=settings.storage_account,
            container=settings.storage_container,
            login=Login(
                how=settings.login,
                tenant_id=settings.tenant_id or os.environ.get("AZURE_TENANT_ID", ""),
                client_id=settings.client_id or os.environ.get("AZURE_CLIENT_ID", ""),
                secrets=self._secrets(),
            ),
            endpoint=endpoint.removesuffix(f"/{settings.storage_account}"),
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

    def job_runner(self, store: Store, *, temporary: bool) -> None:  # noqa: ARG002 - as the interface
        return None

    def cluster_checks(self) -> tuple[()]:
        return ()


def _parse_addresses(urls: str) -> Sequence[Address]:
    """The hosts and ports of `thrift://host:port`, with commas between several."""
    parts = map(urlsplit, urls.split(","))
    return [(part.hostname or "", part.port or 0) for part in parts]
