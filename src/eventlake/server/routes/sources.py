"""Sources: their write keys, whether the collector accepts events, whether syncs are scheduled."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from eventlake.control.audit import Change
from eventlake.control.connections import connect
from eventlake.control.database import Session
from eventlake.control.schedules import SourceSchedule, disable, enable, get_schedule
from eventlake.control.sources import (
    Source,
    add_source,
    add_write_key,
    get_source,
    list_sources,
    remove_source,
    revoke_write_key,
    set_source_enabled,
)
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Operator, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import After, Limit, Name, OnceOnly, Page, Word, make_page

router = APIRouter(prefix="/sources", tags=["sources"])


class NewSource(FrozenModel):
    """A source to add; id and write key are random unless they are given."""

    slug: Word
    source_id: Word = ""
    write_key: Word = ""
    lake: Word = ""
    """Connect it to this lake at once, with default settings."""


class NewKey(FrozenModel):
    """A write key to add; by default a random one."""

    write_key: Word = ""


class SourceChange(FrozenModel):
    """Whether the collector accepts the source's events."""

    enabled: bool


@router.get("")
def show_sources(
    _: Viewer, context: Context, after: After = None, limit: Limit = 100
) -> Page[Source]:
    """List the sources by slug."""
    with context.database.read() as session:
        return make_page(list_sources(session), lambda one: one.slug, after, limit)


@router.post("", status_code=201, response_model=Source)
def create_source(body: NewSource, caller: Admin, context: Context, once: OnceOnly) -> Response:
    """Add a source with a write key."""

    def act(session: Session) -> Source:
        now = context.clock.now()
        identity = {"source_id": body.source_id, "write_key": body.write_key}
        source = add_source(session, body.slug, now, **identity)
        caller.record(session, Change("source.add", f"source:{source.slug}", after=source))
        if body.lake:
            connection = connect(session, source.slug, body.lake, {}, now)
            change = Change("connection.add", f"connection:{source.slug}", after=connection)
            caller.record(session, change)
        return source

    return once.act(context, caller, act)


@router.get("/{source}")
def show_source(source: Name, _: Viewer, context: Context) -> Source:
    """Show a source."""
    with context.database.read() as session:
        return get_source(session, source)


@router.patch("/{source}")
def change_source(source: Name, body: SourceChange, caller: Admin, context: Context) -> Source:
    """Have the collector accept or refuse the source's events."""
    with context.database.write() as session:
        before = get_source(session, source)
        after = set_source_enabled(session, source, body.enabled)
        caller.record(session, Change("source.change", f"source:{after.slug}", before, after))
    return after


@router.delete("/{source}", status_code=204)
def delete_source(source: Name, caller: Admin, context: Context) -> None:
    """Remove a source: its keys are revoked and its syncs end, its tables and history stay."""
    with context.database.write() as session:
        before = get_source(session, source)
        remove_source(session, source, context.clock.now())
        caller.record(session, Change("source.remove", f"source:{before.slug}", before))


@router.post("/{source}/keys", status_code=201, response_model=Source)
def create_key(
    source: Name, body: NewKey, caller: Admin, context: Context, once: OnceOnly
) -> Response:
    """Add a write key."""

    def act(session: Session) -> Source:
        before = get_source(session, source)
        after = add_write_key(session, source, context.clock.now(), body.write_key)
        caller.record(session, Change("source.key.add", f"source:{after.slug}", before, after))
        return after

    return once.act(context, caller, act)


@router.delete("/{source}/keys")
def revoke_key(
    source: Name,
    key: Annotated[str, Query(pattern=r"^[ -9;-~]{1,256}$", description="The write key.")],
    caller: Admin,
    context: Context,
) -> Source:
    """Revoke a write key: the collector refuses it within a second."""
    with context.database.write() as session:
        before = get_source(session, source)
        after = revoke_write_key(session, source, key, context.clock.now())
        caller.record(session, Change("source.key.revoke", f"source:{after.slug}", before, after))
    return after


@router.post("/{source}/enable")
def enable_syncs(source: Name, caller: Operator, context: Context) -> SourceSchedule:
    """Sync the source by its schedule from now on."""
    with context.database.write() as session:
        before = get_schedule(session, source)
        after = enable(session, source, context.clock.now())
        caller.record(session, Change("schedule.enable", f"source:{after.source}", before, after))
    return after


@router.post("/{source}/disable")
def disable_syncs(source: Name, caller: Operator, context: Context) -> SourceSchedule:
    """Do not sync the source by its schedule; its events are still accepted and archived."""
    with context.database.write() as session:
        before = get_schedule(session, source)
        after = disable(session, source, context.clock.now())
        caller.record(session, Change("schedule.disable", f"source:{after.source}", before, after))
    return after
