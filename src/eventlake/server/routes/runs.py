"""Runs: start, follow, cancel, retry."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from eventlake.control.audit import Change
from eventlake.control.database import Session
from eventlake.control.results import TableResult, list_results
from eventlake.control.roles import Role
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import (
    Run,
    RunRequest,
    cancel_run,
    drop_corrected,
    get_run,
    hide_values,
    list_runs,
    queue_run,
    retry_run,
)
from eventlake.errors import InvalidSettings
from eventlake.model.values import FrozenModel
from eventlake.server.access import Caller, Operator, Viewer
from eventlake.server.context import Context, ServerContext
from eventlake.server.problems import RequestProblem
from eventlake.server.requests import AfterNumber, Limit, Number, OnceOnly, Page, Settings, Word

router = APIRouter(prefix="/runs", tags=["runs"])
POLL_SECONDS = 0.5
EVENT_SECONDS = 1.0
KEEP_ALIVE_SECONDS = 15.0
ELSEWHERE = {Kind.FORGET: "/erasures", Kind.REPLAY: "/replays"}
"""Kinds that have a path of their own."""

OfSource = Annotated[str, Query(pattern=r"^[!-~]{0,254}$", description="Of one source.")]
Queue = Annotated[bool, Query(description="Wait for a run that is active.")]


class NewRun(FrozenModel):
    """A run to start."""

    source: Word
    kind: Kind = Kind.SYNC
    """Replays and erasures have paths of their own."""
    parameters: Settings = Field(default_factory=dict)
    dry_run: bool = False
    """Only make a plan, which the run has when it has ended."""


class RunReport(FrozenModel):
    """What a run landed: first all of it, then each table."""

    run: int
    items: tuple[TableResult, ...]


def show_to(caller: Caller, run: Run) -> Run:
    """A run as a caller may see it: a viewer sees no values of events, nobody corrected lines."""
    return drop_corrected(run) if caller.role.may(Role.OPERATOR) else hide_values(run)


def start(
    context: ServerContext,
    caller: Caller,
    request: RunRequest,
    session: Session,
    wait: bool,
    delay: timedelta = timedelta(0),
) -> Run:
    """Queue a run, with an entry in the audit log."""
    now = context.clock.now()
    run = queue_run(session, request, caller.actor.name, now, wait=wait, delay=delay)
    run = drop_corrected(run)  # so that neither the log nor a stored answer has it
    caller.record(session, Change("run.start", f"run:{run.id}", after=run))
    return run


def _check_privacy(caller: Caller, run: Run) -> None:
    """Raise a 403 problem if somebody who is not an admin wants to change an erasure."""
    if run.kind == Kind.FORGET and not caller.role.may(Role.ADMIN):
        raise RequestProblem(403, "Forbidden", "only an admin may cancel or retry an erasure")


@router.get("")
def show_runs(
    caller: Viewer,
    context: Context,
    source: OfSource = "",
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[Run]:
    """List runs, newest first."""
    with context.database.read() as session:
        found = list_runs(session, source, before=after, limit=limit + 1)
    is_last = len(found) <= limit
    shown = tuple(show_to(caller, run) for run in found[:limit])
    return Page(items=shown, next=None if is_last else str(found[limit - 1].id))


@router.post("", status_code=201, response_model=Run)
def start_run(
    body: NewRun, caller: Operator, context: Context, once: OnceOnly, queue: Queue = False
) -> Response:
    """Start a run: by default a sync; or `retype`, `redrive`, `compact`, `verify`.

    A sync lands all events that were accepted before it was requested.
    If the source has an active run in the same lane: 409, or with `queue` the new run waits for it.
    """
    if body.kind in ELSEWHERE:
        raise InvalidSettings(f"kind is {body.kind}: use {ELSEWHERE[body.kind]}")
    request = RunRequest.model_validate(body.model_dump())
    is_sync = body.kind == Kind.SYNC
    delay = context.archive_collected(body.source) if is_sync else timedelta(0)
    return once.act(
        context, caller, lambda session: start(context, caller, request, session, queue, delay)
    )


@router.get("/{run}")
async def show_run(
    run: Number,
    caller: Viewer,
    context: Context,
    wait: Annotated[int, Query(ge=0, le=60, description="Seconds to wait for its end.")] = 0,
) -> Run:
    """Show a run; with `wait`, when it has ended or after so many seconds."""
    until = context.clock.monotonic() + wait
    while not (found := await _read(context, run)).ended_at:
        if context.clock.monotonic() >= until:
            break
        await asyncio.sleep(POLL_SECONDS)
    return show_to(caller, found)


@router.post("/{run}/cancel")
def stop_run(run: Number, caller: Operator, context: Context) -> Run:
    """Cancel a run; one that has committed by then finishes all the same."""
    with context.database.write() as session:
        before = drop_corrected(get_run(session, run))
        _check_privacy(caller, before)
        now, reason = context.clock.now(), f"by {caller.actor.name}"
        after = drop_corrected(cancel_run(session, run, now, reason))
        caller.record(session, Change("run.cancel", f"run:{run}", before, after))
    return after


@router.post("/{run}/retry", status_code=201, response_model=Run)
def repeat_run(run: Number, caller: Operator, context: Context, once: OnceOnly) -> Response:
    """Run again what failed, was cancelled or is partial; the reply has the run to follow.

    A run whose next attempt is due later begins now.
    """

    def act(session: Session) -> Run:
        _check_privacy(caller, get_run(session, run))
        again = drop_corrected(retry_run(session, run, caller.actor.name, context.clock.now()))
        caller.record(session, Change("run.retry", f"run:{run}", after=again))
        return again

    return once.act(context, caller, act)


@router.get("/{run}/report")
def show_report(run: Number, _: Viewer, context: Context) -> RunReport:
    """Show what a run landed, in all and by table; nothing while it runs."""
    with context.database.read() as session:
        get_run(session, run)
        return RunReport(run=run, items=list_results(session, run))


@router.get("/{run}/events", response_class=StreamingResponse)
async def follow_run(run: Number, caller: Viewer, context: Context) -> StreamingResponse:
    """Follow a run as server-sent events.

    An event `run` has the run each time it changes, at most once a second; the last one is `end`.
    """
    await _read(context, run)  # a 404 before the stream begins
    return StreamingResponse(_list_events(context, caller, run), media_type="text/event-stream")


async def _list_events(context: ServerContext, caller: Caller, run: int) -> AsyncIterator[str]:
    shown, quiet_since = "", context.clock.monotonic()
    while True:
        found = await _read(context, run)
        text = show_to(caller, found).model_dump_json(exclude={"lease_until"})
        if text != shown:
            shown, quiet_since = text, context.clock.monotonic()
            yield f"event: {'end' if found.ended_at else 'run'}\ndata: {text}\n\n"
        elif context.clock.monotonic() - quiet_since > KEEP_ALIVE_SECONDS:
            quiet_since = context.clock.monotonic()
            yield ": still there\n\n"
        if found.ended_at:
            return
        await asyncio.sleep(EVENT_SECONDS)


async def _read(context: ServerContext, run: int) -> Run:
    def read() -> Run:
        with context.database.read() as session:
            return get_run(session, run)

    return await run_in_threadpool(read)
