"""Queries that people keep under a name."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.lakes import get_lake
from eventlake.control.tables import lakes, saved_queries
from eventlake.errors import Conflict, InvalidSettings, NotFound
from eventlake.model.values import FrozenModel

MAX_NAME_CHARS = 100


class SavedQuery(FrozenModel):
    """A query with its name."""

    id: int
    name: str
    lake: str
    sql: str
    actor: str
    created_at: datetime


def save_query(
    session: Session, name: str, lake: str, sql: str, actor: str, now: datetime
) -> SavedQuery:
    """Keep a query under a name, in place of the actor's own of this name.

    Raises Conflict if another actor has one of this name: all operators use it.
    """
    named = name.strip()
    if not named or len(named) > MAX_NAME_CHARS or not named.isprintable():
        raise InvalidSettings(f"name must have 1 to {MAX_NAME_CHARS} printable characters")
    values = {"lake_id": get_lake(session, lake).id, "sql": sql, "actor": actor, "created_at": now}
    if not insert_if_absent(session, saved_queries, [{"name": named, **values}]):
        is_own = sa.and_(saved_queries.c.name == named, saved_queries.c.actor == actor)
        session.execute(saved_queries.update().where(is_own).values(values))
    saved = next(one for one in list_queries(session) if one.name == named)
    if saved.actor != actor:
        owner = saved.actor.removeprefix("user:")
        raise Conflict(f"{owner} has saved a query as {named}: choose another name, or remove it")
    return saved


def list_queries(session: Session) -> list[SavedQuery]:
    """All saved queries, by name."""
    rows = session.execute(
        sa.select(saved_queries, lakes.c.slug)
        .join(lakes, lakes.c.id == saved_queries.c.lake_id)
        .order_by(saved_queries.c.name)
    )
    return [_to_value(row) for row in rows]


def remove_query(session: Session, query_id: int) -> SavedQuery:
    """Remove a saved query and return it; raises NotFound."""
    found = [one for one in list_queries(session) if one.id == query_id]
    if not found:
        raise NotFound(f"query is {query_id}: there is no such saved query")
    session.execute(saved_queries.delete().where(saved_queries.c.id == query_id))
    return found[0]


def _to_value(row: sa.Row[Any]) -> SavedQuery:
    return SavedQuery(
        id=row.id,
        name=row.name,
        lake=row.slug,
        sql=row.sql,
        actor=row.actor,
        created_at=row.created_at,
    )
