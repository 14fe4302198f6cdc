"""Kinds of runs: their parameters, plans and results, replays in chunks, and erasures."""

import sqlalchemy as sa
from alembic import op

from eventlake.control.columns import Json, Key, UtcTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    for column in (
        sa.Column("parameters", Json, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("dry_run", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("plan", Json, nullable=True),
        sa.Column("result", Json, nullable=True),
        sa.Column("stages", Json, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("replay_id", Key, nullable=True),
        sa.Column("chunk", sa.Integer, nullable=True),
        sa.Column("erasure_id", Key, nullable=True),
        sa.Column("retry_of", Key, nullable=True),
    ):
        op.add_column("runs", column)
    op.create_index(op.f("ix_runs_replay_id"), "runs", ["replay_id"], unique=False)
    op.create_index(op.f("ix_runs_erasure_id"), "runs", ["erasure_id"], unique=False)
    _create_replays()
    _create_erasures()


def _create_replays() -> None:
    op.create_table(
        "replays",
        sa.Column("id", Key, nullable=False),
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("chunk_seconds", sa.Integer, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("plan_run", Key, nullable=True),
        sa.Column("after_run", Key, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("error_code", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("started_at", UtcTime, nullable=True),
        sa.Column("ended_at", UtcTime, nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_replays_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replays")),
    )
    op.create_index(op.f("ix_replays_source_id_id"), "replays", ["source_id", "id"], unique=False)


def _create_erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", Key, nullable=False),
        sa.Column("lake_id", sa.Text, nullable=False),
        sa.Column("ids", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("hashes", Json, nullable=False),
        sa.Column("also_anonymous", sa.Boolean, nullable=False),
        sa.Column("is_resolved", sa.Boolean, nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lake_id"], ["lakes.id"], name=op.f("fk_erasures_lake_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )
