"""The scheduler: claims the slots that are due, each once, in one transaction per tick.

The claim is the insertion of a run with a slot; the database allows each source and slot once. So
several schedulers at once do no harm, and the lease only saves their work.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.clock import Clock
from eventlake.control.database import Database, Session, insert_if_absent
from eventlake.control.endings import needs_person
from eventlake.control.incidents import SYNC
from eventlake.control.leases import Lease, renew_lease
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.runs import RunState, make_row
from eventlake.control.schedule import Schedule, Timetable
from eventlake.control.tables import IS_ACTIVE, LOCK_ORDER, incidents, runs, schedules

LEASE = "scheduler"


_DUE = (
    sa.select(schedules, incidents.c.failures, incidents.c.error_code)
    .outerjoin(
        incidents,
        sa.and_(
            incidents.c.source_id == schedules.c.source_id,
            incidents.c.kind == SYNC,
            incidents.c.closed_at.is_(None),
        ),
    )
    .where(
        schedules.c.enabled_at.is_not(None),
        sa.or_(
            schedules.c.next_slot <= sa.bindparam("now"),
            schedules.c.considered_to > sa.bindparam("now"),
        ),
    )
    .order_by(schedules.c.source_id)
    .with_for_update(of=schedules)
)
"""The schedules with a due slot, or ahead of the clock, with the source's open incident."""
_NEXT = sa.select(sa.func.min(schedules.c.next_slot))
_ACTIVE_SYNCS = (
    sa.select(runs.c.source_id, runs.c.id)
    .where(
        runs.c.source_id.in_(sa.bindparam("sources", expanding=True)),
        runs.c.lane == "sync",
        IS_ACTIVE,
    )
    .order_by(*LOCK_ORDER)
    .with_for_update()
)
_CONSIDERED = (
    schedules.update()
    .where(schedules.c.source_id == sa.bindparam("of"))
    .values(considered_to=sa.bindparam("to"), next_slot=sa.bindparam("next"))
)


class Tick(NamedTuple):
    """What a tick did."""

    queued: int
    """Syncs that were queued."""
    skipped: int
    """Slots at which the source had an active sync."""
    next_slot: datetime | None
    """When the next slot of any source is due."""
    lateness: tuple[float, ...] = ()
    """Of each slot that was due, the seconds since."""


def tick(database: Database, clock: Clock, lease: Lease) -> Tick | None:
    """Claim all slots that are due by the clock; None, without a claim, if the lease is lost."""
    with database.write() as session:
        if not renew_lease(database, session, lease):
            return None
        now = clock.now()
        claims, changes = [], []
        for row in session.execute(_DUE, {"now": now}).all():
            claim, change = _consider(session, row, now)
            claims += [{**claim, "epoch": lease.epoch}] if claim else []
            changes += [change] if change else []
        queued, skipped = _claim(session, claims)
        if changes:
            session.execute(_CONSIDERED, changes)
        next_slot = session.execute(_NEXT).scalar()
        lateness = tuple((now - claim["slot"]).total_seconds() for claim in claims)
        return Tick(queued, skipped, next_slot, lateness)


def _consider(
    session: Session, row: sa.Row[Any], now: datetime
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The run for the slots that are due, and the change of the schedule; None where there is none.

    All slots up to now are considered then, so a change without a run is one of a clock that was
    set back.
    """
    # The rule was validated when it was entered.
    timetable = Timetable(Schedule.model_construct(**row.rule), row.enabled_at, row.source_id)
    considered_to = row.considered_to
    if considered_to > now:
        if not timetable.is_far_ahead(considered_to, now):
            return None, None
        _note_clock(session, row, now)
        considered_to = now
    change = {"of": row.source_id, "to": now, "next": timetable.next_slot(now)}
    due = timetable.find_due(considered_to, now)
    if due is None:
        return None, change
    claim = make_row(
        row.source_id,
        "sync",
        now,
        trigger="schedule",
        actor="scheduler",
        slot=due.slot,
        coalesced=due.coalesced,
        check_first=needs_person(row.failures or 0, row.error_code),
    )
    return claim, change


def _claim(session: Session, claims: list[dict[str, Any]]) -> tuple[int, int]:
    """Insert a queued run per slot, or a skipped one for a source that has an active sync."""
    active = _read_active(session, [claim["source_id"] for claim in claims])
    free = [claim for claim in claims if claim["source_id"] not in active]
    queued = insert_if_absent(session, runs, free, runs.c.source_id)
    if late := [one["source_id"] for one in free if one["source_id"] not in queued]:
        active |= _read_active(session, late)  # a sync was requested in between
    skipped = insert_if_absent(
        session,
        runs,
        [
            {**one, "state": RunState.SKIPPED, "met_run": active.get(one["source_id"])}
            | {"ended_at": one["created_at"]}
            for one in claims
            if one["source_id"] not in queued
        ],
    )
    return len(queued), len(skipped)


def _read_active(session: Session, source_ids: Sequence[str]) -> dict[str, int]:
    """The active syncs of sources; they cannot end before this transaction does."""
    if not source_ids:
        return {}
    rows = session.execute(_ACTIVE_SYNCS, {"sources": source_ids})
    return {row.source_id: row.id for row in rows}


def _note_clock(session: Session, row: sa.Row[Any], now: datetime) -> None:
    moments = {"considered_to": row.considered_to.isoformat(), "now": now.isoformat()}
    key = f"clock/{row.source_id}/{row.considered_to.isoformat()}"
    write_notices(session, [make_notice("clock_set_back", key, row.source_id, moments, now)])
