"""Credentials of storage that Unity Catalog hands out for an external location."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from databricks.sdk.service.catalog import PathOperation

from eventlake.aws import Access
from eventlake.databricks.grants import grant_statement
from eventlake.databricks.workspace import Workspace
from eventlake.errors import InvalidSettings


@dataclass(frozen=True)
class VendedAccess(Access):
    """Access to a bucket with temporary credentials of an external location."""

    workspace: Workspace | None = None
    url: str = ""

    def role_credentials(self) -> Callable[[], Any]:
        return self._vend

    def check(self) -> str:
        """Try to get credentials; raises InsufficientPermissions with what to grant."""
        self._vend()
        return self.url

    def _vend(self) -> dict[str, Any]:
        assert self.workspace is not None
        location = grant_statement(
            "EXTERNAL USE LOCATION", "EXTERNAL LOCATION", "<location>", self.workspace.principal
        )
        needs = f"run {location}, and enable External data access on the metastore"
        with self.workspace.errors(f"get credentials for {self.url}", needs, (location,)):
            vended = self.workspace.client.temporary_path_credentials
            found = vended.generate_temporary_path_credentials(
                self.url, PathOperation.PATH_READ_WRITE
            )
        keys = found.aws_temp_credentials
        if keys is None:
            raise InvalidSettings(
                f"storage is {self.url!r}: the workspace gave no credentials of AWS for it"
            )
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token,
            "expires_at": datetime.fromtimestamp((found.expiration_time or 0) / 1000, UTC),
        }
