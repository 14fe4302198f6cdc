"""Replays: a window of events that is replayed in chunks, each a run, beside the schedule."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from eventlake.control.connections import check_rebuild, get_connection
from eventlake.control.database import Session, insert_if_absent
from eventlake.control.end_notices import note_replay
from eventlake.control.run_kinds import (
    REBUILD,
    Chunking,
    Kind,
    ReplayParameters,
    choose_chunk_seconds,
    cut_into_chunks,
    parse_parameters,
)
from eventlake.control.runs import (
    Run,
    RunRequest,
    RunState,
    cancel_run,
    get_run,
    make_row,
    queue_run,
    to_run,
)
from eventlake.control.sources import get_source
from eventlake.control.tables import replays, runs, sources
from eventlake.errors import Conflict, NotFound
from eventlake.model.values import FrozenModel

DONE = (RunState.FINISHED, RunState.PARTIAL)


class ReplayState(StrEnum):
    """What a replay is doing, or how it ended."""

    PLANNED = "planned"
    """It has not been started; its plan may not be ready yet."""
    RUNNING = "running"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"


class ReplayRequest(FrozenModel):
    """A replay that is asked for."""

    source: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    chunk: Chunking = Chunking.DAY
    dry_run: bool = False
    """Only make the plan; `start_replay` starts it."""


class Replay(FrozenModel):
    """A replay of a source. Chunks that have committed stay, however it ends."""

    id: int
    source: str
    """The slug."""
    source_id: str
    state: ReplayState
    parameters: ReplayParameters
    chunk_seconds: int
    """The length of its chunks; 0 for a replay in one run."""
    chunks: int
    chunks_done: int
    active_run: int | None
    """The run that works for it now; also one that is being cancelled."""
    plan_run: int | None
    plan: dict[str, Any] | None
    """What the plan's run found; None until it has ended."""
    actor: str
    error_code: str
    error: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


def add_replay(session: Session, request: ReplayRequest, actor: str, now: datetime) -> Replay:
    """Start a replay, or with `dry_run` a run that makes its plan.

    Raises InvalidSettings for wrong parameters, and Conflict if the source has another replay that
    runs.
    """
    source = get_source(session, request.source)
    settings = get_connection(session, source.id).resolved
    parsed = parse_parameters(Kind.REPLAY, request.parameters)
    assert isinstance(parsed, ReplayParameters)
    check_rebuild(session, source.id, parsed.settings)
    seconds = choose_chunk_seconds(request.chunk, parsed, settings)
    row: dict[str, Any] = {
        "source_id": source.id,
        "state": ReplayState.PLANNED,
        "parameters": parsed.model_dump(mode="json"),
        "chunk_seconds": seconds,
        "chunks": len(cut_into_chunks(parsed, seconds)),
        "after_run": 0,
        "actor": actor,
        "error_code": "",
        "error": "",
        "created_at": now,
    }
    (replay_id,) = insert_if_absent(session, replays, [row])
    if not request.dry_run:
        return start_replay(session, replay_id, now)
    dry = RunRequest(source=source.id, kind=Kind.REPLAY, parameters=row["parameters"], dry_run=True)
    run = queue_run(session, dry, actor, now, wait=True)
    session.execute(runs.update().where(runs.c.id == run.id).values(replay_id=replay_id))
    _change(session, replay_id, plan_run=run.id)
    return get_replay(session, replay_id)


def start_replay(session: Session, replay_id: int, now: datetime) -> Replay:
    """Start a replay that was only planned; raises Conflict for another one."""
    replay = get_replay(session, replay_id, lock=True)
    if replay.state is not ReplayState.PLANNED:
        raise Conflict(f"replay {replay_id} is {replay.state}: only a planned one can be started")
    return _run(session, replay, now)


def resume_replay(session: Session, replay_id: int, now: datetime) -> Replay:
    """Continue a cancelled or failed replay with the chunks that are missing."""
    replay = get_replay(session, replay_id, lock=True)
    if replay.state not in (ReplayState.CANCELLED, ReplayState.FAILED):
        raise Conflict(
            f"replay {replay_id} is {replay.state}: only a cancelled or failed one can be resumed"
        )
    return _run(session, replay, now)


def _run(session: Session, replay: Replay, now: datetime) -> Replay:
    other = session.execute(
        sa.select(replays.c.id).where(
            replays.c.source_id == replay.source_id, replays.c.state == ReplayState.RUNNING
        )
    ).scalar()
    if other is not None:
        raise Conflict(f"replay {other} of source {replay.source} runs: wait for it, or cancel it")
    newest = session.execute(sa.select(sa.func.max(runs.c.id))).scalar() or 0
    _change(
        session,
        replay.id,
        state=ReplayState.RUNNING,
        after_run=newest,
        started_at=now,
        ended_at=None,
        error_code="",
        error="",
    )
    _advance(session, replay.id, now)
    return get_replay(session, replay.id)


