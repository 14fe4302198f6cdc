"""Deliveries: each notice to each channel, tried for a day. The table is the outbox.

A delivery is claimed before it is sent: its state becomes `sending`, its tries go up by one, and it
has a lease. Whoever settles it names the try, so that one that was late changes nothing.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Database, Session
from eventlake.control.notify.channels import get_channel
from eventlake.control.notify.events import EVENTS
from eventlake.control.notify.notices import Notice
from eventlake.control.notify.tables import IS_OPEN, channels, deliveries
from eventlake.control.tables import notices, sources
from eventlake.errors import Conflict, NotFound
from eventlake.model.values import FrozenModel

TRIED_FOR = timedelta(hours=24)
BACK_OFF = tuple(timedelta(seconds=seconds) for seconds in (10, 30, 60, 300, 900, 1800, 3600))
"""The time between tries; the last one is used from then on."""
LEASE = timedelta(seconds=120)
"""How long a try has: longer than any takes. After it, the delivery is tried again."""
MAX_ANSWER_CHARS = 500


class DeliveryState(StrEnum):
    """How far a delivery is."""

    PENDING = "pending"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    """It was tried for a day."""
    CANCELLED = "cancelled"
    """Its channel was removed."""


class Delivery(FrozenModel):
    """A notice on its way to a channel."""

    id: int
    key: str
    """The same for every try: the id of the message that receivers can drop repeats by."""
    channel: str
    notice: Notice
    state: DeliveryState
    tries: int
    since: datetime
    """Since when it is tried."""
    next_at: datetime | None
    """When it is tried next; None if it is not."""
    answer: str
    """What the receiver said last, or why it was not reached."""
    delivered_at: datetime | None
    created_at: datetime


class Claim(NamedTuple):
    """A delivery that this process sends now, and its channel's settings and stored secrets."""

    delivery: Delivery
    channel_id: str
    kind: str
    settings: dict[str, Any]
    secrets: dict[str, str]


class Result(NamedTuple):
    """What came of a try."""

    is_delivered: bool
    answer: str
    retry_after: timedelta | None = None
    """When the receiver wants it again."""


_QUERY = (
    sa.select(
        deliveries,
        notices.c.event,
        notices.c.data,
        notices.c.created_at.label("noticed_at"),
        sources.c.slug,
        channels.c.name,
        channels.c.kind,
        channels.c.settings,
        channels.c.secrets,
    )
    .join(notices, notices.c.id == deliveries.c.notice_id)
    .join(channels, channels.c.id == deliveries.c.channel_id)
    .outerjoin(sources, sources.c.id == notices.c.source_id)
)


def list_deliveries(
    session: Session,
    *,
    channel: str = "",
    state: DeliveryState | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Delivery]:
    """The newest deliveries; `before` is the last id of the page before."""
    query = _QUERY.order_by(deliveries.c.id.desc()).limit(limit)
    if channel:
        query = query.where(deliveries.c.channel_id == get_channel(session, channel).id)
    if state:
        query = query.where(deliveries.c.state == state)
    if before is not None:
        query = query.where(deliveries.c.id < before)
    return [_to_value(row) for row in session.execute(query)]


def get_delivery(session: Session, delivery: int) -> Delivery:
    """The delivery with an id; raises NotFound."""
    return _to_value(_read_row(session, delivery))


def redeliver(session: Session, delivery: int, now: datetime) -> Delivery:
    """Send a delivery again, with the id that it had; raises Conflict if it is on its way."""
    found = get_delivery(session, delivery)
    if found.state in (DeliveryState.PENDING, DeliveryState.SENDING):
        raise Conflict(f"delivery {delivery} is {found.state} already: wait for it")
    if found.state is DeliveryState.CANCELLED:
        raise Conflict(f"the channel of delivery {delivery} was removed")
    session.execute(
        deliveries.update()
        .where(deliveries.c.id == delivery)
        .values(state="pending", since=now, next_at=now, delivered_at=None, lease_until=None)
    )
    return get_delivery(session, delivery)


def find_due_channels(database: Database, session: Session, now: datetime) -> list[str]:
    """The ids of channels with a delivery that is due."""
    query = sa.select(deliveries.c.channel_id).where(_is_due(database, session, now)).distinct()
    return list(session.execute(query).scalars())


