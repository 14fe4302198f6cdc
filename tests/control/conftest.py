"""Each test with a `database` runs on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eventlake.control.database import Database, migrate, open_database
from tests.clocks import SimulatedClock
from tests.postgres import create_database, postgres_server

_numbers = count()

MakeUrl = Callable[..., str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def migrated_postgres(postgres: str) -> str:
    url = create_database(postgres, "migrated")
    _migrate(url)
    return postgres


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("migrated") / "eventlake.db"
    _migrate(str(path))
    return path.read_bytes()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: Any, tmp_path: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return str(tmp_path / "empty.db")
    return create_database(request.getfixturevalue("postgres"), f"empty_{next(_numbers)}")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: Any, tmp_path: Path) -> str:
    """A database with all tables."""
    if request.param == "sqlite":
        path = tmp_path / "eventlake.db"
        path.write_bytes(request.getfixturevalue("migrated_sqlite"))
        return str(path)
    server = request.getfixturevalue("migrated_postgres")
    return create_database(server, f"test_{next(_numbers)}", "migrated")


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(datetime(2026, 3, 2, 9, tzinfo=UTC))


@pytest.fixture
def database(url: str, clock: SimulatedClock) -> Iterator[Database]:
    """A database with all tables, whose own time is that of `clock`."""
    database = open_database(url, lambda _: clock.now())
    if database.engine.dialect.name == "sqlite":
        sa.event.listen(database.engine, "connect", without_fsync)
    yield database
    database.close()


def without_fsync(connection: Any, _: Any) -> None:
    """As the PostgreSQL of tests: no test cuts the power."""
    connection.execute("PRAGMA synchronous=OFF")


def _migrate(url: str) -> None:
    database = open_database(url)
    migrate(database)
    database.close()
