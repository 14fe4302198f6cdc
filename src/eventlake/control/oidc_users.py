"""Users who log in with an OpenID provider: found by the provider's id for them."""

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.people_tables import users
from eventlake.control.roles import Role
from eventlake.control.users import (
    User,
    add_user_without_password,
    change_user,
    end_sessions,
    find_user,
    get_user,
)
from eventlake.errors import InvalidSettings


class Identity(NamedTuple):
    """Who a provider says that somebody is."""

    issuer: str
    subject: str
    email: str
    is_email_verified: bool

    @property
    def key(self) -> str:
        """The subject is unique only at its issuer."""
        return f"{self.issuer} {self.subject}"


def admit(session: Session, identity: Identity, role: Role | None, now: datetime) -> User | None:
    """The user of an identity, with this role from now on; created at the first login.

    None without a role: then all sessions of the user end. A user with the same e-mail address and
    no identity yet becomes this one, if the provider has verified the address. Raises
    InvalidSettings for an address that is another's or missing, and for the last admin who would be
    none any more.
    """
    known = session.execute(sa.select(users.c.id).where(users.c.oidc_sub == identity.key)).scalar()
    if role is None:
        if known:
            end_sessions(session, known)
        return None
    user = get_user(session, known) if known else _join(session, identity, role, now)
    return user if user.role == role else change_user(session, user.id, role=role)


def _join(session: Session, identity: Identity, role: Role, now: datetime) -> User:
    """Give an identity to the user with its e-mail address, or to a new one."""
    if not identity.email:
        raise InvalidSettings("the OpenID provider does not send the claim email: have it send it")
    user = find_user(session, identity.email)
    if user is None:
        user = add_user_without_password(session, identity.email, role, now)
    elif not identity.is_email_verified:
        raise InvalidSettings(
            f"{user.email} is a user here, and the OpenID provider has not verified the address"
        )
    changed = session.execute(
        users.update()
        .where(users.c.id == user.id, users.c.oidc_sub.is_(None))
        .values(oidc_sub=identity.key)
    )
    if not changed.rowcount:
        raise InvalidSettings(f"{user.email} is another user of the OpenID provider")
    return user
