"""Runs: request, cancel, look at. `queue.py` starts them, `endings.py` ends them."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from eventlake.control.connections import get_connection
from eventlake.control.database import Session, insert_if_absent
from eventlake.control.run_kinds import LANES, PLAN_LANE, PLANNED, Kind, parse_parameters
from eventlake.control.sources import get_source
from eventlake.control.tables import ACTIVE, IS_ACTIVE, IS_WAITING, runs
from eventlake.errors import Conflict, InvalidSettings, NotFound, SourceBusy
from eventlake.model.values import FrozenModel


class RunState(StrEnum):
    """What a run is doing, or how it ended."""

    WAITING = "waiting"
    """For the source's active run."""
    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """A slot at which the source had an active run."""


class RunRequest(FrozenModel):
    """A run that is asked for."""

    source: str
    kind: Kind = Kind.SYNC
    parameters: dict[str, Any] = Field(default_factory=dict)
    dry_run: bool = False
    """Only make the plan of the run, and write nothing."""
    erasure_id: int | None = None
    retry_of: int | None = None


class StartedStage(FrozenModel):
    """A stage of a run, and when it began."""

    stage: str
    at: datetime


class Run(FrozenModel):
    """A run of the workspace. Its id in the lake, `lake_run`, is known once it is planned."""

    id: int
    source_id: str
    kind: str
    lane: str
    trigger: str
    """`schedule`, `manual`, `replay` for a chunk of one, or `rebuild` for one of new settings."""
    actor: str
    state: RunState
    reason: str
    slot: datetime | None
    coalesced: int
    """The number of slots that it stands for."""
    met_run: int | None
    """Why a slot was skipped."""
    epoch: int
    """That of the scheduler that claimed the slot."""
    check_first: bool
    """Run only the checks of the lake unless they pass."""
    attempt: int
    not_before: datetime | None
    owner: str
    lease_until: datetime | None
    handle: str
    lake_run: str
    progress: dict[str, Any]
    """While it is running, its last step: `stage`, `done`, `total` and `rows`."""
    error_code: str
    error: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    parameters: dict[str, Any]
    """What its kind needs to know, as in `run_kinds.py`; an erasure's are elsewhere."""
    dry_run: bool
    plan: dict[str, Any] | None
    """What it would do, of a dry run that has ended; long lists are cut."""
    result: dict[str, Any] | None
    """What it did, besides the counts of its tables."""
    stages: tuple[StartedStage, ...]
    replay_id: int | None
    chunk: int | None
    """The number of its chunk in the replay, from 0."""
    erasure_id: int | None
    retry_of: int | None


_active = runs.alias("active")
_PROMOTE = (
    runs.update()
    .where(
        sa.text("runs.state = 'waiting'"),
        ~sa.exists().where(
            _active.c.source_id == runs.c.source_id,
            _active.c.lane == runs.c.lane,
            _active.c.state.in_(ACTIVE),
        ),
    )
    .values(state=RunState.QUEUED)
)


def make_row(source_id: str, kind: str, now: datetime, **values: Any) -> dict[str, Any]:
    """A row for a new run, queued unless `values` say otherwise."""
    texts = ("actor", "reason", "owner", "handle", "lake_run", "error_code", "error")
    return {
        **dict.fromkeys(texts, ""),
        "source_id": source_id,
        "kind": kind,
        "lane": LANES[Kind(kind)],
        "trigger": "manual",
        "state": RunState.QUEUED,
        "slot": None,
        "coalesced": 0,
        "met_run": None,
        "epoch": 0,
        "check_first": False,
        "attempt": 1,
        "progress": {},
        "parameters": {},
        "dry_run": False,
        "stages": [],
        "created_at": now,
        **values,
    }


def request_run(
    session: Session, source: str, kind: str, actor: str, now: datetime, *, wait: bool = False
) -> Run:
    """Queue a run without parameters, as `queue_run`."""
    return queue_run(session, RunRequest(source=source, kind=Kind(kind)), actor, now, wait=wait)


def queue_run(
    session: Session,
    request: RunRequest,
    actor: str,
    now: datetime,
    *,
    wait: bool = False,
    delay: timedelta = timedelta(0),
) -> Run:
    """Queue a run that a person or a program asks for, to start after `delay`.

    If the source has an active run in the same lane, the new one waits for it if `wait`, else
    SourceBusy is raised with that run; only one waits. Raises InvalidSettings for wrong parameters.
    """
    found = get_source(session, request.source)
    get_connection(session, found.id)
    parameters = parse_parameters(request.kind, request.parameters)
    if request.dry_run and request.kind not in PLANNED:
        raise InvalidSettings(f"a {request.kind} has no plan: leave dry_run out")
    row = make_row(found.id, request.kind, now, actor=actor)
    row |= {"parameters": parameters.model_dump(mode="json"), "dry_run": request.dry_run}
    row |= {"erasure_id": request.erasure_id, "retry_of": request.retry_of}
    row["not_before"] = now + delay if delay else None
    if request.dry_run:
        row["lane"] = PLAN_LANE
    for state in (RunState.QUEUED, RunState.WAITING) if wait else (RunState.QUEUED,):
        for run_id in insert_if_absent(session, runs, [{**row, "state": state}]):
            return get_run(session, run_id)
    other = _find_unended(session, found.id, row["lane"])
    if other is None:
        raise Conflict(f"another run of source {found.slug} has just ended: try again")
    raise SourceBusy(
        f"run {other.id} of source {found.slug} is {other.state} since {other.created_at:%H:%M} "
        "UTC: wait for it, or cancel it",
        other.id,
    )


