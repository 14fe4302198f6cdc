"""Runs: start, follow, cancel."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from eventlake.control.audit import Change
from eventlake.control.database import Session
from eventlake.control.runs import Run, cancel_run, get_run, list_runs, request_run
from eventlake.model.values import FrozenModel
from eventlake.server.access import Operator, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import AfterNumber, Limit, Number, OnceOnly, Page, Word

router = APIRouter(prefix="/runs", tags=["runs"])
POLL_SECONDS = 0.5


class NewRun(FrozenModel):
    """A run to start."""

    source: Word
    kind: Literal["sync"] = "sync"


@router.get("")
def show_runs(
    _: Viewer,
    context: Context,
    source: Annotated[str, Query(pattern=r"^[!-~]{0,254}$", description="Of one source.")] = "",
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[Run]:
    """List runs, newest first."""
    with context.database.read() as session:
        found = list_runs(session, source, before=after, limit=limit + 1)
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))


@router.post("", status_code=201, response_model=Run)
def start_run(
    body: NewRun,
    caller: Operator,
    context: Context,
    once: OnceOnly,
    queue: Annotated[bool, Query(description="Wait for a run that is active.")] = False,
) -> Response:
    """Sync a source now. If it has an active run: 409, or with `queue` the new run waits for it."""

    def act(session: Session) -> Run:
        now = context.clock.now()
        run = request_run(session, body.source, body.kind, caller.actor.name, now, wait=queue)
        caller.record(session, Change("run.start", f"run:{run.id}", after=run))
        return run

    return once.act(context, caller, act)


@router.get("/{run}")
async def show_run(
    run: Number,
    _: Viewer,
    context: Context,
    wait: Annotated[int, Query(ge=0, le=60, description="Seconds to wait for its end.")] = 0,
) -> Run:
    """Show a run; with `wait`, when it has ended or after so many seconds."""
    until = context.clock.monotonic() + wait

    def read() -> Run:
        with context.database.read() as session:
            return get_run(session, run)

    while not (found := await run_in_threadpool(read)).ended_at:
        if context.clock.monotonic() >= until:
            break
        await asyncio.sleep(POLL_SECONDS)
    return found


@router.post("/{run}/cancel")
def stop_run(run: Number, caller: Operator, context: Context) -> Run:
    """Cancel a run; one that has committed by then finishes all the same."""
    with context.database.write() as session:
        before = get_run(session, run)
        after = cancel_run(session, run, context.clock.now(), f"by {caller.actor.name}")
        caller.record(session, Change("run.cancel", f"run:{run}", before, after))
    return after
