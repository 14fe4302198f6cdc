"""Servers as processes and in threads of the test, on SQLite and PostgreSQL."""

from tests.control.conftest import (
    clock,
    empty_url,
    migrated_postgres,
    migrated_sqlite,
    postgres,
    url,
)

__all__ = ["clock", "empty_url", "migrated_postgres", "migrated_sqlite", "postgres", "url"]
