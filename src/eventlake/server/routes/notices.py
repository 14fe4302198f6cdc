"""Notices: channels, rules, deliveries, incidents."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Response
from pydantic import Field

from eventlake.control.audit import Change
from eventlake.control.incidents import Incident, list_incidents
from eventlake.control.notify.channels import (
    Channel,
    Kind,
    NewChannel,
    add_channel,
    change_channel,
    get_channel,
    list_channels,
    remove_channel,
    rotate_secret,
)
from eventlake.control.notify.deliveries import (
    Delivery,
    DeliveryState,
    get_delivery,
    list_deliveries,
    redeliver,
)
from eventlake.control.notify.events import DEFAULT
from eventlake.control.notify.outbox import send_test
from eventlake.control.notify.rules import Rule, add_rule, get_rule, list_rules, remove_rule
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Operator, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import (
    After,
    AfterNumber,
    Limit,
    Name,
    Number,
    Page,
    Settings,
    Version,
    Word,
    make_page,
    set_version,
)

router = APIRouter(tags=["notices"])
Listed = TypeVar("Listed", Delivery, Incident)


class ChannelToAdd(FrozenModel):
    """A channel to add; secrets are among the settings."""

    name: Word
    kind: Kind
    settings: Settings = Field(default_factory=dict)
    events: tuple[Word, ...] = Field(default=(), max_length=50)
    """Its first rule, as in `/rules`; without events and sources, it has none."""
    sources: tuple[Word, ...] = Field(default=(), max_length=1000)


class ChannelChange(FrozenModel):
    """Settings and secrets to change; null sets a default again, or removes a secret."""

    settings: Settings


class RuleToAdd(FrozenModel):
    """A rule to add."""

    channel: Word
    events: tuple[Word, ...] = Field(max_length=50)
    """`*` for all, `default` for all problems and recoveries."""
    sources: tuple[Word, ...] = Field(default=(), max_length=1000)
    """Their slugs or ids; empty for all, and for events of the server."""


@router.get("/channels")
def show_channels(
    _: Viewer, context: Context, after: After = None, limit: Limit = 100
) -> Page[Channel]:
    """List the channels by name, without their secrets."""
    with context.database.read() as session:
        return make_page(list_channels(session), lambda one: one.name, after, limit)


@router.post("/channels", status_code=201)
def create_channel(body: ChannelToAdd, caller: Admin, context: Context) -> NewChannel:
    """Add a channel. A secret that is made for a webhook is in this reply and nowhere else."""
    with context.database.write() as session:
        now, vault = context.clock.now(), context.vault
        made = add_channel(session, body.name, body.kind, body.settings, vault, now)
        change = Change("channel.add", f"channel:{made.channel.name}", after=made.channel)
        caller.record(session, change)
        if body.events or body.sources:
            rule = add_rule(session, body.name, body.events or (DEFAULT,), body.sources, now)
            caller.record(session, Change("rule.add", f"rule:{rule.id}", after=rule))
    return made


@router.get("/channels/{channel}")
def show_channel(channel: Name, _: Viewer, context: Context, response: Response) -> Channel:
    """Show a channel without its secrets. Its ETag is needed to change it."""
    with context.database.read() as session:
        found = get_channel(session, channel)
    set_version(response, found.version)
    return found


@router.patch("/channels/{channel}")
def update_channel(
    channel: Name,
    body: ChannelChange,
    caller: Admin,
    version: Version,
    context: Context,
    response: Response,
) -> Channel:
    """Change settings and secrets of a channel."""
    with context.database.write() as session:
        before = get_channel(session, channel)
        after = change_channel(session, channel, body.settings, version, context.vault)
        caller.record(session, Change("channel.change", f"channel:{after.name}", before, after))
    set_version(response, after.version)
    return after


@router.delete("/channels/{channel}", status_code=204)
def delete_channel(channel: Name, caller: Admin, context: Context) -> None:
    """Remove a channel with its secrets; what was not delivered yet never is."""
    with context.database.write() as session:
        before = get_channel(session, channel)
        remove_channel(session, channel, context.clock.now())
        caller.record(session, Change("channel.remove", f"channel:{before.name}", before))


@router.post("/channels/{channel}/rotate")
def rotate_channel_secret(channel: Name, caller: Admin, context: Context) -> NewChannel:
    """Give a webhook a new secret, which is in this reply and nowhere else.

    Notices are signed with both until `old_secret` is set to null.
    """
    with context.database.write() as session:
        before = get_channel(session, channel)
        made = rotate_secret(session, channel, context.vault)
        change = Change("channel.rotate", f"channel:{before.name}", before, made.channel)
        caller.record(session, change)
    return made


@router.post("/channels/{channel}/test")
def send_channel_test(channel: Name, caller: Operator, context: Context) -> Delivery:
    """Send a test to a channel now; the reply says what the receiver answered."""
    return send_test(context.outbox, channel, caller.actor.name)


@router.get("/rules")
def show_rules(
    _: Viewer, context: Context, after: AfterNumber = None, limit: Limit = 100
) -> Page[Rule]:
    """List the rules by number."""
    with context.database.read() as session:
        found = [one for one in list_rules(session) if after is None or one.id > after]
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))


@router.post("/rules", status_code=201)
def create_rule(body: RuleToAdd, caller: Admin, context: Context) -> Rule:
    """Have a channel get events. A channel without rules gets all problems and recoveries."""
    with context.database.write() as session:
        rule = add_rule(session, body.channel, body.events, body.sources, context.clock.now())
        caller.record(session, Change("rule.add", f"rule:{rule.id}", after=rule))
    return rule


@router.delete("/rules/{rule}", status_code=204)
def delete_rule(rule: Number, caller: Admin, context: Context) -> None:
    """Remove a rule."""
    with context.database.write() as session:
        before = get_rule(session, rule)
        remove_rule(session, rule)
        caller.record(session, Change("rule.remove", f"rule:{rule}", before))


@router.get("/deliveries")
def show_deliveries(
    _: Viewer,
    context: Context,
    channel: Annotated[str, Query(pattern=r"^[!-~]{0,254}$", description="To one channel.")] = "",
    state: Annotated[DeliveryState | None, Query(description="With one state.")] = None,
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[Delivery]:
    """List deliveries with the last answer of the receiver, newest first."""
    with context.database.read() as session:
        found = list_deliveries(
            session, channel=channel, state=state, before=after, limit=limit + 1
        )
    return _make_page(found, limit)


@router.get("/deliveries/{delivery}")
def show_delivery(delivery: Number, _: Viewer, context: Context) -> Delivery:
    """Show a delivery."""
    with context.database.read() as session:
        return get_delivery(session, delivery)


@router.post("/deliveries/{delivery}/redeliver")
def send_again(delivery: Number, caller: Operator, context: Context) -> Delivery:
    """Send a delivery again, with the id that it had; 409 if it is still on its way."""
    with context.database.write() as session:
        before = get_delivery(session, delivery)
        after = redeliver(session, delivery, context.clock.now())
        change = Change("delivery.redeliver", f"delivery:{delivery}", before, after)
        caller.record(session, change)
    return after


@router.get("/incidents")
def show_incidents(
    _: Viewer,
    context: Context,
    source: Annotated[str, Query(pattern=r"^[!-~]{0,254}$", description="Of one source.")] = "",
    open_: Annotated[bool, Query(alias="open", description="Only those that go on.")] = False,
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[Incident]:
    """List incidents, newest first: failures, partial syncs, stale and silent sources."""
    with context.database.read() as session:
        found = list_incidents(session, source, is_open=open_, before=after, limit=limit + 1)
    return _make_page(found, limit)


def _make_page(found: Sequence[Listed], limit: int) -> Page[Listed]:
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))
