"""The workspace: its id and name."""

import secrets
import string
from datetime import datetime

import sqlalchemy as sa

from eventlake.control import tables
from eventlake.control.database import Session, insert_if_absent
from eventlake.model.values import FrozenModel

_LETTERS = string.ascii_lowercase + string.digits


class Workspace(FrozenModel):
    """The workspace. Its id is the external id with which roles of lakes are assumed."""

    id: str
    name: str


def ensure_workspace(session: Session, now: datetime, name: str = "default") -> Workspace:
    """Return the workspace; create it in a new database."""
    row = {"number": 1, "id": new_id(), "name": name, "created_at": now}
    insert_if_absent(session, tables.workspace, [row])
    return get_workspace(session)


def get_workspace(session: Session) -> Workspace:
    """The workspace of a database where it was created."""
    row = session.execute(sa.select(tables.workspace)).one()
    return Workspace(id=row.id, name=row.name)


def new_id() -> str:
    """A random id for a path or a URL: 12 lower-case letters and digits, a letter first."""
    first = secrets.choice(string.ascii_lowercase)
    return first + "".join(secrets.choice(_LETTERS) for _ in range(11))
