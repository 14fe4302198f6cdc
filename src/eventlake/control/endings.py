"""The end of a run, in one transaction: its state or next attempt, the incident, the notices."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.results import Outcome, store_results
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunState, promote_waiting, to_run
from eventlake.control.tables import IS_ACTIVE, LOCK_ORDER, incidents, notices, runs, schedules
from eventlake.errors import Conflict, InsufficientPermissions, InvalidSettings, Unavailable

RETRY_AFTER = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=25))
RETRIED = (Unavailable.code, Conflict.code)
NEED_PERSON = (InvalidSettings.code, InsufficientPermissions.code)
"""Errors that stay until a person does something."""
CHECK_AFTER = 20
"""Failures in a row that need a person, after which a slot runs only the checks."""
NOTIFY_AT = (1, 5, 20)
SYNC_INCIDENT, PARTIAL_INCIDENT = "sync", "partial"
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
    store_results(session, [(run, outcomes[run.id, run.attempt]) for run in ended_now], now)
    _count_failures(session, [run for run in ended_now if run.lane == "sync"], now)
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
    return run.model_copy(update=result)


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


# Incidents: failures in a row of a source's slots, from the first one to the next success

_OPEN = sa.select(incidents).where(
    incidents.c.source_id.in_(sa.bindparam("sources", expanding=True)),
    incidents.c.closed_at.is_(None),
)
_COUNT = (
    incidents.update()
    .where(incidents.c.id == sa.bindparam("of"))
    .values(
        failures=incidents.c.failures + 1,
        last_run=sa.bindparam("run"),
        error_code=sa.bindparam("new_code"),
        error=sa.bindparam("new_error"),
    )
)
_CLOSED_BY = {
    RunState.FINISHED: (SYNC_INCIDENT, PARTIAL_INCIDENT),
    RunState.PARTIAL: (SYNC_INCIDENT,),
}
_OPENED_BY = {RunState.FAILED: SYNC_INCIDENT, RunState.PARTIAL: PARTIAL_INCIDENT}


def _count_failures(session: Session, ended: Sequence[Run], now: datetime) -> None:
    """Open, count up and close the incidents of syncs that ended, and write the notices."""
    if not ended:
        return
    found = _read_open(session, ended)
    closed = [
        found[run.source_id, kind]
        for run in ended
        for kind in _CLOSED_BY.get(run.state, ())
        if (run.source_id, kind) in found
    ]
    written = [_notice(row, "recovered", now) for row in closed if row.kind == SYNC_INCIDENT]
    if closed:
        is_closed = incidents.c.id.in_([row.id for row in closed])
        session.execute(incidents.update().where(is_closed).values(closed_at=now))
    wrong = [run for run in ended if run.state in _OPENED_BY]
    if wrong:
        for row in _count_up(session, wrong, now):
            key = _notice_key(row.kind, row.failures, now)
            written += [_notice(row, key, now)] if key else []
    insert_if_absent(session, notices, written)


def _count_up(session: Session, wrong: Sequence[Run], now: datetime) -> list[sa.Row[Any]]:
    """Add a failure to the incident of each run's source; return the incidents."""
    kinds = [_OPENED_BY[run.state] for run in wrong]
    rows = [
        {"source_id": run.source_id, "kind": kind, "failures": 0, "created_at": now}
        | {"error_code": "", "error": ""}
        for run, kind in zip(wrong, kinds, strict=True)
    ]
    insert_if_absent(session, incidents, rows)
    found = _read_open(session, wrong)
    counted = [
        {"of": found[run.source_id, kind].id, "run": run.id}
        | {"new_code": run.error_code, "new_error": run.error}
        for run, kind in zip(wrong, kinds, strict=True)
    ]
    session.execute(_COUNT, counted)
    found = _read_open(session, wrong)
    return [found[run.source_id, kind] for run, kind in zip(wrong, kinds, strict=True)]


def _read_open(session: Session, ended: Sequence[Run]) -> dict[tuple[str, str], sa.Row[Any]]:
    rows = session.execute(_OPEN, {"sources": [run.source_id for run in ended]})
    return {(row.source_id, row.kind): row for row in rows}


def _notice_key(kind: str, failures: int, now: datetime) -> str:
    """Which notice of an incident is due after a failure; empty for none. Each is written once."""
    if kind == PARTIAL_INCIDENT:
        return "1"
    if failures > NOTIFY_AT[-1]:
        return f"{now:%Y-%m-%d}"
    return str(failures) if failures in NOTIFY_AT else ""


def _notice(row: sa.Row[Any], key: str, now: datetime) -> dict[str, Any]:
    event = "sync_partial" if row.kind == PARTIAL_INCIDENT else "sync_failed"
    return {
        "key": f"incident/{row.id}/{key}",
        "event": "recovered" if key == "recovered" else event,
        "source_id": row.source_id,
        "data": {
            "incident": row.id,
            "failures": row.failures,
            "since": row.created_at.isoformat(),
            "run": row.last_run,
            "error_code": row.error_code,
            "error": row.error,
        },
        "created_at": now,
    }
