"""The end of a run, in one transaction: its state or next attempt, the incident, the notices."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from eventlake.control.audit import Actor, Change, record
from eventlake.control.connections import adopt_settings
from eventlake.control.database import Session
from eventlake.control.end_notices import note_ends
from eventlake.control.incidents import count_failures
from eventlake.control.results import Outcome, store_results
from eventlake.control.rollups import store_rollups
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunState, drop_corrected, promote_waiting, to_run
from eventlake.control.tables import IS_ACTIVE, LOCK_ORDER, runs, schedules
from eventlake.errors import Conflict, InsufficientPermissions, InvalidSettings, Unavailable

RETRY_AFTER = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=25))
RETRIED = (Unavailable.code, Conflict.code)
NEED_PERSON = (InvalidSettings.code, InsufficientPermissions.code)
"""Errors that stay until a person does something."""
CHECK_AFTER = 20
"""Failures in a row that need a person, after which a slot runs only the checks."""
OVERDUE = "it took longer than max_seconds of its schedule"
TOO_LATE = "it was cancelled too late: it had committed"

LOST = Outcome(
    state=RunState.FAILED, error_code=Unavailable.code, error="the process of the run is gone"
)


def needs_person(failures: int, error_code: str | None) -> bool:
    """Whether a slot should run only the checks, because a person has to do something first."""
    return failures >= CHECK_AFTER and error_code in NEED_PERSON


def retry_time(
    error_code: str, attempt: int, now: datetime, next_slot: datetime | None
) -> datetime | None:
    """When an attempt that failed is repeated; None if the next slot comes first, or never."""
    if error_code not in RETRIED or attempt > len(RETRY_AFTER):
        return None
    at = now + RETRY_AFTER[attempt - 1]
    return at if next_slot is None or at < next_slot else None


_RUNNING = (
    sa.select(runs)
    .where(
        runs.c.id.in_(sa.bindparam("ids", expanding=True)),
        runs.c.state.in_((RunState.RUNNING, RunState.CANCELLING)),
    )
    .order_by(*LOCK_ORDER)
    .with_for_update()
)
_NEXT_SLOTS = sa.select(schedules.c.source_id, schedules.c.next_slot).where(
    schedules.c.source_id.in_(sa.bindparam("sources", expanding=True))
)


def end_runs(
    session: Session, outcomes: Mapping[tuple[int, int], Outcome], now: datetime
) -> list[Run]:
    """End attempts of runs, given by run and attempt; return the runs as they are then.

    An attempt that has ended already is left out, so that a run gets one end. A failure that is
    retried queues the run again.
    """
    if not outcomes:
        return []
    ids = [run_id for run_id, _ in outcomes]
    found = [to_run(row) for row in session.execute(_RUNNING, {"ids": ids})]
    found = [run for run in found if (run.id, run.attempt) in outcomes]
    slots = _read_next_slots(session, found)
    ended = [_end(run, outcomes[run.id, run.attempt], slots.get(run.id), now) for run in found]
    _store(session, ended)
    ended_now = [run for run in ended if run.ended_at]
    results = [(run, outcomes[run.id, run.attempt]) for run in ended_now]
    _adopt_settings(session, ended_now, now)
    store_results(session, results, now)
    store_rollups(session, results)
    count_failures(session, [one for one in results if one[0].lane == "sync"], now)
    note_ends(session, results, now)
    promote_waiting(session)
    return ended


def _end(run: Run, outcome: Outcome, next_slot: datetime | None, now: datetime) -> Run:
    """The run after an attempt."""
    result: dict[str, Any] = {"lake_run": outcome.lake_run or run.lake_run, "progress": {}}
    result |= {"error_code": outcome.error_code, "error": outcome.error}
    result |= {"plan": outcome.plan, "result": outcome.result}
    state, reason = outcome.state, run.reason
    if run.state is RunState.CANCELLING:
        if state in (RunState.FINISHED, RunState.PARTIAL) and _writes(run):
            reason = TOO_LATE
        elif reason == OVERDUE:
            state, result["error"] = RunState.FAILED, OVERDUE
        else:
            state = RunState.CANCELLED
    elif state is RunState.FAILED:
        at = retry_time(outcome.error_code, run.attempt, now, next_slot)
        if at:
            again = {"state": RunState.QUEUED, "attempt": run.attempt + 1, "not_before": at}
            # The next attempt is another run of the lake.
            again |= {"owner": "", "lease_until": None, "handle": "", "lake_run": ""}
            return run.model_copy(update=result | again)
    result |= {"state": state, "reason": reason, "ended_at": now, "lease_until": None}
    result |= {"parameters": drop_corrected(run).parameters}
    return run.model_copy(update=result)


def _adopt_settings(session: Session, ended: Sequence[Run], now: datetime) -> None:
    """Give connections the settings with which a replay has built their tables again."""
    for run in ended:
        is_done = run.state in (RunState.FINISHED, RunState.PARTIAL) and not run.dry_run
        changes = run.parameters.get("settings") if run.kind == Kind.REPLAY else None
        if changes and is_done and run.lake_run:  # else it has committed nothing
            before, after = adopt_settings(session, run.source_id, changes)
            change = Change("connection.change", f"connection:{after.source}", before, after)
            record(session, Actor(run.actor), change, now)


def _writes(run: Run) -> bool:
    return not run.dry_run and run.kind != Kind.VERIFY


def cancel_overdue(session: Session, now: datetime) -> int:
    """Ask syncs that take longer than their schedule allows to stop; return how many."""
    rows = session.execute(
        sa.select(runs.c.id, runs.c.started_at, schedules.c.rule)
        .join(schedules, schedules.c.source_id == runs.c.source_id)
        .where(IS_ACTIVE, runs.c.state == RunState.RUNNING, runs.c.lane == "sync")
    )
    late = [
        row.id
        for row in rows
        if (limit := row.rule.get("max_seconds"))
        and now - row.started_at > timedelta(seconds=limit)
    ]
    if not late:
        return 0
    asked = session.execute(
        runs.update()
        .where(runs.c.id.in_(late), runs.c.state == RunState.RUNNING)
        .values(state=RunState.CANCELLING, reason=OVERDUE)
    )
    return asked.rowcount


def _read_next_slots(session: Session, found: Sequence[Run]) -> dict[int, datetime | None]:
    """The next slot of each run; only syncs have one."""
    ids = {run.source_id for run in found if run.lane == "sync"}
    rows = session.execute(_NEXT_SLOTS, {"sources": list(ids)}) if ids else ()
    slots = {row.source_id: row.next_slot for row in rows}
    return {run.id: slots.get(run.source_id) for run in found if run.lane == "sync"}


_STORED = (
    "state",
    "reason",
    "attempt",
    "not_before",
    "owner",
    "lease_until",
    "handle",
    "lake_run",
    "progress",
    "error_code",
    "error",
    "ended_at",
    "plan",
    "result",
    "parameters",
)


_STORE = (
    runs.update()
    .where(runs.c.id == sa.bindparam("of"))
    .values({name: sa.bindparam(f"new_{name}") for name in _STORED})
)


def _store(session: Session, ended: Sequence[Run]) -> None:
    if ended:
        session.execute(
            _STORE,
            [{"of": run.id} | {f"new_{n}": getattr(run, n) for n in _STORED} for run in ended],
        )
