"""Sessions of users: random ids in a cookie, of which the database has only the hash."""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256

import sqlalchemy as sa

from eventlake.control.database import Database, Session
from eventlake.control.passwords import verify_password
from eventlake.control.people_tables import sessions, users
from eventlake.control.users import User, get_user

IDLE = timedelta(hours=12)
LIFETIME = timedelta(days=7)
SEEN_EVERY = timedelta(minutes=1)
"""How exactly the last use is stored: a write for each request would be too much."""


def log_in(database: Database, email: str, password: str, now: datetime) -> str | None:
    """Start a session and return its id; None for an unknown user or a wrong password."""
    user_id = find_by_password(database, email, password)
    if user_id is None:
        return None
    with database.write() as session:
        return start_session(session, user_id, now)


def find_by_password(database: Database, email: str, password: str) -> str | None:
    """The id of the user with an e-mail address and a password; None if either is wrong.

    Both take equally long, and no transaction is open meanwhile.
    """
    with database.read() as session:
        row = session.execute(
            sa.select(users.c.id, users.c.password_hash).where(users.c.email == email.lower())
        ).first()
    is_right = verify_password(password, row.password_hash if row else None)
    return str(row.id) if row and is_right else None


def start_session(session: Session, user_id: str, now: datetime) -> str:
    """Start a session of a user and return its id; remove those that have ended."""
    session.execute(sessions.delete().where(_has_ended(now)))
    identity = secrets.token_urlsafe(32)
    row = {"hash": _hash(identity), "user_id": user_id, "created_at": now, "seen_at": now}
    session.execute(sessions.insert().values(row))
    return identity


def find_session_user(database: Database, identity: str, now: datetime) -> User | None:
    """The user of a session; None if it has ended or never was."""
    is_it = sessions.c.hash == _hash(identity)
    with database.read() as session:
        row = session.execute(sa.select(sessions).where(is_it, sa.not_(_has_ended(now)))).first()
        user = get_user(session, row.user_id) if row else None
    if row and now - row.seen_at >= SEEN_EVERY:
        with database.write() as session:
            session.execute(sessions.update().where(is_it).values(seen_at=now))
    return user


def end_session(session: Session, identity: str) -> None:
    session.execute(sessions.delete().where(sessions.c.hash == _hash(identity)))


def _has_ended(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(sessions.c.seen_at < now - IDLE, sessions.c.created_at < now - LIFETIME)


def _hash(identity: str) -> str:
    return sha256(identity.encode()).hexdigest()
