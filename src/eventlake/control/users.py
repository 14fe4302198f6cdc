"""The users of the workspace."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.passwords import hash_password
from eventlake.control.people_tables import sessions, tokens, users
from eventlake.control.roles import Role
from eventlake.control.tables import workspace
from eventlake.control.workspace import new_id
from eventlake.errors import InvalidSettings, NotFound
from eventlake.model.values import FrozenModel

_EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,189}")

NO_PASSWORD = ""
"""No password has this hash."""


class User(FrozenModel):
    """A user, without the password."""

    id: str
    email: str
    role: Role
    created_at: datetime


def add_user(session: Session, email: str, password: str, role: Role, now: datetime) -> User:
    """Create a user; e-mail addresses are compared in lower case.

    Raises InvalidSettings for an address that is invalid or taken, and for a short password.
    """
    return _add(session, email, hash_password(password), role, now)


def add_user_without_password(session: Session, email: str, role: Role, now: datetime) -> User:
    """Create a user who cannot log in with a password; raises InvalidSettings as `add_user`."""
    return _add(session, email, NO_PASSWORD, role, now)


def _add(session: Session, email: str, password_hash: str, role: Role, now: datetime) -> User:
    address = parse_email(email)
    row = {
        "id": new_id(),
        "email": address,
        "password_hash": password_hash,
        "role": role.value,
        "created_at": now,
    }
    if not insert_if_absent(session, users, [row]):
        raise InvalidSettings(f"email is {address!r}: there is such a user already")
    return get_user(session, address)


def parse_email(email: str) -> str:
    """The address in lower case; raises InvalidSettings if it is none."""
    address = email.strip().lower()
    if not _EMAIL.fullmatch(address):
        raise InvalidSettings(f"email is {email!r}: give an address such as name@example.com")
    return address


def find_user(session: Session, user: str) -> User | None:
    """The user with an id or e-mail address."""
    condition = sa.or_(users.c.id == user, users.c.email == user.lower())
    row = session.execute(sa.select(users).where(condition)).first()
    return _to_value(row) if row else None


def get_user(session: Session, user: str) -> User:
    """The user with an id or e-mail address; raises NotFound."""
    if found := find_user(session, user):
        return found
    raise NotFound(f"user is {user!r}: the workspace has no such user")


def list_users(session: Session) -> Sequence[User]:
    """All users, by e-mail address."""
    return [_to_value(row) for row in session.execute(sa.select(users).order_by(users.c.email))]


def change_user(
    session: Session, user: str, *, role: Role | None = None, password: str | None = None
) -> User:
    """Change a user's role or password, and end all sessions of the user.

    Raises InvalidSettings if the workspace would be without an admin.
    """
    found = get_user(session, user)
    if role and role != Role.ADMIN:
        _keep_an_admin(session, found)
    changes = {"role": role.value} if role else {}
    changes |= {"password_hash": hash_password(password)} if password is not None else {}
    if changes:
        session.execute(users.update().where(users.c.id == found.id).values(**changes))
        end_sessions(session, found.id)
    return get_user(session, found.id)


def remove_user(session: Session, user: str) -> None:
    """Remove a user and all sessions; raises InvalidSettings for the last admin."""
    found = get_user(session, user)
    _keep_an_admin(session, found)
    end_sessions(session, found.id)
    session.execute(users.delete().where(users.c.id == found.id))


def end_sessions(session: Session, user_id: str) -> None:
    """Log a user out everywhere."""
    session.execute(sessions.delete().where(sessions.c.user_id == user_id))


def has_users(session: Session) -> bool:
    return session.execute(sa.select(users.c.id).limit(1)).first() is not None


def has_people(session: Session) -> bool:
    """Return whether anybody has been given access: a user or a token."""
    return has_users(session) or session.execute(sa.select(tokens.c.id)).first() is not None


def add_first_admin(session: Session, email: str, password: str, now: datetime) -> User:
    """Create the first user, an admin; raises InvalidSettings if there is a user already."""
    lock_people(session)
    if has_users(session):
        raise InvalidSettings("the workspace has users already: ask an admin to add you")
    return add_user(session, email, password, Role.ADMIN, now)


def lock_people(session: Session) -> None:
    """Let one transaction at a time decide by who is there."""
    session.execute(sa.select(workspace.c.number).with_for_update())


def _keep_an_admin(session: Session, user: User) -> None:
    lock_people(session)
    others = sa.select(users.c.id).where(users.c.role == Role.ADMIN.value, users.c.id != user.id)
    if user.role == Role.ADMIN and session.execute(others.limit(1)).first() is None:
        raise InvalidSettings(f"{user.email} is the only admin: make another user admin first")


def _to_value(row: sa.Row[Any]) -> User:
    return User(id=row.id, email=row.email, role=Role(row.role), created_at=row.created_at)
