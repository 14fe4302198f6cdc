"""The tables of notices: channels, rules, deliveries."""

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, text

from eventlake.control.columns import Json, Key, UtcTime
from eventlake.control.tables import metadata

OPEN_STATES = ("pending", "sending")
_IS_OPEN = f"state IN ({', '.join(map(repr, OPEN_STATES))})"
IS_OPEN = text(f"deliveries.{_IS_OPEN}")
"""The condition of the index of open deliveries in its own words: else the index is not used."""

channels = Table(
    "channels",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("settings", Json, nullable=False),
    Column("secrets", Json, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("removed_at", UtcTime),
    Index(
        "uq_channels_name",
        "name",
        unique=True,
        sqlite_where=text("removed_at IS NULL"),
        postgresql_where=text("removed_at IS NULL"),
    ),
)

rules = Table(
    "rules",
    metadata,
    Column("id", Key, primary_key=True),
    Column("channel_id", Text, ForeignKey("channels.id"), nullable=False, index=True),
    Column("events", Json, nullable=False),
    Column("sources", Json, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Key, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("notice_id", Key, ForeignKey("notices.id"), nullable=False, index=True),
    Column("channel_id", Text, ForeignKey("channels.id"), nullable=False),
    Column("state", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("next_at", UtcTime, nullable=False),
    Column("lease_until", UtcTime),
    Column("answer", Text, nullable=False),
    Column("delivered_at", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Index(None, "channel_id", "id"),
    Index(
        "ix_deliveries_open",
        "channel_id",
        "next_at",
        sqlite_where=text(_IS_OPEN),
        postgresql_where=text(_IS_OPEN),
    ),
)
