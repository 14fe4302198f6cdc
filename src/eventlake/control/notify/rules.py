"""Rules: which events of which sources a channel gets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.notify.channels import get_channel
from eventlake.control.notify.events import ALL, DEFAULT, EVENTS, TEST
from eventlake.control.notify.tables import channels, rules
from eventlake.control.sources import get_source
from eventlake.control.tables import sources
from eventlake.errors import InvalidSettings, NotFound
from eventlake.model.values import FrozenModel

MAX_RULES = 100
"""The most that a channel can have."""


class Rule(FrozenModel):
    """Events that a channel gets. A channel without rules gets all problems and recoveries."""

    id: int
    channel: str
    """Its name."""
    events: tuple[str, ...]
    """`*` for all, `default` for all problems and recoveries."""
    sources: tuple[str, ...]
    """Their slugs; empty for all, and for events of the server."""


def add_rule(
    session: Session,
    channel: str,
    events: Sequence[str],
    of_sources: Sequence[str],
    now: datetime,
) -> Rule:
    """Have a channel get events; raises InvalidSettings for an unknown event."""
    known = {*EVENTS, ALL, DEFAULT} - {TEST}
    if wrong := sorted(set(events) - known):
        raise InvalidSettings(f"event is {wrong[0]!r}: choose one of {', '.join(sorted(known))}")
    if not events:
        raise InvalidSettings(f"events is empty: name at least one, or {ALL}")
    found = get_channel(session, channel)
    count = sa.select(sa.func.count()).where(rules.c.channel_id == found.id)
    if session.execute(count).scalar_one() >= MAX_RULES:
        raise InvalidSettings(f"channel {found.name} has {MAX_RULES} rules already")
    row = {
        "channel_id": found.id,
        "events": sorted(set(events)),
        "sources": sorted({get_source(session, one).id for one in of_sources}),
        "created_at": now,
    }
    made = session.execute(rules.insert().values(row).returning(rules.c.id)).scalar_one()
    return get_rule(session, made)


def remove_rule(session: Session, rule: int) -> None:
    """Remove a rule; raises NotFound."""
    get_rule(session, rule)
    session.execute(rules.delete().where(rules.c.id == rule))


def get_rule(session: Session, rule: int) -> Rule:
    """The rule with an id; raises NotFound."""
    for one in _read(session, rules.c.id == rule):
        return one
    raise NotFound(f"rule is {rule}: the workspace has no such rule")


def list_rules(session: Session) -> list[Rule]:
    """The rules of all channels."""
    return _read(session, sa.true())


def _read(session: Session, condition: sa.ColumnElement[bool]) -> list[Rule]:
    rows = session.execute(sa.select(sources.c.id, sources.c.slug))
    slugs = {row.id: row.slug for row in rows}
    query = (
        sa.select(rules, channels.c.name)
        .join(channels, channels.c.id == rules.c.channel_id)
        .where(condition)
        .order_by(rules.c.id)
    )
    return [_to_value(row, slugs) for row in session.execute(query)]


def _to_value(row: sa.Row[Any], slugs: dict[str, str]) -> Rule:
    of = tuple(sorted(slugs[one] for one in row.sources))
    return Rule(id=row.id, channel=row.name, events=tuple(row.events), sources=of)
