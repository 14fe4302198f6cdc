"""ADLS for the objects: the collector archives there. Tables are not landed in it yet."""

import os

from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.model.lake import AzureSettings
from eventlake.stores import Store
from eventlake.stores.azure import Adls
from eventlake.stores.azure_login import Login


def lake(_: AzureSettings, store: Store) -> Lake:
    raise InvalidSettings(
        f"lake is {store.root}: tables in ADLS are not landed yet; the collector archives there "
        "(eventlake serve), and eventlake load takes logs from there into another lake"
    )


def cluster(_: AzureSettings, __: Store, *, temporary: bool) -> None:
    """Where nothing is landed, nothing runs."""
    if temporary:
        raise InvalidSettings("a temporary cluster is for a lake on AWS, and this one is in ADLS")


def cluster_checks(_: AzureSettings) -> tuple[()]:
    return ()


def store(settings: AzureSettings, *, make: bool) -> Store:  # noqa: ARG001 - a container is never made
    """The container; who we are is found out at the first request."""
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
