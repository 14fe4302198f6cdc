"""Replays: plan, start, follow, cancel, resume."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from eventlake.control.audit import Change
from eventlake.control.database import Session
from eventlake.control.replays import (
    Replay,
    ReplayRequest,
    add_replay,
    cancel_replay,
    get_replay,
    list_replays,
    resume_replay,
    start_replay,
)
from eventlake.control.roles import Role
from eventlake.control.run_kinds import Chunking
from eventlake.model.values import FrozenModel
from eventlake.server.access import Caller, Operator, Viewer
from eventlake.server.context import Context
from eventlake.server.problems import RequestProblem
from eventlake.server.requests import (
    AfterNumber,
    Limit,
    Number,
    OnceOnly,
    Page,
    Settings,
    Text,
    Word,
)
from eventlake.server.routes.runs import OfSource

router = APIRouter(prefix="/replays", tags=["replays"])


class NewReplay(FrozenModel):
    """Events to replay: those received in [since, until), or all; of some tables or all."""

    source: Word
    since: Text = ""
    """UTC, as 2026-10-01 or 2026-10-01T07:00:00Z."""
    until: Text = ""
    all_time: bool = False
    events: tuple[Text, ...] = ()
    infer: bool = False
    """Infer columns and types of tables that are replaced as a whole."""
    partial: tuple[Text, ...] = ()
    """Patterns of raw logs that may be gone, whose rows are dropped."""
    settings: Settings = Field(default_factory=dict)
    """Settings of the connection that change, also those that its tables depend on; only with
    `all_time`, and only by an admin. The connection has them when the replay has finished."""
    chunk: Chunking = Chunking.DAY
    """How it is cut into runs. `all_time` and `infer` are one run."""
    dry_run: bool = False
    """Only make the plan; `/start` starts the replay."""


def _check_role(caller: Caller, settings: Mapping[str, Any]) -> None:
    """Raise a 403 problem if somebody who is not an admin wants to change settings."""
    if settings and not caller.role.may(Role.ADMIN):
        raise RequestProblem(403, "Forbidden", "only an admin may replay with other settings")


@router.get("")
def show_replays(
    _: Viewer,
    context: Context,
    source: OfSource = "",
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[Replay]:
    """List replays, newest first."""
    with context.database.read() as session:
        found = list_replays(session, source, before=after, limit=limit + 1)
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))


@router.post("", status_code=201, response_model=Replay)
def create_replay(body: NewReplay, caller: Operator, context: Context, once: OnceOnly) -> Response:
    """Start a replay, or with `dry_run` only make its plan, which it has when that run has ended.

    A source has one replay that runs at a time. While one changes settings, no sync runs.
    """
    _check_role(caller, body.settings)
    values = body.model_dump(mode="json")
    named = {name: values.pop(name) for name in ("source", "chunk", "dry_run")}

    def act(session: Session) -> Replay:
        request = ReplayRequest(parameters=values, **named)
        replay = add_replay(session, request, caller.actor.name, context.clock.now())
        caller.record(session, Change("replay.add", f"replay:{replay.id}", after=replay))
        return replay

    return once.act(context, caller, act)


@router.get("/{replay}")
def show_replay(replay: Number, _: Viewer, context: Context) -> Replay:
    """Show a replay, with its plan and how many of its chunks are done."""
    with context.database.read() as session:
        return get_replay(session, replay)


@router.post("/{replay}/start", response_model=Replay)
def begin_replay(replay: Number, caller: Operator, context: Context, once: OnceOnly) -> Response:
    """Start a replay that was planned."""

    def act(session: Session) -> Replay:
        before = get_replay(session, replay)
        _check_role(caller, before.parameters.settings)
        after = start_replay(session, replay, context.clock.now())
        caller.record(session, Change("replay.start", f"replay:{replay}", before, after))
        return after

    return once.act(context, caller, act, 200)


@router.post("/{replay}/cancel")
def stop_replay(replay: Number, caller: Operator, context: Context) -> Replay:
    """Cancel a replay. Chunks that have committed stay."""
    with context.database.write() as session:
        before = get_replay(session, replay)
        now, reason = context.clock.now(), f"by {caller.actor.name}"
        after = cancel_replay(session, replay, now, reason)
        caller.record(session, Change("replay.cancel", f"replay:{replay}", before, after))
    return after


@router.post("/{replay}/resume", response_model=Replay)
def continue_replay(replay: Number, caller: Operator, context: Context, once: OnceOnly) -> Response:
    """Continue a cancelled or failed replay with the chunks that are missing."""

    def act(session: Session) -> Replay:
        before = get_replay(session, replay)
        _check_role(caller, before.parameters.settings)
        after = resume_replay(session, replay, context.clock.now())
        caller.record(session, Change("replay.resume", f"replay:{replay}", before, after))
        return after

    return once.act(context, caller, act, 200)
