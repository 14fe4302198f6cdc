"""A container in ADLS, where the collector archives; tables are not supported there yet."""

import os
from dataclasses import dataclass
from typing import NoReturn

from eventlake.errors import InvalidSettings
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.kinds import LakeKind
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

    def make_lake(self, store: Store) -> NoReturn:
        raise InvalidSettings(
            f"lake is {store.root}: tables in ADLS are not supported yet; the collector can "
            "archive there (eventlake serve), and eventlake load can load those logs into another "
            "lake"
        )

    def job_runner(self, store: Store, *, temporary: bool) -> None:  # noqa: ARG002 - as the interface
        return None

    def cluster_checks(self) -> tuple[()]:
        return ()
