"""Users of an OpenID provider.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("users", sa.Column("oidc_sub", sa.Text, nullable=True))
    op.create_index(op.f("ix_users_oidc_sub"), "users", ["oidc_sub"], unique=True)
