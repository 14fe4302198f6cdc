"""A workspace in a database, with a scheduler and runs that end as a test says."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control import schedules, tables
from eventlake.control.connections import connect
from eventlake.control.database import Database
from eventlake.control.endings import end_runs
from eventlake.control.lakes import add_lake
from eventlake.control.leases import Lease, take_lease
from eventlake.control.queue import Limits, start_runs
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunRequest, RunState, list_runs
from eventlake.control.schedule import Schedule
from eventlake.control.scheduler import LEASE, Tick, tick
from eventlake.control.sources import add_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from tests.clocks import SimulatedClock

MANY = Limits(total=10_000, local=10_000, per_cluster=10_000)
KEY = "x" * 43 + "="
PARAMETERS: dict[str, dict[str, Any]] = {
    "replay": {"all_time": True},
    "retype": {"table": "hello", "types": {"n": "string"}},
}
"""Parameters for the kinds that need some."""


def ask_for(source: str, kind: str = "sync", **values: Any) -> RunRequest:
    """A run of a kind, with parameters that are valid."""
    parameters = PARAMETERS.get(kind, {})
    return RunRequest.model_validate(
        {"source": source, "kind": kind, "parameters": parameters, **values}
    )


@dataclass
class World:
    """Sources in one lake on disk; `clock` is the wall clock of the server."""

    database: Database
    clock: SimulatedClock
    lease: Lease = field(init=False)

    def __post_init__(self) -> None:
        now = self.clock.now()
        with self.database.write() as session:
            ensure_workspace(session, now)
            add_lake(session, "main", "local", {"path": "/lake"}, Vault([KEY]), now)
        self.lease = self.take_lease("first")

    def take_lease(self, holder: str) -> Lease:
        lease = take_lease(self.database, LEASE, holder)
        assert lease
        return lease

    def add(self, slug: str, schedule: Schedule | None = None) -> None:
        """Add a source that is enabled, with the default schedule if none is given."""
        now = self.clock.now()
        with self.database.write() as session:
            add_source(session, slug, now, source_id=f"id-{slug}")
            connect(session, slug, "main", {}, now)
            if schedule:
                schedules.set_schedule(session, slug, schedule, now, 1)
            schedules.enable(session, slug, now)

    def tick(self) -> Tick:
        done = tick(self.database, self.clock, self.lease)
        assert done
        return done

    def start(self, limits: Limits = MANY) -> list[Run]:
        with self.database.write() as session:
            return start_runs(self.database, session, "worker", self.clock.now(), limits)

    def end(self, run: Run, state: str = "finished", code: str = "", error: str = "") -> Run | None:
        """End an attempt; return the run, or None if the attempt had ended before."""
        outcome = Outcome(state=RunState(state), error_code=code, error=error)
        with self.database.write() as session:
            ended = end_runs(session, {(run.id, run.attempt): outcome}, self.clock.now())
        return ended[0] if ended else None

    def sync(self, state: str = "finished", code: str = "") -> Run:
        """Claim what is due, and run the one sync of it to its end."""
        self.tick()
        [run] = self.start()
        ended = self.end(run, state, code)
        assert ended
        return ended

    def runs(self, source: str = "") -> list[Run]:
        """The runs, oldest first."""
        with self.database.read() as session:
            return list_runs(session, source, limit=1_000_000)[::-1]

    def shown(self, source: str = "") -> list[tuple[str, str, int]]:
        """State, slot and coalesced slots of each run, oldest first."""
        return [(run.state.value, _time(run.slot), run.coalesced) for run in self.runs(source)]

    def read(self, table: sa.Table) -> list[dict[str, Any]]:
        with self.database.read() as session:
            rows: Iterable[sa.Row[Any]] = session.execute(sa.select(table))
            return [row._asdict() for row in rows]

    def events(self) -> list[tuple[str, str]]:
        """Event and key of each notice."""
        return [(row["event"], row["key"]) for row in self.read(tables.notices)]


def _time(slot: datetime | None) -> str:
    return f"{slot:%H:%M}" if slot else ""


class Killed:
    """Kills what the block does in the database before a statement of it, as `kill -9` does."""

    def __init__(self, database: Database, statement: int) -> None:
        self.engine, self.left, self.happened = database.engine, statement, False

    def __enter__(self) -> "Killed":
        sa.event.listen(self.engine, "before_cursor_execute", self._count)
        return self

    def __exit__(self, *_: object) -> bool:
        sa.event.remove(self.engine, "before_cursor_execute", self._count)
        return self.happened

    def _count(self, *_: object) -> None:
        if self.left == 0:
            self.happened = True
            raise KilledError
        self.left -= 1


class KilledError(Exception):
    """A process was killed."""
