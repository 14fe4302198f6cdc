"""The first tables."""

import sqlalchemy as sa
from alembic import op

from eventlake.control.columns import Json, Key, UtcTime

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "lakes",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("slug", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column("secrets", Json, nullable=False),
        sa.Column("runner", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lakes")),
        sa.UniqueConstraint("slug", name=op.f("uq_lakes_slug")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("until", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "sources",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("slug", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("removed_at", UtcTime, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sources")),
        sa.UniqueConstraint("slug", name=op.f("uq_sources_slug")),
    )
    op.create_table(
        "workspace",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_workspace")),
    )
    op.create_table(
        "connections",
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("lake_id", sa.Text, nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column("database", sa.Text, nullable=False),
        sa.Column("table_prefix", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lake_id"], ["lakes.id"], name=op.f("fk_connections_lake_id")),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("fk_connections_source_id")
        ),
        sa.PrimaryKeyConstraint("source_id", name=op.f("pk_connections")),
        sa.UniqueConstraint(
            "lake_id",
            "database",
            "table_prefix",
            name=op.f("uq_connections_lake_id_database_table_prefix"),
        ),
    )
    op.create_table(
        "daily",
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("rows", Key, nullable=False),
        sa.Column("received", Key, nullable=False),
        sa.Column("duplicates", Key, nullable=False),
        sa.Column("suppressed", Key, nullable=False),
        sa.Column("quarantined", Key, nullable=False),
        sa.Column("skipped", Key, nullable=False),
        sa.Column("rescued", Key, nullable=False),
        sa.Column("bytes", Key, nullable=False),
        sa.Column("files", Key, nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_daily_source_id")),
        sa.PrimaryKeyConstraint("source_id", "day", "table", name=op.f("pk_daily")),
    )
    op.create_table(
        "notices",
        sa.Column("id", Key, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("source_id", sa.Text, nullable=True),
        sa.Column("data", Json, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_notices_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
        sa.UniqueConstraint("key", name=op.f("uq_notices_key")),
    )
    op.create_index(op.f("ix_notices_source_id"), "notices", ["source_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", Key, nullable=False),
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("lane", sa.Text, nullable=False),
        sa.Column("trigger", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("slot", UtcTime, nullable=True),
        sa.Column("coalesced", sa.Integer, nullable=False),
        sa.Column("met_run", Key, nullable=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("check_first", sa.Boolean, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("not_before", UtcTime, nullable=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("lease_until", UtcTime, nullable=True),
        sa.Column("handle", sa.Text, nullable=False),
        sa.Column("lake_run", sa.Text, nullable=False),
        sa.Column("progress", Json, nullable=False),
        sa.Column("error_code", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("started_at", UtcTime, nullable=True),
        sa.Column("ended_at", UtcTime, nullable=True),
        sa.ForeignKeyConstraint(["met_run"], ["runs.id"], name=op.f("fk_runs_met_run")),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_runs_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("source_id", "slot", name=op.f("uq_runs_source_id_slot")),
    )
    op.create_index(op.f("ix_runs_source_id_id"), "runs", ["source_id", "id"], unique=False)
    op.create_index(
        "uq_runs_active",
        "runs",
        ["source_id", "lane"],
        unique=True,
        sqlite_where=sa.text("state IN ('queued', 'running', 'cancelling')"),
        postgresql_where=sa.text("state IN ('queued', 'running', 'cancelling')"),
    )
    op.create_index(
        "uq_runs_waiting",
        "runs",
        ["source_id", "lane"],
        unique=True,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "schedules",
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("rule", Json, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("enabled_at", UtcTime, nullable=True),
        sa.Column("considered_to", UtcTime, nullable=True),
        sa.Column("next_slot", UtcTime, nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_schedules_source_id")),
        sa.PrimaryKeyConstraint("source_id", name=op.f("pk_schedules")),
    )
    op.create_index(op.f("ix_schedules_next_slot"), "schedules", ["next_slot"], unique=False)
    op.create_table(
        "write_keys",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("revoked_at", UtcTime, nullable=True),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("fk_write_keys_source_id")
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_write_keys")),
    )
    op.create_index(op.f("ix_write_keys_source_id"), "write_keys", ["source_id"], unique=False)
    op.create_table(
        "incidents",
        sa.Column("id", Key, nullable=False),
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("last_run", Key, nullable=True),
        sa.Column("error_code", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("closed_at", UtcTime, nullable=True),
        sa.ForeignKeyConstraint(["last_run"], ["runs.id"], name=op.f("fk_incidents_last_run")),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_incidents_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
    )
    op.create_index(
        "uq_incidents_open",
        "incidents",
        ["source_id", "kind"],
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "run_tables",
        sa.Column("run_id", Key, nullable=False),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("is_new", sa.Boolean, nullable=False),
        sa.Column("new_columns", Json, nullable=False),
        sa.Column("rows", Key, nullable=False),
        sa.Column("received", Key, nullable=False),
        sa.Column("duplicates", Key, nullable=False),
        sa.Column("suppressed", Key, nullable=False),
        sa.Column("quarantined", Key, nullable=False),
        sa.Column("skipped", Key, nullable=False),
        sa.Column("rescued", Key, nullable=False),
        sa.Column("bytes", Key, nullable=False),
        sa.Column("files", Key, nullable=False),
        sa.Column("error_code", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_tables_run_id")),
        sa.PrimaryKeyConstraint("run_id", "table", name=op.f("pk_run_tables")),
    )
    op.create_table(
        "schema_log",
        sa.Column("id", Key, nullable=False),
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("run_id", Key, nullable=False),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("column", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_schema_log_run_id")),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("fk_schema_log_source_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_log")),
    )
    op.create_index(op.f("ix_schema_log_source_id"), "schema_log", ["source_id"], unique=False)
