"""The settings of lakes in Azure Data Lake Storage."""

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from eventlake.errors import InvalidSettings
from eventlake.lakes.databricks_clusters import DatabricksClusters
from eventlake.model.azure import AZURE_SECRETS, AzureLogin
from eventlake.model.databricks import DATABRICKS_SECRETS
from eventlake.model.lake import Place

STORAGE_ACCOUNT = r"^[a-z0-9]{3,24}$"
CONTAINER = r"^[a-z0-9]+(-[a-z0-9]+)*$"
OPTIONAL_GUID = r"^$|^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
METASTORE = (
    r"^$|^thrift://[\w.-]+:\d+(,thrift://[\w.-]+:\d+)*$"
    r"|^(jdbc:)?(mysql|mariadb)://[\w.-]+(:\d+)?/\w+(\?[\w=&.-]*)?$"
)

AZURE_WORKSPACE = (
    r"^(https://)?adb-\d{16}\.\d+\.(azuredatabricks\.net|databricks\.azure\.(us|cn))/?$"
    r"|^http://127\.0\.0\.1:\d+$"
)
"""Also a stand-in on this machine."""

SEGMENT_NAMES = {
    "azure_storage_account": "storage_account",
    "azure_storage_container": "storage_container",
    "azure_subscription_id": "subscription_id",
    "azure_tenant_id": "tenant_id",
    "service_principal_client_id": "client_id",
    "service_principal_client_secret": "client_secret",
}

SECRETS = {**AZURE_SECRETS, **DATABRICKS_SECRETS}


class AzureSettings(DatabricksClusters):
    """A lake in a container of ADLS, with tables in a Hive metastore."""

    kind = "azure"
    chosen_by = "storage_account"
    address = "abfss://container@account.dfs.core.windows.net"
    container = "container"
    secrets = SECRETS
    segment_names = SEGMENT_NAMES

    storage_account: Annotated[
        str, Field(pattern=STORAGE_ACCOUNT, description="The storage account")
    ]
    storage_container: Annotated[
        str,
        Field(
            pattern=CONTAINER, min_length=3, max_length=63, description="The lake's own container"
        ),
    ]
    tenant_id: Annotated[
        str,
        Field(
            pattern=OPTIONAL_GUID,
            description="The service principal's tenant; by default `AZURE_TENANT_ID`",
        ),
    ] = ""
    client_id: Annotated[
        str,
        Field(
            pattern=OPTIONAL_GUID,
            description="The id of the service principal, or of the managed identity if the "
            "machine has several; by default `AZURE_CLIENT_ID`",
        ),
    ] = ""
    login: Annotated[
        AzureLogin,
        Field(
            description="Sign in with a service principal, an account key, a shared access "
            "signature, the identity of the machine or pod, or the Azure CLI; by default the first "
            "of these, without the CLI, whose credentials are set"
        ),
    ] = AzureLogin.AUTO
    credentials_file: Annotated[
        str,
        Field(
            description="A TOML file with `client_secret`, `account_key`, `sas_token` or "
            "`metastore_password`, relative to the settings; by default `AZURE_CLIENT_SECRET`, "
            "`AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN` and `METASTORE_PASSWORD`"
        ),
    ] = ""
    metastore_url: Annotated[
        str,
        Field(
            pattern=METASTORE,
            description="The Hive metastore: `thrift://host:9083` of a server (several with commas "
            "between them), or `jdbc:mysql://host:3306/database` of its MySQL or MariaDB database; "
            "without it, tables are registered in files of the lake",
        ),
    ] = ""
    metastore_user: Annotated[str, Field(description="The user of the metastore's database")] = ""
    metastore_jars: Annotated[
        str,
        Field(
            description="A folder with the files that EventLake otherwise downloads from Maven's "
            "central repository to use a metastore's database"
        ),
    ] = ""
    databricks_instance_url: Annotated[
        str,
        Field(
            pattern=rf"^$|{AZURE_WORKSPACE}",
            description="The Databricks workspace for runs, such as "
            "`adb-1234567890123456.7.azuredatabricks.net`",
        ),
    ] = ""
    subscription_id: Annotated[
        str,
        Field(
            pattern=OPTIONAL_GUID,
            description="The subscription of the Databricks workspace; with its name and resource "
            "group, a service principal need not be added to the workspace",
        ),
    ] = ""
    databricks_workspace_name: Annotated[
        str, Field(description="The name of the Databricks workspace")
    ] = ""
    databricks_workspace_resource_group: Annotated[
        str, Field(description="The resource group of the Databricks workspace")
    ] = ""
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^$|^https?://[^/\s]+(/[a-z0-9]+)?$",
            description="The URL of an emulator of the blob service, with or without the account",
        ),
    ] = ""

    @field_validator("metastore_url")
    @classmethod
    def _refuse_password(cls, url: str) -> str:
        if re.search(r"[?&](password|user)=", url):
            raise ValueError("without user and password: set metastore_user and METASTORE_PASSWORD")
        return url

    @property
    def place(self) -> Place:
        account = f"{self.storage_account}.dfs.core.windows.net"
        return Place(f"abfss://{self.storage_container}@{account}", self.endpoint)

    @classmethod
    def parse_address(cls, address: str) -> Mapping[str, str]:
        netloc = urlsplit(address).netloc
        match = re.fullmatch(r"([^@]+)@([^@.]+)\.dfs\.core\.windows\.net", netloc)
        if not match:
            raise InvalidSettings(f"lake is {address!r}: a container's address is {cls.address}")
        return {"storage_container": match[1], "storage_account": match[2]}
