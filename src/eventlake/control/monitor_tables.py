"""The tables of health: freshness, runs per day, and the settings of the workspace."""

from sqlalchemy import Column, Float, ForeignKey, Integer, Table, Text

from eventlake.control.columns import Json, UtcTime
from eventlake.control.tables import metadata

freshness = Table(
    "freshness",
    metadata,
    Column("source_id", Text, ForeignKey("sources.id"), primary_key=True),
    Column("table", Text, primary_key=True),
    Column("newest", UtcTime),
    Column("succeeded_at", UtcTime),
    Column("state", Text, nullable=False),
    Column("since", UtcTime),
)
"""Of each table, its newest row; without a table's name, of the source, with its state."""

run_days = Table(
    "run_days",
    metadata,
    Column("source_id", Text, ForeignKey("sources.id"), primary_key=True),
    Column("day", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("runs", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
)
"""How many runs ended on a day, and how long they took."""

settings = Table(
    "settings",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Json),
)
"""Settings of the workspace, and how far loops have come."""
