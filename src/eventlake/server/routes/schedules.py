"""Schedules: when sources are synced."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response

from eventlake.control.audit import Change
from eventlake.control.schedule import Schedule, Timetable
from eventlake.control.schedules import SourceSchedule, get_schedule, set_schedule
from eventlake.control.sources import get_source
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import Name, Version, set_version

router = APIRouter(prefix="/schedules", tags=["schedules"])


class Preview(FrozenModel):
    """The next slots of a schedule, in UTC."""

    slots: tuple[datetime, ...]


@router.get("/{source}")
def show_schedule(source: Name, _: Viewer, context: Context, response: Response) -> SourceSchedule:
    """Show the schedule of a source. Its ETag is needed to change it."""
    with context.database.read() as session:
        found = get_schedule(session, source)
    set_version(response, found.version)
    return found


@router.put("/{source}")
def change_schedule(
    source: Name,
    body: Schedule,
    caller: Admin,
    version: Version,
    context: Context,
    response: Response,
) -> SourceSchedule:
    """Change when a source is synced."""
    with context.database.write() as session:
        before = get_schedule(session, source)
        after = set_schedule(session, source, body, context.clock.now(), version)
        caller.record(session, Change("schedule.change", f"source:{after.source}", before, after))
    set_version(response, after.version)
    return after


@router.post("/{source}/preview")
def preview_schedule(
    source: Name,
    body: Schedule,
    _: Viewer,
    context: Context,
    n: Annotated[int, Query(ge=1, le=100, description="How many slots.")] = 5,
) -> Preview:
    """Show the next slots that a schedule would give a source, without changing anything."""
    with context.database.read() as session:
        identity = get_source(session, source).id
        enabled_at = get_schedule(session, source).enabled_at
    now = context.clock.now()
    timetable = Timetable(body, enabled_at or now, identity)
    slots = list[datetime]()
    while len(slots) < n and (slot := timetable.next_slot(slots[-1] if slots else now)):
        slots.append(slot)
    return Preview(slots=tuple(slots))
