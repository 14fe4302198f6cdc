"""How to sign in to Azure, and the secrets for it."""

from collections.abc import Mapping
from enum import StrEnum


class AzureLogin(StrEnum):
    """How to sign in to Azure."""

    AUTO = ""
    PRINCIPAL = "principal"
    KEY = "key"
    SAS = "sas"
    IDENTITY = "identity"
    CLI = "cli"


AZURE_SECRETS: Mapping[str, str] = {
    "client_secret": "AZURE_CLIENT_SECRET",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "metastore_password": "METASTORE_PASSWORD",
}
"""Secrets, and the environment variable each is read from."""
