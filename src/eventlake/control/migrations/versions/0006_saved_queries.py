"""Queries that people keep."""

import sqlalchemy as sa
from alembic import op

from eventlake.control.columns import Key, UtcTime

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "saved_queries",
        sa.Column("id", Key, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("lake_id", sa.Text, nullable=False),
        sa.Column("sql", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lake_id"], ["lakes.id"], name=op.f("fk_saved_queries_lake_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_queries")),
        sa.UniqueConstraint("name", name=op.f("uq_saved_queries_name")),
    )
