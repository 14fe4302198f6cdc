"""The tables of the control database. Of their rows, only old runs and notices are deleted."""

from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from eventlake.control.columns import Json, Key, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ACTIVE = ("queued", "running", "cancelling")
"""The states of runs of which a source has at most one per lane."""
_IS_WAITING = "state = 'waiting'"
_IS_ACTIVE = f"state IN ({', '.join(map(repr, ACTIVE))})"

COUNTS = (
    "rows",
    "received",
    "duplicates",
    "suppressed",
    "quarantined",
    "skipped",
    "rescued",
    "bytes",
    "files",
)
"""What is counted per run, table and day; a table without a name stands for the whole run."""


def _text(name: str, *given: Any, **options: Any) -> Column[str]:
    return Column(name, Text, *given, **{"nullable": False, **options})


def _time(name: str, **options: Any) -> Column[Any]:
    return Column(name, UtcTime, **options)


def _created_at() -> Column[Any]:
    return _time("created_at", nullable=False)


def _source(**options: Any) -> Column[str]:
    return _text("source_id", ForeignKey("sources.id"), **options)


def _unique_where(name: str, condition: str, *columns: str) -> Index:
    where = text(condition)
    return Index(name, *columns, unique=True, sqlite_where=where, postgresql_where=where)


workspace = Table(
    "workspace",
    metadata,
    Column("number", Integer, CheckConstraint("number = 1", name="one_row"), primary_key=True),
    _text("id"),
    _text("name"),
    _created_at(),
)

sources = Table(
    "sources",
    metadata,
    _text("id", primary_key=True),
    _text("slug", unique=True),
    Column("enabled", Boolean, nullable=False),
    _created_at(),
    _time("removed_at"),
)

write_keys = Table(
    "write_keys",
    metadata,
    _text("key", primary_key=True),
    _source(index=True),
    _created_at(),
    _time("revoked_at"),
)

lakes = Table(
    "lakes",
    metadata,
    _text("id", primary_key=True),
    _text("slug", unique=True),
    _text("kind"),
    Column("settings", Json, nullable=False),
    Column("secrets", Json, nullable=False),
    _text("runner"),
    Column("version", Integer, nullable=False),
    _created_at(),
)

connections = Table(
    "connections",
    metadata,
    _source(primary_key=True),
    _text("lake_id", ForeignKey("lakes.id")),
    Column("settings", Json, nullable=False),
    _text("database"),
    _text("table_prefix"),
    Column("version", Integer, nullable=False),
    _created_at(),
    UniqueConstraint("lake_id", "database", "table_prefix"),
)

schedules = Table(
    "schedules",
    metadata,
    _source(primary_key=True),
    Column("rule", Json, nullable=False),
    Column("version", Integer, nullable=False),
    _created_at(),
    _time("enabled_at"),
    _time("considered_to"),
    _time("changed_at"),
    _time("next_slot", index=True),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Key, primary_key=True),
    _source(),
    _text("kind"),
    _text("lane"),
    _text("trigger"),
    _text("actor"),
    _text("state"),
    _text("reason"),
    _time("slot"),
    Column("coalesced", Integer, nullable=False),
    Column("met_run", Key, ForeignKey("runs.id")),
    Column("epoch", Integer, nullable=False),
    Column("check_first", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    _time("not_before"),
    _text("owner"),
    _time("lease_until"),
    _text("handle"),
    _text("lake_run"),
    Column("progress", Json, nullable=False),
    _text("error_code"),
    _text("error"),
    _created_at(),
    _time("started_at"),
    _time("ended_at"),
    Column("parameters", Json, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("plan", Json),
    Column("result", Json),
    Column("stages", Json, nullable=False),
    Column("replay_id", Key, index=True),
    Column("chunk", Integer),
    Column("erasure_id", Key, index=True),
    Column("retry_of", Key),
    UniqueConstraint("source_id", "slot"),
    Index(None, "source_id", "id"),
    _unique_where("uq_runs_active", _IS_ACTIVE, "source_id", "lane"),
    _unique_where("uq_runs_waiting", _IS_WAITING, "source_id", "lane"),
)

IS_ACTIVE = text(f"runs.{_IS_ACTIVE}")
"""The condition of the index of active runs in its own words: else the index is not used."""
IS_WAITING = text(f"runs.{_IS_WAITING}")
"""That of the index of waiting runs."""

LOCK_ORDER = (runs.c.source_id, runs.c.lane)
"""The order in which transactions lock active runs, which is also that of their index."""

replays = Table(
    "replays",
    metadata,
    Column("id", Key, primary_key=True),
    _source(),
    _text("state"),
    Column("parameters", Json, nullable=False),
    Column("chunk_seconds", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("plan_run", Key),
    Column("after_run", Key, nullable=False),
    _text("actor"),
    _text("error_code"),
    _text("error"),
    _created_at(),
    _time("started_at"),
    _time("ended_at"),
    Index(None, "source_id", "id"),
)

erasures = Table(
    "erasures",
    metadata,
    Column("id", Key, primary_key=True),
    _text("lake_id", ForeignKey("lakes.id")),
    _text("ids"),
    _text("salt"),
    Column("hashes", Json, nullable=False),
    Column("also_anonymous", Boolean, nullable=False),
    Column("is_resolved", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    _text("actor"),
    _created_at(),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Key, primary_key=True),
    _source(),
    _text("kind"),
    Column("failures", Integer, nullable=False),
    Column("last_run", Key, ForeignKey("runs.id")),
    _text("error_code"),
    _text("error"),
    _created_at(),
    _time("closed_at"),
    _unique_where("uq_incidents_open", "closed_at IS NULL", "source_id", "kind"),
)


def _counts() -> list[Column[int]]:
    return [Column(name, Key, nullable=False) for name in COUNTS]


run_tables = Table(
    "run_tables",
    metadata,
    Column("run_id", Key, ForeignKey("runs.id"), primary_key=True),
    _text("table", primary_key=True),
    _text("status"),
    Column("is_new", Boolean, nullable=False),
    Column("new_columns", Json, nullable=False),
    *_counts(),
    _text("error_code"),
    _text("error"),
)

schema_log = Table(
    "schema_log",
    metadata,
    Column("id", Key, primary_key=True),
    _source(index=True),
    Column("run_id", Key, ForeignKey("runs.id")),
    _text("table"),
    _text("column"),
    _text("change"),
    _text("type"),
    _created_at(),
)

daily = Table(
    "daily",
    metadata,
    _source(primary_key=True),
    _text("day", primary_key=True),
    _text("table", primary_key=True),
    *_counts(),
    Index(
        "ix_daily_totals",
        "source_id",
        "day",
        sqlite_where=text("\"table\" = ''"),
        postgresql_where=text("\"table\" = ''"),
    ),
)

notices = Table(
    "notices",
    metadata,
    Column("id", Key, primary_key=True),
    _text("key", unique=True),
    _text("event"),
    _source(nullable=True, index=True),
    Column("data", Json, nullable=False),
    _created_at(),
)

leases = Table(
    "leases",
    metadata,
    _text("name", primary_key=True),
    _text("holder"),
    Column("epoch", Integer, nullable=False),
    _time("until", nullable=False),
)

replicas = Table(
    "replicas",
    metadata,
    _text("name", primary_key=True),
    Column("parts", Json, nullable=False),
    _text("version"),
    _time("started_at", nullable=False),
    _time("seen_at", nullable=False),
)

saved_queries = Table(
    "saved_queries",
    metadata,
    Column("id", Key, primary_key=True),
    _text("name", unique=True),
    _text("lake_id", ForeignKey("lakes.id")),
    _text("sql"),
    _text("actor"),
    _created_at(),
)
