"""The audit log: who changed what. Rows are only added, which the database enforces."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import BaseModel

from eventlake.control.database import Session
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.people_tables import audit
from eventlake.control.tables import sources
from eventlake.model.values import FrozenModel

MASK = "***"
_SECRET = re.compile(r"secret|password|passphrase|token|credential|hash|_key|^key", re.IGNORECASE)


NOTICED = frozenset(
    (
        "schedule.enable",
        "schedule.disable",
        "schedule.change",
        "connection.change",
        "source.change",
        "source.remove",
        "lake.change",
    )
)
"""The actions that change what is synced; each is a notice."""


class Actor(NamedTuple):
    """Who does something, and from where."""

    name: str
    """Such as `user:ada@example.com`, `token:ci`, `local` or `cli`."""
    address: str = ""
    request_id: str = ""


class AuditEntry(FrozenModel):
    """A change: of what, by whom, and the object before and after without its secrets."""

    id: int
    at: datetime
    actor: str
    action: str
    object: str
    before: Any
    after: Any
    address: str
    request_id: str


class Change(NamedTuple):
    """What an action did to an object."""

    action: str
    object: str
    before: BaseModel | None = None
    after: BaseModel | None = None


def record(session: Session, actor: Actor, change: Change, now: datetime) -> None:
    """Add a change to the log, in the transaction that makes the change."""
    row = {
        "at": now,
        "actor": actor.name,
        "action": change.action,
        "object": change.object,
        "before": _to_masked(change.before),
        "after": _to_masked(change.after),
        "address": actor.address,
        "request_id": actor.request_id,
    }
    entry = session.execute(audit.insert().values(row).returning(audit.c.id)).scalar_one()
    if change.action in NOTICED:
        _note(session, entry, actor, change, now)


def _note(session: Session, entry: int, actor: Actor, change: Change, now: datetime) -> None:
    kind, _, slug = change.object.partition(":")
    is_source = kind in ("source", "connection")
    query = sa.select(sources.c.id).where(sources.c.slug == slug)
    source_id = session.execute(query).scalar() if is_source else None
    data = {"action": change.action, "object": change.object, "actor": actor.name}
    notice = make_notice("settings_changed", f"audit/{entry}", source_id, data, now)
    write_notices(session, [notice])


def list_audit(
    session: Session, *, before_id: int | None, limit: int, object_: str = ""
) -> Sequence[AuditEntry]:
    """Entries with a smaller id than `before_id`, newest first; of one object if it is given."""
    query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(audit.c.id < before_id)
    if object_:
        query = query.where(audit.c.object == object_)
    return [AuditEntry(**row._mapping) for row in session.execute(query)]


def _to_masked(value: BaseModel | None) -> Any:
    return None if value is None else mask_secrets(value.model_dump(mode="json"))


def mask_secrets(value: Any) -> Any:
    """A copy of a JSON value in which the values of fields named like secrets are masked."""
    if isinstance(value, dict):
        return {
            name: MASK if one and _SECRET.search(name) else mask_secrets(one)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [mask_secrets(one) for one in value]
    return value
