"""The queue of runs: which start next, and whose worker is gone."""

import socket
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Database, Session
from eventlake.control.lakes import LOCAL
from eventlake.control.run_kinds import PLAN_LANE, REBUILD
from eventlake.control.runs import Run, RunState, to_run
from eventlake.control.tables import IS_ACTIVE, LOCK_ORDER, connections, lakes, runs

TIME_TO_LIVE = timedelta(seconds=60)
"""How long a run counts as alive after its worker has renewed its lease."""
MAX_WAIT = timedelta(minutes=10)
"""After this, a queued run comes before all others, whatever they are."""
_RUNNING = (RunState.RUNNING, RunState.CANCELLING)


class Limits(NamedTuple):
    """How many runs may run at the same time."""

    total: int = 8
    local: int = 1
    per_cluster: int = 4
    plans: int = 2
    """Dry runs, which count nowhere else: they take little."""


class Entry(NamedTuple):
    """An active run, as far as the choice of the next ones needs it."""

    id: int
    source_id: str
    lane: str
    trigger: str
    state: str
    since: datetime
    """Its slot or, without one, when it was requested; for another attempt, when that is due."""
    is_due: bool
    runner: str

    @property
    def place(self) -> str:
        """Where it runs, as far as limits are concerned."""
        return PLAN_LANE if self.lane == PLAN_LANE else self.runner


_ENTRIES = (
    sa.select(
        *(runs.c[name] for name in ("id", "source_id", "lane", "trigger", "state")),
        sa.func.coalesce(runs.c.not_before, runs.c.slot, runs.c.created_at),
        sa.or_(runs.c.not_before.is_(None), runs.c.not_before <= sa.bindparam("now")),
        lakes.c.runner,
    )
    .join(connections, connections.c.source_id == runs.c.source_id)
    .join(lakes, lakes.c.id == connections.c.lake_id)
    .where(IS_ACTIVE)
    .order_by(*LOCK_ORDER)
)
_LOCKED_ENTRIES = _ENTRIES.with_for_update(of=runs)
"""Others cannot start these runs before this transaction ends."""


def owner_name(pid: int) -> str:
    """The name of a process of this machine as the owner of runs."""
    return f"{socket.gethostname()}:{pid}"


def start_runs(
    database: Database, session: Session, owner: str, now: datetime, limits: Limits
) -> list[Run]:
    """Start the queued runs whose turn it is: `owner` runs them, and has a lease on each."""
    chosen = choose_runs(_read_entries(session, _LOCKED_ENTRIES, now), now, limits)
    return _start(database, session, owner, now, chosen)


def start_next(
    database: Database, session: Session, owner: str, now: datetime, limits: Limits
) -> Run | None:
    """Start the queued run whose turn it is, as `start_runs`; None if none can start."""
    chosen = choose_runs(_read_entries(session, _LOCKED_ENTRIES, now), now, limits)
    return next(iter(_start(database, session, owner, now, chosen[:1])), None)


def count_ready(session: Session, now: datetime, limits: Limits) -> int:
    """How many of the queued runs can start now."""
    return len(choose_runs(_read_entries(session, _ENTRIES, now), now, limits))


def _start(
    database: Database, session: Session, owner: str, now: datetime, chosen: Sequence[Entry]
) -> list[Run]:
    if not chosen:
        return []
    values = {
        "state": RunState.RUNNING,
        "owner": owner,
        "started_at": now,
        "lease_until": database.clock_of(session) + TIME_TO_LIVE,
    }
    ids = [entry.id for entry in chosen]
    started = session.execute(
        runs.update()
        .where(runs.c.id.in_(ids), runs.c.state == RunState.QUEUED)
        .values(values)
        .returning(runs)
    )
    return sorted((to_run(row) for row in started), key=lambda run: ids.index(run.id))


