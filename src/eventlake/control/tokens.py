"""Tokens of programs: `el_<id>_<secret>`, of which the database has only the hash."""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Database, Session
from eventlake.control.people_tables import tokens
from eventlake.control.roles import Scope
from eventlake.control.workspace import new_id
from eventlake.errors import InvalidSettings, NotFound
from eventlake.model.values import FrozenModel

MAX_NAME_CHARS = 100
USED_EVERY = timedelta(minutes=1)
"""How exactly the last use is stored: a write for each request would be too much."""


class Token(FrozenModel):
    """A token, without its secret."""

    id: str
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


class NewToken(FrozenModel):
    """A token with its secret, which nobody can read again."""

    token: Token
    secret: str


def add_token(
    session: Session, name: str, scope: Scope, now: datetime, expires_at: datetime | None = None
) -> NewToken:
    """Create a token; raises InvalidSettings for an empty name and for an end in the past."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InvalidSettings(f"name must have 1 to {MAX_NAME_CHARS} printable characters")
    if expires_at and expires_at <= now:
        raise InvalidSettings(f"expires_at is {expires_at}: give a time in the future")
    identity = new_id()
    secret = f"el_{identity}_{secrets.token_urlsafe(32)}"
    row = {
        "id": identity,
        "name": name,
        "hash": _hash(secret),
        "scope": scope.value,
        "created_at": now,
        "expires_at": expires_at,
    }
    session.execute(tokens.insert().values(row))
    return NewToken(token=_to_value(_read_row(session, identity)), secret=secret)


def find_token(database: Database, secret: str, now: datetime) -> Token | None:
    """The token with a secret; None if there is none, or if it has expired."""
    prefix, _, rest = secret.partition("_")
    identity = rest.partition("_")[0]
    with database.read() as session:
        row = session.execute(sa.select(tokens).where(tokens.c.id == identity)).first()
    is_right = compare_digest(_hash(secret), row.hash if row else "")
    if prefix != "el" or not is_right or row is None:
        return None
    if row.expires_at and row.expires_at <= now:
        return None
    if row.used_at is None or now - row.used_at >= USED_EVERY:
        with database.write() as session:
            session.execute(tokens.update().where(tokens.c.id == identity).values(used_at=now))
    return _to_value(row)


def list_tokens(session: Session) -> Sequence[Token]:
    """All tokens, by id."""
    return [_to_value(row) for row in session.execute(sa.select(tokens).order_by(tokens.c.id))]


def get_token(session: Session, token_id: str) -> Token:
    """The token with an id; raises NotFound."""
    return _to_value(_read_row(session, token_id))


def remove_token(session: Session, token_id: str) -> None:
    """Have a token refused from now on; raises NotFound."""
    _read_row(session, token_id)
    session.execute(tokens.delete().where(tokens.c.id == token_id))


def _read_row(session: Session, token_id: str) -> sa.Row[Any]:
    row = session.execute(sa.select(tokens).where(tokens.c.id == token_id)).first()
    if row is None:
        raise NotFound(f"token is {token_id!r}: the workspace has no such token")
    return row


def _to_value(row: sa.Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        scope=Scope(row.scope),
        created_at=row.created_at,
        expires_at=row.expires_at,
        used_at=row.used_at,
    )


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