def cancel_replay(session: Session, replay_id: int, now: datetime, reason: str = "") -> Replay:
    """Cancel a replay: no further chunk begins, and the run of the present one is cancelled.

    Chunks that have committed stay. Raises Conflict for a replay that has ended.
    """
    replay = get_replay(session, replay_id, lock=True)
    if replay.state not in (ReplayState.PLANNED, ReplayState.RUNNING):
        raise Conflict(f"replay {replay_id} is {replay.state} already: nothing is left to cancel")
    _change(session, replay_id, state=ReplayState.CANCELLED, ended_at=now)
    if replay.active_run is not None:
        cancel_run(session, replay.active_run, now, reason)
    return get_replay(session, replay_id)


def advance_replays(session: Session, now: datetime) -> list[Replay]:
    """Queue the next chunk of each running replay without an active run, or end it.

    Returns the replays that ended.
    """
    ids = session.execute(
        sa.select(replays.c.id).where(replays.c.state == ReplayState.RUNNING).order_by(replays.c.id)
    ).scalars()
    ended = [replay_id for replay_id in list(ids) if _advance(session, replay_id, now)]
    return [get_replay(session, replay_id) for replay_id in ended]


def has_running_replays(session: Session) -> bool:
    """Whether `advance_replays` may have something to do."""
    query = sa.select(replays.c.id).where(replays.c.state == ReplayState.RUNNING).limit(1)
    return session.execute(query).first() is not None


def _advance(session: Session, replay_id: int, now: datetime) -> bool:
    """Queue the next chunk of a replay, if its source has no other run in the lane.

    Returns whether the replay has ended.
    """
    row = session.execute(
        sa.select(replays).where(replays.c.id == replay_id).with_for_update()
    ).one()
    if row.state != ReplayState.RUNNING:
        return False
    found = _list_chunk_runs(session, replay_id)
    if any(run.ended_at is None for run in found):
        return False
    done = {run.chunk for run in found if run.state in DONE}
    bad = [run for run in found if run.id > row.after_run and run.state not in DONE]
    if bad:
        state = ReplayState.CANCELLED if bad[-1].state is RunState.CANCELLED else ReplayState.FAILED
        error = {"error_code": bad[-1].error_code, "error": bad[-1].error}
        _change(session, replay_id, state=state, ended_at=now, **error)
        note_replay(session, found, state.value, error, now)
        return True
    missing = [number for number in range(row.chunks) if number not in done]
    if not missing:
        _change(session, replay_id, state=ReplayState.FINISHED, ended_at=now)
        note_replay(session, found, ReplayState.FINISHED.value, {}, now)
        return True
    parameters = ReplayParameters.model_validate(row.parameters)
    chunk = cut_into_chunks(parameters, row.chunk_seconds)[missing[0]]
    trigger = REBUILD if parameters.settings else "replay"
    made = make_row(row.source_id, Kind.REPLAY, now, trigger=trigger, actor=row.actor)
    made |= {"parameters": chunk.model_dump(mode="json"), "replay_id": replay_id}
    # If another run has the lane, this is tried again when it has ended.
    insert_if_absent(session, runs, [{**made, "chunk": missing[0]}])
    return False


def get_replay(session: Session, replay_id: int, *, lock: bool = False) -> Replay:
    """The replay with an id; raises NotFound. With `lock`, others wait to change it."""
    if lock:
        session.execute(sa.select(replays.c.id).where(replays.c.id == replay_id).with_for_update())
    for one in _read(session, _REPLAYS.where(replays.c.id == replay_id)):
        return one
    raise NotFound(f"replay is {replay_id}: the workspace has no such replay")


def list_replays(
    session: Session, source: str = "", *, before: int | None = None, limit: int = 100
) -> list[Replay]:
    """The newest replays of a source, or of all; `before` is the last id of the page before."""
    query = _REPLAYS.order_by(replays.c.id.desc()).limit(limit)
    if source:
        query = query.where(replays.c.source_id == get_source(session, source).id)
    if before is not None:
        query = query.where(replays.c.id < before)
    return _read(session, query)


_REPLAYS = sa.select(replays, sources.c.slug.label("source")).join(
    sources, sources.c.id == replays.c.source_id
)


def _read(session: Session, query: sa.Select[Any]) -> list[Replay]:
    rows = session.execute(query).all()
    return [_to_value(session, row) for row in rows]


def _to_value(session: Session, row: sa.Row[Any]) -> Replay:
    found = _list_chunk_runs(session, row.id)
    plan = get_run(session, row.plan_run) if row.plan_run else None
    working = [run.id for run in (*found, *([plan] if plan else [])) if run.ended_at is None]
    values = {name: value for name, value in row._asdict().items() if name != "after_run"}
    return Replay(
        **values,
        chunks_done=len({run.chunk for run in found if run.state in DONE}),
        active_run=working[0] if working else None,
        plan=plan.plan if plan else None,
    )


def _list_chunk_runs(session: Session, replay_id: int) -> Sequence[Run]:
    query = sa.select(runs).where(runs.c.replay_id == replay_id, runs.c.chunk.is_not(None))
    return [to_run(row) for row in session.execute(query.order_by(runs.c.id))]


def _change(session: Session, replay_id: int, **values: Any) -> None:
    session.execute(replays.update().where(replays.c.id == replay_id).values(values))
