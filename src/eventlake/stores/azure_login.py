"""Azure credentials. Secrets are read when they are used and stored in no field."""

import os
import socket
from dataclasses import dataclass
from typing import Any

from eventlake.errors import InvalidSettings
from eventlake.model.azure import AZURE_SECRETS, AzureLogin
from eventlake.secrets import Secrets

METADATA_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Login:
    """How to sign in. Pickles without secrets: each process reads them itself."""

    how: AzureLogin = AzureLogin.AUTO
    tenant_id: str = ""
    client_id: str = ""
    secrets: Secrets
    metadata: tuple[str, int] = ("169.254.169.254", 80)
    """Address of the Azure instance metadata service."""

    @property
    def method(self) -> AzureLogin:
        """The `login` setting, else the first method whose credentials are set."""
        if self.how is not AzureLogin.AUTO:
            return self.how
        if self.tenant_id and self.client_id and self.secret("client_secret"):
            return AzureLogin.PRINCIPAL
        if self.secret("account_key"):
            return AzureLogin.KEY
        return AzureLogin.SAS if self.secret("sas_token") else AzureLogin.IDENTITY

    @property
    def who(self) -> str:
        """The identity to grant permissions to, for messages."""
        if self.method is AzureLogin.CLI:
            return "the user of the Azure CLI"
        principal = self.method is AzureLogin.PRINCIPAL
        kind = "the service principal" if principal else "the identity of this machine"
        return f"{kind} {self.client_id}".rstrip()

    def for_obstore(self) -> dict[str, Any]:
        """Credential options for obstore; it ignores other environment variables."""
        if self.method is AzureLogin.PRINCIPAL:
            return {"credential_type": "client_secret", **self._principal()}
        if self.method is AzureLogin.KEY:
            return {"credential_type": "access_key", **self._key()}
        if self.method is AzureLogin.SAS:
            return {"credential_type": "sas_token", "sas_key": self._sas()}
        if self.method is AzureLogin.CLI:
            return {"credential_type": "azure_cli"}
        return self._pod() if _pod_token() else self._machine()

    def for_arrow(self) -> dict[str, str]:
        """Credential options for Arrow, which finds managed identity and the CLI by itself."""
        if self.method is AzureLogin.PRINCIPAL:
            return self._principal()
        if self.method is AzureLogin.KEY:
            return self._key()
        if self.method is AzureLogin.SAS:
            return {"sas_token": f"?{self._sas()}"}
        is_managed = self.method is AzureLogin.IDENTITY and not _pod_token()
        return {"client_id": self.client_id} if is_managed and self.client_id else {}

    def for_azure_client(self, account: str) -> Any:
        """A credential for Azure's own client of the blob service."""
        from azure.core.credentials import AzureNamedKeyCredential  # noqa: PLC0415

        from azure import identity  # noqa: PLC0415 - collectors, which make no copies, need it not

        # Microsoft knows only the authorities of its public clouds.
        own: dict[str, Any] = {"disable_instance_discovery": "AZURE_AUTHORITY_HOST" in os.environ}
        if self.method is AzureLogin.PRINCIPAL:
            return identity.ClientSecretCredential(**self._principal(), **own)
        if self.method is AzureLogin.KEY:
            return AzureNamedKeyCredential(account, self._key()["account_key"])
        if self.method is AzureLogin.SAS:
            return self._sas()
        if self.method is AzureLogin.CLI:
            return identity.AzureCliCredential()
        if token_file := _pod_token():
            ids = {"tenant_id": self.tenant_id, "client_id": self.client_id}
            return identity.WorkloadIdentityCredential(**ids, **own, token_file_path=token_file)
        return identity.ManagedIdentityCredential(client_id=self.client_id or None)

    def _principal(self) -> dict[str, str]:
        options = {
            "tenant_id": self.tenant_id,
            "client_id": self.client_id,
            "client_secret": self.secret("client_secret"),
        }
        return self._require(options, "a service principal")

    def _key(self) -> dict[str, str]:
        return self._require({"account_key": self.secret("account_key")}, "an account key")

    def _sas(self) -> str:
        options = {"sas_token": self.secret("sas_token")}
        return self._require(options, "a shared access signature")["sas_token"].lstrip("?")

    def _pod(self) -> dict[str, str]:
        """Options for workload identity: Kubernetes mounts a token file in the pod."""
        ids = {"tenant_id": self.tenant_id, "client_id": self.client_id}
        return {
            "credential_type": "workload_identity",
            "federated_token_file": _pod_token(),
            **self._require(ids, "a pod's identity"),
        }

    def _machine(self) -> dict[str, str]:
        endpoint = os.environ.get("IDENTITY_ENDPOINT", "")
        if not endpoint and not self._is_on_azure():
            raise InvalidSettings(
                "no Azure credentials, and this machine has no managed identity: set "
                "AZURE_CLIENT_SECRET with tenant_id and client_id, or AZURE_STORAGE_ACCOUNT_KEY, "
                "or AZURE_STORAGE_SAS_TOKEN, or name a credentials_file in the lake's settings, "
                "or login = 'cli'"
            )
        options = {"client_id": self.client_id, "msi_endpoint": endpoint}
        return {"credential_type": "managed_identity", **{k: v for k, v in options.items() if v}}

    def _is_on_azure(self) -> bool:
        """Whether the metadata service answers; without it, obstore would retry for minutes."""
        try:
            with socket.create_connection(self.metadata, METADATA_SECONDS):
                return True
        except OSError:
            return False

    def _require(self, options: dict[str, str], method: str) -> dict[str, str]:
        """`options`; raises InvalidSettings if one of them is empty."""
        missing = [_where_to_set(name) for name, value in options.items() if not value]
        if missing:
            raise InvalidSettings(f"to sign in with {method}, set {' and '.join(missing)}")
        return options

    def secret(self, name: str) -> str:
        """A secret, or empty."""
        return self.secrets.get(name) or ""


def _where_to_set(name: str) -> str:
    """A credential's name and its alternative, for messages."""
    if name in AZURE_SECRETS:
        return f"{AZURE_SECRETS[name]} (or {name} in the credentials_file)"
    return f"{name} (or AZURE_{name.upper()})"


def _pod_token() -> str:
    return os.environ.get("AZURE_FEDERATED_TOKEN_FILE", "")
