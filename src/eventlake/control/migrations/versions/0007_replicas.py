"""The servers on the database."""

import sqlalchemy as sa
from alembic import op

from eventlake.control.columns import Json, UtcTime

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "replicas",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("parts", Json, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("started_at", UtcTime, nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_replicas")),
    )
