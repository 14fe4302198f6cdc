"""How to sign in to a Databricks workspace, and which runtimes of its clusters work."""

import re
from collections.abc import Mapping
from enum import StrEnum

from eventlake.errors import InvalidSettings


class DatabricksAuth(StrEnum):
    """How to sign in to a workspace."""

    OAUTH = "oauth"
    PAT = "pat"
    AZURE = "azure"


DATABRICKS_SECRETS: Mapping[str, str] = {
    "databricks_client_secret": "DATABRICKS_CLIENT_SECRET",
    "databricks_token": "DATABRICKS_TOKEN",
}
"""Secrets of a workspace, and the environment variable each is read from."""

OLDEST_RUNTIME = 15
_RUNTIME = re.compile(r"^(\d+)\.(\d+)\.")
_NEEDS = "use Databricks Runtime 15.4 LTS or newer"


def workspace_address(host: str) -> str:
    """The address of a workspace, also if a setting has only its host."""
    address = host.rstrip("/")
    return address if "://" in address else f"https://{address}"


def check_runtime(version: str, subject: str) -> None:
    """Raise InvalidSettings if a runtime such as `16.4.x-scala2.12` is too old for EventLake.

    Custom images, whose names say nothing, pass. `subject` begins the message.
    """
    match = _RUNTIME.match(version)
    if match is None or int(match[1]) >= OLDEST_RUNTIME:
        return
    number = f"{match[1]}.{match[2]}"
    if int(match[1]) == OLDEST_RUNTIME - 1:
        raise InvalidSettings(
            f"{subject} {number} has Python 3.10, and EventLake needs 3.11: {_NEEDS}"
        )
    raise InvalidSettings(f"{subject} {number} has a Spark older than 3.5: {_NEEDS}")