def claim_next(
    database: Database,
    session: Session,
    channel_id: str,
    now: datetime,
    lease: timedelta = LEASE,
) -> Claim | None:
    """Claim the oldest delivery of a channel that is due; None if there is none."""
    is_due = _is_due(database, session, now)
    oldest = (
        sa.select(deliveries.c.id)
        .where(deliveries.c.channel_id == channel_id, is_due)
        .order_by(deliveries.c.next_at, deliveries.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    is_it = sa.and_(deliveries.c.id == oldest.scalar_subquery(), is_due)
    return _claim(database, session, is_it, lease)


def claim_one(database: Database, session: Session, delivery: int) -> Claim | None:
    """Claim a delivery whether or not it is due; None if it was claimed already."""
    is_free = deliveries.c.state == DeliveryState.PENDING
    return _claim(database, session, sa.and_(deliveries.c.id == delivery, is_free), LEASE)


def settle(session: Session, claim: Claim, result: Result, now: datetime) -> None:
    """Store what came of a try, unless another try has begun since."""
    delivery = claim.delivery
    values: dict[str, Any] = {"lease_until": None, "answer": _clean(result.answer)}
    if result.is_delivered:
        values |= {"state": DeliveryState.DELIVERED, "delivered_at": now}
    else:
        next_at = now + (result.retry_after or back_off(delivery.tries))
        is_over = next_at > delivery.since + TRIED_FOR
        values |= {"state": DeliveryState.FAILED if is_over else DeliveryState.PENDING}
        values |= {"next_at": next_at}
    is_this_try = sa.and_(
        deliveries.c.id == delivery.id,
        deliveries.c.tries == delivery.tries,
        deliveries.c.state == DeliveryState.SENDING,
    )
    session.execute(deliveries.update().where(is_this_try).values(values))


def _clean(answer: str) -> str:
    """The beginning of an answer, without what a database or a terminal cannot take."""
    return "".join(one if one.isprintable() else " " for one in answer[:MAX_ANSWER_CHARS])


def back_off(tries: int) -> timedelta:
    """The time to wait after so many tries."""
    return BACK_OFF[min(tries, len(BACK_OFF)) - 1]


def _is_due(database: Database, session: Session, now: datetime) -> sa.ColumnElement[bool]:
    is_pending = sa.and_(deliveries.c.state == DeliveryState.PENDING, deliveries.c.next_at <= now)
    is_lost = sa.and_(
        deliveries.c.state == DeliveryState.SENDING,
        deliveries.c.lease_until < database.clock_of(session),
    )
    return sa.and_(IS_OPEN, sa.or_(is_pending, is_lost))


def _claim(
    database: Database, session: Session, is_it: sa.ColumnElement[bool], lease: timedelta
) -> Claim | None:
    claimed = session.execute(
        deliveries.update()
        .where(is_it)
        .values(
            state=DeliveryState.SENDING,
            tries=deliveries.c.tries + 1,
            lease_until=database.clock_of(session) + lease,
        )
        .returning(deliveries.c.id)
    ).scalar()
    if claimed is None:
        return None
    row = _read_row(session, claimed)
    return Claim(_to_value(row), row.channel_id, row.kind, row.settings, row.secrets)


def _read_row(session: Session, delivery: int) -> sa.Row[Any]:
    row = session.execute(_QUERY.where(deliveries.c.id == delivery)).first()
    if row is None:
        raise NotFound(f"delivery is {delivery}: the workspace has no such delivery")
    return row


def _to_value(row: sa.Row[Any]) -> Delivery:
    state = DeliveryState(row.state)
    notice = Notice(
        id=row.notice_id,
        event=row.event,
        severity=EVENTS[row.event],
        source=row.slug,
        data=row.data,
        created_at=row.noticed_at,
    )
    return Delivery(
        id=row.id,
        key=row.key,
        channel=row.name,
        notice=notice,
        state=state,
        tries=row.tries,
        since=row.since,
        next_at=row.next_at if state is DeliveryState.PENDING else None,
        answer=row.answer,
        delivered_at=row.delivered_at,
        created_at=row.created_at,
    )


def count_undelivered(session: Session) -> int:
    """How many deliveries failed, or have been tried more than once and have not arrived."""
    is_late = sa.and_(IS_OPEN, deliveries.c.tries > 1)
    query = sa.select(sa.func.count()).where(
        sa.or_(deliveries.c.state == DeliveryState.FAILED, is_late)
    )
    return session.execute(query.select_from(deliveries)).scalar_one()
