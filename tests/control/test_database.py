"""The control database, on SQLite and PostgreSQL."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from eventlake.control import tables
from eventlake.control.database import Database, insert_if_absent, migrate, open_database
from eventlake.errors import Conflict, InvalidSettings, Unavailable

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)


def source(number: int) -> dict[str, object]:
    return {"id": f"s{number}", "slug": f"source-{number}", "enabled": True, "created_at": NOW}


def test_migrations_make_the_tables_that_the_code_uses(empty_url: str) -> None:
    database = open_database(empty_url)
    migrate(database)
    with database.read() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    database.close()
    assert differences == []


def test_other_users_cannot_read_the_file(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "eventlake.db"))
    migrate(database)
    with database.write() as connection:
        connection.execute(tables.sources.insert().values(source(1)))
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    database.close()


def test_several_servers_may_migrate_at_once(empty_url: str) -> None:
    databases = [open_database(empty_url) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(migrate, databases))
    with databases[0].read() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM alembic_version")).scalar() == 1
    for database in databases:
        database.close()


def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InvalidSettings, match=r"newer version of EventLake.*9999"):
        migrate(database)


def test_times_keep_their_microseconds_and_are_utc(database: Database) -> None:
    local = NOW.astimezone(timezone(timedelta(hours=5)))
    with database.write() as connection:
        connection.execute(tables.sources.insert().values({**source(1), "created_at": local}))
    with database.read() as connection:
        found = connection.execute(sa.select(tables.sources.c.created_at)).scalar_one()
    assert (found, found.utcoffset()) == (NOW, timedelta(0))


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(sa.exc.StatementError, match="no time zone"), database.read() as connection:
        connection.execute(sa.select(tables.sources).where(tables.sources.c.created_at < naive))


def test_writers_wait_for_each_other(database: Database) -> None:
    """Each reads, then writes what it read plus one: none fails, and no addition is lost."""
    lease = {"name": "n", "holder": "", "epoch": 0, "until": NOW}
    with database.write() as connection:
        connection.execute(tables.leases.insert(), [lease])

    def add(_: int) -> None:
        with database.write() as connection:
            epoch = connection.execute(sa.select(tables.leases.c.epoch).with_for_update())
            connection.execute(tables.leases.update().values(epoch=epoch.scalar_one() + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(200)))
    with database.read() as connection:
        assert connection.execute(sa.select(tables.leases.c.epoch)).scalar_one() == 200


def test_a_failed_block_changes_nothing(database: Database) -> None:
    def add(*numbers: int) -> None:
        with database.write() as connection:
            for number in numbers:
                connection.execute(tables.sources.insert().values(source(number)))

    with pytest.raises(Conflict):
        add(1, 2, 1)
    with database.read() as connection:
        assert connection.execute(sa.select(tables.sources)).all() == []


def test_rows_that_exist_are_not_inserted_again(database: Database) -> None:
    with database.write() as connection:
        assert insert_if_absent(connection, tables.sources, [source(1)]) == {"s1"}
        three = [source(1), source(2), {**source(3), "slug": "source-1"}]
        assert insert_if_absent(connection, tables.sources, three) == {"s2"}
        assert insert_if_absent(connection, tables.sources, []) == set()


def test_a_violated_constraint_is_a_conflict(database: Database) -> None:
    with pytest.raises(Conflict, match=r"(?i)unique"), database.write() as connection:
        connection.execute(tables.sources.insert(), [source(1), source(1)])


def test_a_reader_does_not_wait_for_a_writer(database: Database) -> None:
    with database.write() as writer:
        writer.execute(tables.sources.insert().values(source(1)))
        with database.read() as reader:
            assert reader.execute(sa.select(tables.sources)).all() == []


def test_a_server_that_is_away_is_unavailable_and_its_password_not_told(tmp_path: Path) -> None:
    database = open_database(f"postgresql://me:hush-hush@/x?host={tmp_path}")
    with pytest.raises(Unavailable, match="does not answer") as caught, database.read():
        pass
    assert "hush-hush" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"something else " * 99)
    database = open_database(str(tmp_path / "x.db"))
    with pytest.raises(InvalidSettings, match="cannot be used: file is not a database"):
        migrate(database)


def test_text_that_postgresql_cannot_store_is_refused(database: Database) -> None:
    def add() -> None:
        with database.write() as connection:
            connection.execute(tables.sources.insert().values({**source(1), "slug": "a\0b"}))

    if database.engine.dialect.name == "sqlite":
        add()
        return
    with pytest.raises(InvalidSettings, match="cannot store this"):
        add()


def test_other_databases_are_refused() -> None:
    with pytest.raises(InvalidSettings, match="begins with mysql://: use a path for SQLite"):
        open_database("mysql://me@there/x")
    with pytest.raises(InvalidSettings, match="cannot be parsed"):
        open_database("postgresql://me:secret@there:port/x")


def test_the_database_of_postgresql_tells_its_own_time(url: str) -> None:
    database = open_database(url)
    with database.read() as connection:
        told = database.clock_of(connection)
    database.close()
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)


def test_control_imports_neither_spark_nor_arrow() -> None:
    code = (
        "import pkgutil, sys, importlib, eventlake.control as c\n"
        "for m in pkgutil.iter_modules(c.__path__, 'eventlake.control.'):\n"
        "    importlib.import_module(m.name)\n"
        "assert not {'pyspark', 'py4j', 'pyarrow', 'duckdb'} & sys.modules.keys(), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
