"""The tables of people: users, their sessions, tokens, and the audit log."""

from sqlalchemy import Column, ForeignKey, Integer, Table, Text

from eventlake.control.columns import Json, Key, UtcTime
from eventlake.control.tables import metadata

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("email", Text, nullable=False, unique=True),
    Column("password_hash", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("oidc_sub", Text, index=True, unique=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user_id", Text, ForeignKey("users.id"), nullable=False, index=True),
    Column("created_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("used_at", UtcTime),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Key, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("object", Text, nullable=False, index=True),
    Column("before", Json),
    Column("after", Json),
    Column("address", Text, nullable=False),
    Column("request_id", Text, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("actor", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", Json),
    Column("created_at", UtcTime, nullable=False, index=True),
)