def retry_run(session: Session, run_id: int, actor: str, now: datetime) -> Run:
    """Run again what failed or was cancelled, now; return the run to follow.

    A run whose next attempt is due later begins now; of others a new run with the same parameters
    is queued. Raises Conflict for a run that cannot be retried.
    """
    run = get_run(session, run_id, lock=True)
    if run.replay_id is not None and not run.dry_run:
        raise Conflict(f"run {run_id} is a chunk of replay {run.replay_id}: resume the replay")
    if run.state is RunState.QUEUED and run.not_before:
        session.execute(runs.update().where(runs.c.id == run_id).values(not_before=None))
        return get_run(session, run_id)
    if run.state not in (RunState.FAILED, RunState.CANCELLED, RunState.PARTIAL, RunState.SKIPPED):
        raise Conflict(f"run {run_id} is {run.state}: only what went wrong can be retried")
    request = RunRequest(
        source=run.source_id,
        kind=Kind(run.kind),
        parameters=run.parameters,
        dry_run=run.dry_run,
        erasure_id=run.erasure_id,
        retry_of=run.id,
    )
    return queue_run(session, request, actor, now)


def cancel_run(session: Session, run_id: int, now: datetime, reason: str = "") -> Run:
    """Cancel a run at once if it has not started, else ask its worker to.

    Raises Conflict if it has ended. A run that has committed by then finishes all the same.
    """
    run = get_run(session, run_id, lock=True)
    if run.state in (RunState.QUEUED, RunState.WAITING):
        values = {"state": RunState.CANCELLED, "ended_at": now, "reason": reason}
        values["parameters"] = drop_corrected(run).parameters
    elif run.state in (RunState.RUNNING, RunState.CANCELLING):
        values = {"state": RunState.CANCELLING, "reason": reason}
    else:
        raise Conflict(f"run {run_id} is {run.state} already: nothing is left to cancel")
    session.execute(runs.update().where(runs.c.id == run_id).values(values))
    promote_waiting(session)
    return get_run(session, run_id)


def hide_values(run: Run) -> Run:
    """A run without what may have values of events: corrections, and what a verify found."""
    hidden = ("fields", "corrected")
    shown = {name: value for name, value in run.parameters.items() if name not in hidden}
    result = run.result and {k: v for k, v in run.result.items() if k != "problems"}
    return run.model_copy(update={"parameters": shown, "result": result})


def drop_corrected(run: Run) -> Run:
    """A run without the text of corrected lines, which is deleted when the run has ended."""
    if not run.parameters.get("corrected"):
        return run
    return run.model_copy(update={"parameters": {**run.parameters, "corrected": ""}})


def promote_waiting(session: Session) -> None:
    """Queue the waiting runs whose source and lane have no active run any more."""
    session.execute(_PROMOTE)


def get_run(session: Session, run_id: int, *, lock: bool = False) -> Run:
    """The run with an id; raises NotFound. With `lock`, other transactions wait to change it."""
    query = sa.select(runs).where(runs.c.id == run_id)
    row = session.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise NotFound(f"run is {run_id}: the workspace has no such run")
    return to_run(row)


def list_runs(
    session: Session, source: str = "", *, before: int | None = None, limit: int = 100
) -> list[Run]:
    """The newest runs of a source, or of all; `before` is the last id of the page before."""
    query = sa.select(runs).order_by(runs.c.id.desc()).limit(limit)
    if source:
        query = query.where(runs.c.source_id == get_source(session, source).id)
    if before is not None:
        query = query.where(runs.c.id < before)
    return [to_run(row) for row in session.execute(query)]


def find_confirmation(session: Session, plan: Run) -> Run | None:
    """The first later run with the parameters of a dry run, unless it failed; None without one.

    Corrected lines are deleted when a run has ended, so none is found for a plan of such.
    """
    if plan.parameters.get("corrected") is not None:
        return None
    query = sa.select(runs).where(
        runs.c.source_id == plan.source_id,
        runs.c.kind == plan.kind,
        runs.c.id > plan.id,
        runs.c.dry_run.is_(False),
        runs.c.state.not_in((RunState.FAILED, RunState.CANCELLED)),
    )
    found = (to_run(row) for row in session.execute(query.order_by(runs.c.id)))
    return next((run for run in found if run.parameters == plan.parameters), None)


def find_asked_syncs(session: Session) -> dict[int, str]:
    """The source's id of each sync that was asked for and has not ended."""
    return {row.id: row.source_id for row in session.execute(_ASKED_SYNCS)}


_SYNCS = sa.select(runs.c.id, runs.c.source_id).where(
    runs.c.kind == Kind.SYNC, runs.c.trigger == "manual"
)
_ASKED_SYNCS = sa.union_all(_SYNCS.where(IS_ACTIVE), _SYNCS.where(IS_WAITING))


def to_run(row: sa.Row[Any]) -> Run:
    """A row of `runs` as a value."""
    return Run.model_validate(row._asdict())


def _find_unended(session: Session, source_id: str, lane: str) -> Run | None:
    """The waiting run of a source and lane, else the active one."""
    is_unended = sa.or_(runs.c.state == RunState.WAITING, IS_ACTIVE)
    query = sa.select(runs).where(runs.c.source_id == source_id, runs.c.lane == lane, is_unended)
    found = [to_run(row) for row in session.execute(query.order_by(runs.c.id.desc()))]
    return found[0] if found else None
