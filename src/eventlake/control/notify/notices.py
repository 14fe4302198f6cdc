"""Notices: each is written once, together with its deliveries to the channels that want it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.notify.events import ALL, DEFAULT, DEFAULT_EVENTS, Severity
from eventlake.control.notify.tables import channels, deliveries, rules
from eventlake.control.tables import notices, sources
from eventlake.model.values import FrozenModel


class Notice(FrozenModel):
    """Something that happened, with the facts of it."""

    id: int
    event: str
    severity: Severity
    source: str | None
    """The source's slug; None for one of the server."""
    data: dict[str, Any]
    created_at: datetime


def make_notice(
    event: str, key: str, source_id: str | None, data: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """A row of `notices`. Of those with the same key only the first is ever written."""
    return {
        "key": key,
        "event": event,
        "source_id": source_id,
        "data": dict(data),
        "created_at": now,
    }


def write_notices(session: Session, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Write notices that are new, and a delivery of each to every channel that wants it.

    Call it in the transaction of what the notices are about: both are stored, or neither is.
    """
    new = insert_if_absent(session, notices, rows)
    if not new:
        return []
    subscriptions = _read_subscriptions(session)
    written = session.execute(sa.select(notices).where(notices.c.id.in_(new)).order_by("id")).all()
    rows = [
        make_delivery(row.id, row.key, one.channel_id, row.created_at)
        for row in written
        for one in subscriptions
        if one.wants(row.event, row.source_id)
    ]
    insert_if_absent(session, deliveries, rows)
    return [row.id for row in written]


def make_delivery(notice_id: int, key: str, channel_id: str, now: datetime) -> dict[str, Any]:
    """A row of `deliveries`. The database allows each notice and channel once."""
    return {
        "key": f"{key}/{channel_id}",
        "notice_id": notice_id,
        "channel_id": channel_id,
        "state": "pending",
        "tries": 0,
        "since": now,
        "next_at": now,
        "answer": "",
        "created_at": now,
    }


class _Subscription(NamedTuple):
    """A channel, and its rules: the events and the sources' ids of each."""

    channel_id: str
    rules: Sequence[tuple[Sequence[str], Sequence[str]]]

    def wants(self, event: str, source_id: str | None) -> bool:
        names = {event, ALL} | ({DEFAULT} if event in DEFAULT_EVENTS else set())
        return any(
            names & set(events) and (not of or source_id in of)
            for events, of in self.rules or (((DEFAULT,), ()),)
        )


def _read_subscriptions(session: Session) -> list[_Subscription]:
    rows = session.execute(
        sa.select(channels.c.id, rules.c.events, rules.c.sources)
        .outerjoin(rules, rules.c.channel_id == channels.c.id)
        .where(channels.c.removed_at.is_(None))
        .order_by(channels.c.id)
    )
    found: dict[str, list[tuple[Sequence[str], Sequence[str]]]] = {}
    for row in rows:
        found.setdefault(row.id, []).extend([(row.events, row.sources)] if row.events else [])
    return [_Subscription(channel, of) for channel, of in found.items()]


def source_slug(session: Session, source_id: str | None) -> str | None:
    """The slug of a source, also of one that was removed."""
    query = sa.select(sources.c.slug).where(sources.c.id == source_id)
    return session.execute(query).scalar() if source_id else None
