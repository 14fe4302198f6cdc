"""The control database: SQLite in a file, or PostgreSQL by URL."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy.dialects import postgresql, sqlite

from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import Changed, Conflict, InvalidSettings, Unavailable

Session = sa.Connection
"""A transaction, as `Database.read` and `Database.write` give it."""
BUSY_SECONDS = 30
"""How long a writer waits for the one before it in SQLite."""
MAX_OVERFLOW = 20
"""Connections besides the five of the pool: each thread of a server uses one at a time."""
_WRITES = "eventlake_writes"
_MIGRATION_LOCK = 0x6576656E746C616B


@dataclass(frozen=True)
class Database:
    """Transactions on the control database."""

    engine: sa.Engine
    clock_of: Callable[[Session], datetime]
    """The database's own time: leases of several servers are compared by it."""

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that only reads."""
        with _translate_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that may write; it is committed at the end of the block.

        In SQLite it holds the write lock from its beginning, so that it never fails at its end.
        """
        with _translate_errors(), self.engine.connect() as connection:
            writing = connection.execution_options(**{_WRITES: True})
            with writing.begin():
                yield writing

    def close(self) -> None:
        self.engine.dispose()


def open_database(url: str, clock_of: Callable[[Session], datetime] | None = None) -> Database:
    """Open the database at a path or URL, without migrating it.

    Raises InvalidSettings for a URL of another database. `clock_of` replaces the database's clock
    in tests.
    """
    parsed = _parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = sa.create_engine(parsed, poolclass=sa.QueuePool, max_overflow=MAX_OVERFLOW)
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return Database(engine, clock_of or (lambda _: SYSTEM_CLOCK.now()))
    engine = sa.create_engine(parsed, pool_pre_ping=True, max_overflow=MAX_OVERFLOW)
    return Database(engine, clock_of or _read_server_clock)


def migrate(database: Database) -> None:
    """Create the tables, or change them to what this version needs.

    A new file of SQLite is closed to other users: it has the hashes of tokens. Raises
    InvalidSettings if a newer version has changed the database.
    """
    path = database.engine.url.database
    if database.engine.dialect.name == "sqlite" and path:
        with suppress(OSError):  # the connection fails with the same error
            Path(path).touch(mode=0o600)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with database.write() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as problem:
            raise InvalidSettings(
                f"a newer version of EventLake has used this database ({problem}): install that "
                "version, or restore a backup of the database"
            ) from problem


def insert_if_absent(
    session: Session,
    table: sa.Table,
    rows: Sequence[dict[str, Any]],
    returning: sa.Column[Any] | None = None,
) -> set[Any]:
    """Insert the rows that violate no unique constraint; return the value of one column of each.

    The column is by default the first one of the primary key.
    """
    if not rows:
        return set()
    column = next(iter(table.primary_key.columns)) if returning is None else returning
    statement = _build_insert(session.dialect.name, table, column)
    return set(session.execute(statement, rows).scalars())


@cache
def _build_insert(dialect: str, table: sa.Table, returning: sa.Column[Any]) -> sa.Insert:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing().returning(returning)


def add_to_rows(
    session: Session, table: sa.Table, names: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    """Insert rows; where the key exists, add the numbers in the columns `names` to those there."""
    if not rows:
        return
    insert = (postgresql if session.dialect.name == "postgresql" else sqlite).insert(table)
    sums = {name: table.c[name] + insert.excluded[name] for name in names}
    session.execute(
        insert.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=sums),
        rows,
    )


def update_version(
    session: Session, table: sa.Table, is_row: sa.ColumnElement[bool], version: int, **values: Any
) -> None:
    """Change a row that has a version; raises Changed if the version is not its own any more."""
    changed = session.execute(
        table.update()
        .where(is_row, table.c.version == version)
        .values(version=version + 1, **values)
    )
    if not changed.rowcount:
        raise Changed("somebody else has changed it meanwhile: see what it is now, then change it")


def _parse_url(url: str) -> sa.URL:
    if "://" not in url:
        return sa.URL.create("sqlite", database=url)
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidSettings(
            "the database's URL cannot be parsed: postgresql://user@host/name"
        ) from None
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend == "sqlite":
        return parsed
    raise InvalidSettings(
        f"the database's URL begins with {backend}://: use a path for SQLite, or postgresql://"
    )


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # BEGIN is ours: see _begin_sqlite
    for pragma in (f"busy_timeout={BUSY_SECONDS}000", "journal_mode=WAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    """Lock at once if the transaction writes: a reader that begins to write may have to fail."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _read_server_clock(session: Session) -> datetime:
    moment: datetime = session.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return moment


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise our errors; the driver's message has neither the password nor the values."""
    try:
        yield
    except sa.exc.IntegrityError as problem:
        raise Conflict(f"another change came first: {problem.orig}") from problem
    except sa.exc.DataError as problem:
        raise InvalidSettings(f"the database cannot store this: {problem.orig}") from problem
    except (sa.exc.OperationalError, sa.exc.TimeoutError) as problem:
        reason = getattr(problem, "orig", problem)
        raise Unavailable(f"the control database does not answer: {reason}") from problem
    except sa.exc.DatabaseError as problem:
        if type(problem) is not sa.exc.DatabaseError:  # a wrong statement is our bug
            raise
        raise InvalidSettings(f"the control database cannot be used: {problem.orig}") from problem
