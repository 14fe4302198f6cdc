"""A lake with objects in S3 or ADLS, and tables in Unity Catalog."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property

from eventlake.catalogs.unity import ApiRegistrar, SqlRegistrar, UnityCatalog
from eventlake.clock import SYSTEM_CLOCK
from eventlake.databricks.sql import Warehouse
from eventlake.databricks.tokens import describe_expiry
from eventlake.databricks.unity import UnityApi
from eventlake.databricks.workspace import Workspace
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.databricks_jobs import DatabricksJobs
from eventlake.lakes.databricks_settings import DatabricksSettings, Registration
from eventlake.lakes.formats import make_format
from eventlake.lakes.kinds import LakeKind, load_kind
from eventlake.model.databricks import DatabricksAuth, workspace_address
from eventlake.model.lake import LakeSettings
from eventlake.ports import JobRunner
from eventlake.runners.wheel import JobFiles
from eventlake.secrets import FileSecrets, FirstSecrets, RenamedSecrets, Secrets
from eventlake.stores import Store

WORKSPACE_SECRETS = {"databricks_client_secret": "client_secret", "databricks_token": "token"}
STORAGE_SECRETS = {"client_secret": "storage_client_secret", "account_key": "account_key"}


@dataclass(frozen=True)
class DatabricksKind(LakeKind):
    """A lake of a Databricks workspace; nothing is asked of the workspace before it is needed."""

    settings: DatabricksSettings
    secrets: Secrets

    @cached_property
    def _secrets(self) -> Secrets:
        file = self.settings.credentials_file
        if not file:
            return self.secrets
        return FirstSecrets((FileSecrets(file, tuple(self.settings.secrets)), self.secrets))

    @cached_property
    def workspace(self) -> Workspace:
        settings = self.settings
        return Workspace(
            host=workspace_address(settings.workspace_url),
            auth=settings.auth,
            secrets=RenamedSecrets(self._secrets, WORKSPACE_SECRETS),
            client_id=settings.client_id,
            entra_credential="databricks_client_secret",
            tenant_id=settings.tenant_id or os.environ.get("AZURE_TENANT_ID", ""),
        )

    # Storage

    def open_store(self, *, make: bool) -> Store:
        settings = self._storage_settings
        secrets = RenamedSecrets(self._secrets, STORAGE_SECRETS)
        store = load_kind(settings, secrets).open_store(make=make)
        return self._with_vended_access(store) if self.settings.vend_credentials else store

    @property
    def _storage_settings(self) -> LakeSettings:
        settings = self.settings
        if settings.is_in_s3:
            return AwsSettings(
                s3_bucket=settings.storage.removeprefix("s3://"),
                aws_region=settings.aws_region,
                iam_role_arn=settings.iam_role_arn,
                workspace_id=settings.workspace_id,
                profile=settings.profile,
                s3_endpoint=settings.endpoint,
            )
        return AzureSettings.model_validate(
            {
                **AzureSettings.parse_address(settings.storage),
                "tenant_id": settings.tenant_id,
                "client_id": settings.storage_client_id,
                "login": settings.login,
                "endpoint": settings.endpoint,
            }
        )

    def _with_vended_access(self, store: Store) -> Store:
        # Imported here because lakes in ADLS do without the libraries of S3.
        from eventlake.databricks.vending import VendedAccess  # noqa: PLC0415
        from eventlake.stores.s3 import S3  # noqa: PLC0415

        assert isinstance(store, S3), "a rule of the settings"
        access = VendedAccess(
            region=self.settings.aws_region,
            role_arn="unity-catalog",
            workspace=self.workspace,
            url=self.settings.storage,
        )
        access.check()
        return replace(store, access=access)

    # Tables

    def make_lake(self, store: Store) -> Lake:
        settings = self.settings
        bucket = {"s3_bucket": settings.storage.removeprefix("s3://")} if settings.is_in_s3 else {}
        return Lake(
            store=store,
            catalog=self._catalog(store.root),
            format=make_format(settings, store),
            workspace=settings.workspace_id,
            facts=bucket,
        )

    def _catalog(self, root: str) -> UnityCatalog:
        api = UnityApi(self.workspace, self.settings.catalog)
        if self.settings.registration is Registration.API:
            return UnityCatalog(api, ApiRegistrar(api, root), root)
        registrar = SqlRegistrar(self._warehouse, self.settings.catalog)
        return UnityCatalog(api, registrar, root)

    @cached_property
    def _warehouse(self) -> Warehouse:
        return Warehouse(self.workspace, self.settings.warehouse_id)

    # Runs

    def job_runner(
        self,
        store: Store,  # noqa: ARG002 - as the interface
        *,
        temporary: bool,
    ) -> AbstractContextManager[JobRunner] | None:
        return self._jobs().runner(temporary=temporary)

    def _jobs(self) -> DatabricksJobs:
        here = {"credentials_file": "", "profile": ""}
        variables = {
            v: name for name, v in self.settings.secrets.items() if self._secrets.get(name)
        }
        storage = "aws" if self.settings.is_in_s3 else "azure"
        files = JobFiles(("databricks", "delta", storage))
        settings = self.settings.model_copy(update={**self._identity(), **here})
        return DatabricksJobs(self.workspace, settings, variables, files)

    def _identity(self) -> dict[str, str]:
        """What the environment of this machine says, and a cluster's does not."""
        if self.settings.is_in_s3:
            endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
            return {"endpoint": self.settings.endpoint or endpoint.rstrip("/")}
        endpoint = os.environ.get("AZURE_STORAGE_ENDPOINT", "")
        client = os.environ.get("AZURE_CLIENT_ID", "")
        return {
            "endpoint": self.settings.endpoint or endpoint.rstrip("/"),
            "tenant_id": self.workspace.tenant_id,
            "storage_client_id": self.settings.storage_client_id or client,
        }

    def cluster_checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "sign in", lambda: f"{self.workspace.user_name} at {self.workspace.host}"
        if self.settings.auth is DatabricksAuth.PAT:
            yield "token", lambda: describe_expiry(self.workspace, SYSTEM_CLOCK.now())
        yield "external location", self._find_location
        if self.settings.registration is Registration.SQL:
            yield "SQL warehouse", self._warehouse.describe
        yield from self._jobs().checks()

    def _find_location(self) -> str:
        url = self.settings.storage
        if name := UnityApi(self.workspace, self.settings.catalog).external_location(url):
            return f"{name} has {url}"
        raise InvalidSettings(
            f"storage is {url!r}: no external location has it, or the principal may not see it: "
            f"CREATE EXTERNAL LOCATION `eventlake` URL '{url}' WITH (STORAGE CREDENTIAL "
            f"`<credential>`), and GRANT BROWSE, CREATE EXTERNAL TABLE, EXTERNAL USE LOCATION ON "
            f"EXTERNAL LOCATION `eventlake` TO `{self.workspace.principal}`"
        )
