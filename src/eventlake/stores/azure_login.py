"""Who EventLake is for Azure. Secrets are read where they are used, and kept in no value."""

import os
import socket
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlake.errors import InvalidSettings
from eventlake.model.lake import AZURE_SECRETS, AzureLogin

METADATA = ("169.254.169.254", 80)
"""Where a machine of Azure asks for its identity."""
METADATA_SECONDS = 1.0


@dataclass(frozen=True)
class Login:
    """A way to sign in. It pickles without a secret: each process finds that for itself."""

    how: AzureLogin = AzureLogin.FOUND
    tenant_id: str = ""
    client_id: str = ""
    credentials_file: str = ""

    @property
    def found(self) -> AzureLogin:
        """The way that was asked for, else the first one that has what it takes."""
        if self.how is not AzureLogin.FOUND:
            return self.how
        if self.tenant_id and self.client_id and self.secret("client_secret"):
            return AzureLogin.PRINCIPAL
        return AzureLogin.KEY if self.secret("account_key") else AzureLogin.IDENTITY

    @property
    def who(self) -> str:
        """For a person who has to grant something."""
        if self.found is AzureLogin.CLI:
            return "who is signed in to the Azure CLI"
        principal = self.found is AzureLogin.PRINCIPAL
        own = "the service principal" if principal else "the identity of this machine"
        return f"{own} {self.client_id}".rstrip()

    def for_obstore(self) -> dict[str, Any]:
        """What a store signs its requests with; what the environment says besides is nothing."""
        if self.found is AzureLogin.PRINCIPAL:
            return {"credential_type": "client_secret", **self._principal()}
        if self.found is AzureLogin.KEY:
            return {"credential_type": "access_key", **self._key()}
        if self.found is AzureLogin.CLI:
            return {"credential_type": "azure_cli"}
        return self._pod() if _pod_token() else self._machine()

    def for_arrow(self) -> dict[str, str]:
        """The same for Arrow, which finds a machine's identity and the CLI by itself."""
        if self.found is AzureLogin.PRINCIPAL:
            return self._principal()
        if self.found is AzureLogin.KEY:
            return self._key()
        own = self.found is AzureLogin.IDENTITY and self.client_id and not _pod_token()
        return {"client_id": self.client_id} if own else {}

    def _principal(self) -> dict[str, str]:
        given = {
            "tenant_id": self.tenant_id,
            "client_id": self.client_id,
            "client_secret": self.secret("client_secret"),
        }
        return self._whole(given, "a service principal")

    def _key(self) -> dict[str, str]:
        return self._whole({"account_key": self.secret("account_key")}, "an account key")

    def _pod(self) -> dict[str, str]:
        """Workload identity: Kubernetes gives the pod a token to show."""
        ids = {"tenant_id": self.tenant_id, "client_id": self.client_id}
        return {
            "credential_type": "workload_identity",
            "federated_token_file": _pod_token(),
            **self._whole(ids, "a pod's identity"),
        }

    def _machine(self) -> dict[str, str]:
        endpoint = os.environ.get("IDENTITY_ENDPOINT", "")
        if not endpoint and not _on_azure():
            raise InvalidSettings(
                "there are no Azure credentials, and this machine has no identity of its own: set "
                "AZURE_CLIENT_SECRET beside tenant_id and client_id, or AZURE_STORAGE_ACCOUNT_KEY, "
                "or name a credentials_file in the lake's settings, or login = 'cli'"
            )
        given = {"client_id": self.client_id, "msi_endpoint": endpoint}
        return {"credential_type": "managed_identity", **{k: v for k, v in given.items() if v}}

    def _whole(self, given: dict[str, str], what: str) -> dict[str, str]:
        missing = [_place(name) for name, value in given.items() if not value]
        if missing:
            raise InvalidSettings(f"to sign in with {what}, set {' and '.join(missing)}")
        return given

    def secret(self, name: str) -> str:
        """Of the file, else of the environment; empty when neither has it."""
        return self._file().get(name, "") or os.environ.get(AZURE_SECRETS[name], "")

    def _file(self) -> dict[str, str]:
        if not self.credentials_file:
            return {}
        said = f"credentials_file is {self.credentials_file!r}"
        try:
            given = tomllib.loads(Path(self.credentials_file).read_text("utf-8"))
        except OSError as problem:
            raise InvalidSettings(f"{said}: {problem.strerror}") from None
        except ValueError:  # which may quote the secret
            raise InvalidSettings(f"{said}: it is no TOML") from None
        if not given.keys() <= AZURE_SECRETS.keys() or not all(map(_is_text, given.values())):
            names = " or ".join(AZURE_SECRETS)
            raise InvalidSettings(f"{said}: it should have {names}, a text, and nothing else")
        return given


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _place(name: str) -> str:
    """Where a user gives what is missing."""
    if name in AZURE_SECRETS:
        return f"{AZURE_SECRETS[name]} (or {name} in the credentials_file)"
    return f"{name} (or AZURE_{name.upper()})"


def _pod_token() -> str:
    return os.environ.get("AZURE_FEDERATED_TOKEN_FILE", "")


def _on_azure() -> bool:
    """Asked first: the store would try for minutes where there is nobody to ask."""
    try:
        with socket.create_connection(METADATA, METADATA_SECONDS):
            return True
    except OSError:
        return False
