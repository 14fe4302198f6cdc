"""How the server reaches a lake: its settings, and its secrets from the database."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventlake.control.connections import get_connection
from eventlake.control.database import Session
from eventlake.control.lakes import RegisteredLake, get_lake, list_lakes, read_secrets
from eventlake.control.sources import get_source
from eventlake.control.vault import Vault
from eventlake.errors import InvalidSettings
from eventlake.model.settings import SourceSettings


@dataclass(frozen=True)
class GivenSecrets:
    """Secrets of a lake that were read from the database."""

    values: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.values.get(name)


@dataclass(frozen=True)
class LakeAccess:
    """A lake with its secrets."""

    lake: RegisteredLake
    variables: Mapping[str, str]
    """The secrets, by the environment variable in which a process finds each."""

    @property
    def secrets(self) -> GivenSecrets | None:
        """The secrets for a lake that is opened in this process; None if it has none."""
        names = self.lake.model.secrets
        found = {n: self.variables[names[n]] for n in names if names[n] in self.variables}
        return GivenSecrets(found) if found else None


@dataclass(frozen=True)
class SourceAccess:
    """A source's settings, and the lake that it is connected to."""

    settings: SourceSettings
    access: LakeAccess


def open_access(session: Session, lake: str, vault: Vault) -> LakeAccess:
    """A lake by its name or id; the only one of the workspace if `lake` is empty.

    Raises NotFound for another name, and InvalidSettings if the lake has to be named.
    """
    found = get_lake(session, lake) if lake else _get_only_lake(session)
    return LakeAccess(found, read_secrets(session, found.id, vault))


def open_source_access(session: Session, source: str, vault: Vault) -> SourceAccess:
    """The lake of a source; raises NotFound for one that is not connected."""
    connection = get_connection(session, get_source(session, source).id)
    return SourceAccess(connection.resolved, open_access(session, connection.lake, vault))


def _get_only_lake(session: Session) -> RegisteredLake:
    found = list_lakes(session)
    if len(found) != 1:
        names = ", ".join(one.slug for one in found) or "none yet"
        raise InvalidSettings(f"lake is not set: choose one of {names}")
    return found[0]
