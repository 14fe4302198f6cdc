"""The settings of lakes whose tables are in Unity Catalog."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from eventlake.lakes.aws_settings import BUCKET, REGION, ROLE, WORKSPACE
from eventlake.lakes.azure_settings import OPTIONAL_GUID
from eventlake.lakes.databricks_clusters import DatabricksClusters
from eventlake.model.azure import AzureLogin
from eventlake.model.databricks import DatabricksAuth
from eventlake.model.lake import Place

HOST = r"^(https://)?[a-z0-9-]+(\.[a-z0-9-]+)+/?$|^http://127\.0\.0\.1:\d+$"
STORAGE = (
    rf"^s3://{BUCKET[1:-1]}$|^abfss://[a-z0-9-]{{3,63}}@[a-z0-9]{{3,24}}\.dfs\.core\.windows\.net$"
)

SEGMENT_NAMES = {
    "databricks_instance_url": "workspace_url",
    "databricks_workspace_url": "workspace_url",
    "service_principal_client_id": "client_id",
    "service_principal_client_secret": "client_secret",
    "personal_access_token": "token",
    "unity_catalog": "catalog",
    "sql_warehouse_id": "warehouse_id",
}


class Registration(StrEnum):
    """How tables are registered in Unity Catalog."""

    SQL = "sql"
    API = "api"


SECRETS = {
    "client_secret": "DATABRICKS_CLIENT_SECRET",
    "token": "DATABRICKS_TOKEN",
    "storage_client_secret": "AZURE_CLIENT_SECRET",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
}


class DatabricksSettings(DatabricksClusters):
    """A lake in S3 or ADLS, with tables in Unity Catalog."""

    kind = "databricks"
    chosen_by = "workspace_url"
    segment_names = SEGMENT_NAMES
    secrets = SECRETS

    workspace_url: Annotated[
        str,
        Field(
            pattern=HOST,
            description="The workspace, such as `dbc-a1b2c3d4-e5f6.cloud.databricks.com`",
        ),
    ]
    catalog: Annotated[
        str, Field(min_length=1, max_length=255, description="The catalog of Unity Catalog")
    ]
    storage: Annotated[
        str,
        Field(
            pattern=STORAGE,
            description="The lake's own bucket or container: `s3://bucket` or "
            "`abfss://container@account.dfs.core.windows.net`",
        ),
    ]
    auth: Annotated[
        DatabricksAuth,
        Field(
            description="Sign in to the workspace with OAuth of a service principal, with a "
            "personal access token, or with a service principal of Entra"
        ),
    ] = DatabricksAuth.OAUTH
    client_id: Annotated[
        str,
        Field(pattern=OPTIONAL_GUID, description="The application id of the service principal"),
    ] = ""
    warehouse_id: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-z]*$",
            description="The SQL warehouse that registers tables; by default the smallest "
            "serverless or 2X-Small one, and if there is none, a new one that stops when idle",
        ),
    ] = ""
    registration: Annotated[
        Registration,
        Field(
            description="Register tables by SQL on a warehouse, or by the API of Unity Catalog, "
            "which knows only Delta tables"
        ),
    ] = Registration.SQL
    format: Annotated[
        Literal["parquet", "delta"],
        Field(description="The format of the tables: Delta, or plain Parquet files"),
    ] = "delta"
    vend_credentials: Annotated[
        bool,
        Field(
            description="Reach S3 with temporary credentials of Unity Catalog, instead of "
            "credentials of this machine"
        ),
    ] = False
    aws_region: Annotated[
        str, Field(pattern=f"^$|{REGION}", description="The region of a bucket")
    ] = ""
    iam_role_arn: Annotated[
        str, Field(pattern=f"^$|{ROLE}", description="The role to assume to reach a bucket")
    ] = ""
    workspace_id: Annotated[
        str,
        Field(pattern=f"^$|{WORKSPACE}", description="The external id for assuming the role"),
    ] = ""
    profile: Annotated[str, Field(description="A profile of the AWS configuration files")] = ""
    tenant_id: Annotated[
        str,
        Field(
            pattern=OPTIONAL_GUID,
            description="The tenant of a service principal of Entra; by default `AZURE_TENANT_ID`",
        ),
    ] = ""
    storage_client_id: Annotated[
        str,
        Field(
            pattern=OPTIONAL_GUID,
            description="The service principal or managed identity that reaches a container; by "
            "default `AZURE_CLIENT_ID`",
        ),
    ] = ""
    login: Annotated[
        AzureLogin, Field(description="How to sign in to reach a container, as for `azure`")
    ] = AzureLogin.AUTO
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^$|^https?://[^/\s]+$",
            description="The URL of an S3-compatible store, or of an emulator of Azure's",
        ),
    ] = ""
    credentials_file: Annotated[
        str,
        Field(
            description="A TOML file with `client_secret`, `token`, `storage_client_secret` or "
            "`account_key`, relative to the settings"
        ),
    ] = ""

    @model_validator(mode="after")
    def _check_rules(self) -> "DatabricksSettings":
        if self.auth is not DatabricksAuth.PAT and not self.client_id:
            raise ValueError(f"auth is {self.auth.value!r}, which needs client_id")
        if self.is_in_s3 and not self.aws_region:
            raise ValueError(f"storage is {self.storage!r}, which needs aws_region")
        if self.vend_credentials and not self.is_in_s3:
            raise ValueError("vend_credentials is for storage in S3")
        if self.registration is Registration.API and self.format != "delta":
            raise ValueError("registration is 'api', which needs format = 'delta'")
        return self

    @property
    def place(self) -> Place:
        return Place(self.storage, self.endpoint)

    @property
    def is_in_s3(self) -> bool:
        return self.storage.startswith("s3://")
