"""The control database, and the key with which secrets in it are sealed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database, migrate, open_database
from eventlake.control.leases import hold_file
from eventlake.control.vault import Vault, open_vault
from eventlake.control.workspace import ensure_workspace
from eventlake.errors import InsufficientPermissions, InvalidSettings

DATABASE_VARIABLE = "EVENTLAKE_DATABASE"
DEFAULT_DATABASE = "eventlake.db"
KEY_FILE = "eventlake.key"


@dataclass(frozen=True)
class Installation:
    """The database with the workspace, and the vault of its secrets."""

    database: Database
    vault: Vault
    clock: Clock
    file: Path | None
    """The file of SQLite; None for PostgreSQL."""
    url: str
    """The path or URL of the database."""
    key_file: Path
    """Where the key is, unless it is in the environment."""


@contextmanager
def open_installation(
    url: str = DEFAULT_DATABASE,
    *,
    is_server: bool = False,
    create: bool = True,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Installation]:
    """Open the database at a path or URL until the end of the block; create what is missing.

    Without `create`, raises InvalidSettings if there is no such file. A server is alone on a file:
    raises InvalidSettings if there is another one. The key is in the environment, else in
    `eventlake.key` beside the file, or in the current folder.
    """
    file = None if "://" in url else Path(url)
    if file and not create and not file.exists():
        raise InvalidSettings(
            f"no database at {url}: start `eventlake up` there, or give --database"
        )
    with ExitStack() as stack:
        try:
            if file and is_server:
                stack.enter_context(hold_file(file))
        except PermissionError as problem:
            raise InsufficientPermissions(f"{problem.strerror}: {problem.filename}") from problem
        except OSError as problem:
            raise InvalidSettings(f"database is {url!r}: {problem.strerror}") from problem
        database = open_database(url)
        stack.callback(database.close)
        migrate(database)
        with database.write() as session:
            ensure_workspace(session, clock.now())
        key_file = (file.parent if file else Path()) / KEY_FILE
        yield Installation(database, open_vault(key_file), clock, file, url, key_file)
