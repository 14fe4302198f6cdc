"""A container in ADLS, where the collector archives; tables are not supported there yet."""

import os

from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.model.lake import AzureSettings
from eventlake.stores import Store
from eventlake.stores.azure import Adls
from eventlake.stores.azure_login import Login


def make_lake(_: AzureSettings, store: Store) -> Lake:
    raise InvalidSettings(
        f"lake is {store.root}: tables in ADLS are not supported yet; the collector can archive "
        "there (eventlake serve), and eventlake load can load those logs into another lake"
    )


def job_runner(_: AzureSettings, __: Store, *, temporary: bool) -> None:
    """Return None: nothing runs on a cluster for this lake."""
    if temporary:
        raise InvalidSettings("a temporary cluster needs a lake on AWS, and this one is in ADLS")


def cluster_checks(_: AzureSettings) -> tuple[()]:
    return ()


def make_store(settings: AzureSettings, *, make: bool) -> Store:  # noqa: ARG001 - containers are not created
    """The container; credentials are not checked before the first request."""
    endpoint = settings.endpoint or os.environ.get("AZURE_STORAGE_ENDPOINT", "").rstrip("/")
    return Adls(
        account=settings.storage_account,
        container=settings.storage_container,
        login=Login(
            how=settings.login,
            tenant_id=settings.tenant_id or os.environ.get("AZURE_TENANT_ID", ""),
            client_id=settings.client_id or os.environ.get("AZURE_CLIENT_ID", ""),
            credentials_file=settings.credentials_file,
        ),
        endpoint=endpoint.removesuffix(f"/{settings.storage_account}"),
    )
