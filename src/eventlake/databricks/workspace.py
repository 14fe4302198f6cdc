"""Sign in to a Databricks workspace, and its errors as EventLake errors."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config
from databricks.sdk.errors import (
    InternalError,
    NotFound,
    PermissionDenied,
    TemporarilyUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from databricks.sdk.errors.base import DatabricksError

from eventlake.databricks.grants import find_grant
from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    Unavailable,
)
from eventlake.model.databricks import DATABRICKS_SECRETS, DatabricksAuth
from eventlake.secrets import Secrets

HTTP_SECONDS = 60
RETRY_SECONDS = 300
"""How long a request is retried when the workspace throttles or does not answer."""
_AUTH_TYPES = {
    DatabricksAuth.OAUTH: "oauth-m2m",
    DatabricksAuth.PAT: "pat",
    DatabricksAuth.AZURE: "azure-client-secret",
}
_REFUSED_TOKENS = ("invalid access token", "invalid token", "token is expired", "token expired")
_LOST = (requests.RequestException, TimeoutError, ConnectionError)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A workspace and the principal that calls it."""

    host: str
    """Such as `https://dbc-a1b2c3d4-e5f6.cloud.databricks.com`."""
    auth: DatabricksAuth
    secrets: Secrets
    client_id: str = ""
    tenant_id: str = ""
    """The tenant of a service principal of Entra."""
    resource_id: str = ""
    """Azure's id of the workspace, for principals that were not added to the workspace."""
    entra_credential: str = "client_secret"
    """The name of the secret of a service principal of Entra."""
    host_setting: str = "workspace_url"
    """The setting with the host, for messages."""
    retry_seconds: int = RETRY_SECONDS
    http_seconds: int = HTTP_SECONDS

    @cached_property
    def client(self) -> WorkspaceClient:
        """The SDK's client; raises InvalidSettings if host or secrets cannot be used."""
        self._check_host()
        try:
            config = Config(
                host=self.host,
                auth_type=_AUTH_TYPES[self.auth],
                product="eventlake",
                http_timeout_seconds=self.http_seconds,
                retry_timeout_seconds=self.retry_seconds,
                max_connections_per_pool=32,
                **self._credentials(),
            )
            return WorkspaceClient(config=config)
        except (ValueError, *_LOST) as problem:
            raise self._refused(problem) from problem

    def _credentials(self) -> dict[str, Any]:
        if self.auth is DatabricksAuth.PAT:
            return {"token": self._secret("databricks_token")}
        if self.auth is DatabricksAuth.OAUTH:
            secret = self._secret("databricks_client_secret")
            return {"client_id": self.client_id, "client_secret": secret}
        given = {
            "azure_client_id": self.client_id,
            "azure_client_secret": self._secret(self.entra_credential),
            "azure_tenant_id": self.tenant_id,
            "azure_workspace_resource_id": self.resource_id,
        }
        return {name: value for name, value in given.items() if value}

    def _secret(self, name: str) -> str:
        if secret := self.secrets.get(name):
            return secret
        variable = DATABRICKS_SECRETS.get(name, "AZURE_CLIENT_SECRET")
        raise InvalidSettings(
            f"no {name} to sign in to {self.host}: set {variable}, or put it into the file that "
            "credentials_file names"
        )

    def _check_host(self) -> None:
        """Raise InvalidSettings for a host without an address: the SDK would retry for minutes."""
        host = urlsplit(self.host).hostname or ""
        if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
            return  # the proxy resolves the name
        try:
            socket.getaddrinfo(host, None)
        except OSError as problem:
            raise InvalidSettings(
                f"{self.host_setting} is {self.host!r}: no such host ({problem.strerror}); it "
                "should be the address in the browser when the workspace is open"
            ) from problem

    def _refused(self, problem: Exception) -> EventLakeError:
        """The error for a client that could not be created, or that got no token."""
        text = first_line(problem)
        if "AADSTS" in text:  # the code of an answer of Entra
            return InvalidSettings(
                f"Entra refuses the service principal {self.client_id} of the tenant "
                f"{self.tenant_id}: tenant_id, client_id or its secret is wrong, or the secret has "
                "expired: make a new one in the Azure portal, under App registrations, "
                f"Certificates & secrets ({text})"
            )
        if any(word in text for word in ("invalid_client", "Client authentication failed")):
            return InvalidSettings(
                f"{self.host} refuses the service principal {self.client_id}: client_id or its "
                "secret is wrong, or the secret has expired: make a new one in the principal's "
                f"settings, under Secrets ({text})"
            )
        if isinstance(problem, _LOST):
            return Unavailable(f"{self.host} does not answer: {text}")
        return InvalidSettings(
            f"could not sign in to {self.host}: {text}; is {self.host_setting} the address of a "
            "Databricks workspace?"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the client: each process signs in itself."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @contextmanager
    def errors(self, what: str, needs: str = "", grants: Sequence[str] = ()) -> Iterator[None]:
        """Raise the SDK's errors as EventLake's.

        `needs` says what to do to be allowed `what`, and `grants` are the statements to run.
        """
        try:
            yield
        except DatabricksError as problem:
            raise self._explain(problem, what, needs, grants) from problem
        except _LOST as problem:
            text = first_line(problem.__cause__ or problem)
            raise Unavailable(f"could not {what}, even after retries: {text}") from problem
        except ValueError as problem:  # of the request for a token
            raise self._refused(problem) from problem

    def _explain(
        self, problem: DatabricksError, what: str, needs: str, grants: Sequence[str]
    ) -> EventLakeError:
        text = first_line(problem)
        is_token = any(word in text.lower() for word in _REFUSED_TOKENS)
        if isinstance(problem, Unauthenticated) or is_token:
            return self._bad_token(text)
        if isinstance(problem, PermissionDenied):
            grant = find_grant(text, self.principal)
            fix = f"run {grant}" if grant else needs or "grant it"
            statements = grant or ";\n".join(grants)
            return InsufficientPermissions(f"no permission to {what}: {fix} ({text})", statements)
        if isinstance(problem, TooManyRequests | TemporarilyUnavailable | InternalError):
            return Unavailable(f"could not {what}, even after retries: {text}")
        return InvalidSettings(f"could not {what}: {text}")

    def _bad_token(self, text: str) -> EventLakeError:
        if self.auth is DatabricksAuth.PAT:
            return InvalidSettings(
                f"{self.host} does not accept DATABRICKS_TOKEN: it is wrong, of another "
                f"workspace, or has expired ({text}): make a new one with `eventlake databricks "
                "token`, or set auth = 'oauth'"
            )
        return InvalidSettings(
            f"{self.host} does not know the service principal {self.client_id} ({text}): add it "
            "to the workspace, under Settings, Identity and access"
        )

    @property
    def principal(self) -> str:
        """Whom to grant permissions to, for messages."""
        return self.client_id or "<principal>"

    @cached_property
    def user_name(self) -> str:
        """The name of the principal in the workspace: of a service principal, its id."""
        with self.errors("sign in", "add the entitlement 'Workspace access' to the principal"):
            return str(self.client.current_user.me().user_name)


def is_missing(problem: BaseException) -> bool:
    """Whether an error of the SDK says that there is no such object."""
    text = first_line(problem).lower()
    return isinstance(problem, NotFound) or "does not exist" in text


def first_line(problem: BaseException) -> str:
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), repr(problem))
