"""Channels, rules and deliveries of notices; freshness, runs per day, settings."""

import sqlalchemy as sa
from alembic import op

from eventlake.control.columns import Json, Key, UtcTime

revision = "0005"
down_revision = "0004"

_IS_OPEN = sa.text("state IN ('pending', 'sending')")
_IS_TOTAL = sa.text("\"table\" = ''")
_IS_CHANNEL = sa.text("removed_at IS NULL")


def upgrade() -> None:
    _create_notices()
    _create_health()
    with op.batch_alter_table("schedules") as batch:
        batch.add_column(sa.Column("changed_at", UtcTime, nullable=True))
    with op.batch_alter_table("schema_log") as batch:
        batch.alter_column("run_id", existing_type=Key, nullable=True)
    op.create_index(
        "ix_daily_totals",
        "daily",
        ["source_id", "day"],
        sqlite_where=_IS_TOTAL,
        postgresql_where=_IS_TOTAL,
    )


def _create_notices() -> None:
    op.create_table(
        "channels",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column("secrets", Json, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("removed_at", UtcTime, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channels")),
    )
    op.create_index(
        "uq_channels_name",
        "channels",
        ["name"],
        unique=True,
        sqlite_where=_IS_CHANNEL,
        postgresql_where=_IS_CHANNEL,
    )
    op.create_table(
        "rules",
        sa.Column("id", Key, nullable=False),
        sa.Column("channel_id", sa.Text, nullable=False),
        sa.Column("events", Json, nullable=False),
        sa.Column("sources", Json, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_rules_channel_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rules")),
    )
    op.create_index(op.f("ix_rules_channel_id"), "rules", ["channel_id"])
    op.create_table(
        "deliveries",
        sa.Column("id", Key, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("notice_id", Key, nullable=False),
        sa.Column("channel_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("since", UtcTime, nullable=False),
        sa.Column("next_at", UtcTime, nullable=False),
        sa.Column("lease_until", UtcTime, nullable=True),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("delivered_at", UtcTime, nullable=True),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["channel_id"], ["channels.id"], name=op.f("fk_deliveries_channel_id")
        ),
        sa.ForeignKeyConstraint(
            ["notice_id"], ["notices.id"], name=op.f("fk_deliveries_notice_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("key", name=op.f("uq_deliveries_key")),
    )
    op.create_index(op.f("ix_deliveries_notice_id"), "deliveries", ["notice_id"])
    op.create_index(op.f("ix_deliveries_channel_id_id"), "deliveries", ["channel_id", "id"])
    op.create_index(
        "ix_deliveries_open",
        "deliveries",
        ["channel_id", "next_at"],
        sqlite_where=_IS_OPEN,
        postgresql_where=_IS_OPEN,
    )


def _create_health() -> None:
    op.create_table(
        "freshness",
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("newest", UtcTime, nullable=True),
        sa.Column("succeeded_at", UtcTime, nullable=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since", UtcTime, nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_freshness_source_id")),
        sa.PrimaryKeyConstraint("source_id", "table", name=op.f("pk_freshness")),
    )
    op.create_table(
        "run_days",
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_run_days_source_id")),
        sa.PrimaryKeyConstraint("source_id", "day", "kind", "state", name=op.f("pk_run_days")),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", Json, nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_settings")),
    )