def choose_runs(entries: Sequence[Entry], now: datetime, limits: Limits) -> list[Entry]:
    """The queued runs that can start now, in order, within the limits.

    An erasure begins when neither a replay nor a sync of its source runs. While it waits, none of
    these begins; while it runs, no replay does. A rebuild begins when no sync of its source runs,
    and none begins before it has ended.
    """
    busy = [entry for entry in entries if entry.state != RunState.QUEUED]
    erasures = {entry.source_id for entry in entries if entry.lane == "erasure"}
    erasing = {entry.source_id for entry in busy if entry.lane == "erasure"}
    lanes = {(entry.source_id, entry.lane) for entry in busy}
    rebuilt = {
        entry.source_id
        for entry in entries
        if entry.trigger == REBUILD and (entry.is_due or entry.state != RunState.QUEUED)
    }
    per_runner = Counter(entry.place for entry in busy)
    chosen: list[Entry] = []
    queued = [entry for entry in entries if entry.state == RunState.QUEUED and entry.is_due]
    for entry in sorted(queued, key=lambda one: _order(one, now)):
        source = entry.source_id
        blocked = {
            "erasure": bool({(source, "sync"), (source, "replay")} & lanes),
            "replay": source in erasures
            or (entry.trigger == REBUILD and (source, "sync") in lanes),
            "sync": source in (erasures - erasing) | rebuilt,
        }
        running = per_runner.total() - per_runner[PLAN_LANE]
        is_full = per_runner[entry.place] >= _limit(entry.place, limits)
        if entry.place != PLAN_LANE:
            is_full = is_full or running >= limits.total
        if is_full or blocked.get(entry.lane):
            continue
        chosen.append(entry)
        per_runner[entry.place] += 1
        lanes.add((source, entry.lane))
    return chosen


def _limit(place: str, limits: Limits) -> int:
    return {PLAN_LANE: limits.plans, LOCAL: limits.local}.get(place, limits.per_cluster)


def _order(entry: Entry, now: datetime) -> tuple[int, datetime, int]:
    """Those that waited long, then manual ones, then the oldest slots, then replays."""
    if now - entry.since > MAX_WAIT:
        return (0, entry.since, entry.id)
    if entry.lane == "replay":
        return (3, entry.since, entry.id)
    return (1 if entry.trigger == "manual" else 2, entry.since, entry.id)


def renew_run(database: Database, session: Session, run: Run, **values: Any) -> RunState | None:
    """Prolong the lease of a run's attempt; None if it is no longer its owner's.

    `values` are other columns to set. The state tells the worker whether it should cancel.
    """
    state = session.execute(
        runs.update()
        .where(
            runs.c.id == run.id,
            runs.c.owner == run.owner,
            runs.c.attempt == run.attempt,
            runs.c.state.in_(_RUNNING),
        )
        .values(lease_until=database.clock_of(session) + TIME_TO_LIVE, **values)
        .returning(runs.c.state)
    ).scalar()
    return RunState(state) if state else None


def take_over(database: Database, session: Session, run: Run, owner: str) -> Run | None:
    """Give a run whose worker is gone to another process; None if it is another's by now."""
    row = session.execute(
        runs.update()
        .where(
            runs.c.id == run.id,
            runs.c.owner == run.owner,
            runs.c.attempt == run.attempt,
            runs.c.state.in_(_RUNNING),
        )
        .values(owner=owner, lease_until=database.clock_of(session) + TIME_TO_LIVE)
        .returning(runs)
    ).first()
    return to_run(row) if row else None


def find_lost(database: Database, session: Session) -> list[Run]:
    """The runs whose lease has ended; the lake decides how each of them ended."""
    query = sa.select(runs).where(
        IS_ACTIVE,
        runs.c.lease_until < database.clock_of(session),
    )
    return [to_run(row) for row in session.execute(query)]


def list_running(session: Session) -> list[Run]:
    """The runs that a worker has."""
    query = sa.select(runs).where(IS_ACTIVE, runs.c.state.in_(_RUNNING))
    return [to_run(row) for row in session.execute(query)]


def _read_entries(session: Session, query: sa.Select[Any], now: datetime) -> list[Entry]:
    """All active runs."""
    return [Entry._make(row) for row in session.execute(query, {"now": now})]
