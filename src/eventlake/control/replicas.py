"""The servers on one database: each writes a row about itself every ten seconds."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database, Session, insert_if_absent
from eventlake.control.leases import RENEW_EVERY, TIME_TO_LIVE
from eventlake.control.tables import leases, replicas
from eventlake.errors import Unavailable
from eventlake.model.values import FrozenModel

POLL_SECONDS = 1.0
SHOWN_FOR = timedelta(days=1)
"""How long a server that has vanished is listed."""


class Replica(FrozenModel):
    """A server."""

    name: str
    """Its host and the number of its process."""
    parts: tuple[str, ...]
    version: str
    started_at: datetime
    seen_at: datetime
    is_alive: bool
    leads: tuple[str, ...]
    """What it alone does now: `scheduler` and `monitor`."""


@dataclass
class Heartbeat:
    """Keeps the row of a server up to date; a loop of every server."""

    database: Database
    name: str
    parts: Sequence[str]
    version: str
    clock: Clock = SYSTEM_CLOCK
    _is_new: bool = True
    """Whether it has not beaten yet."""

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Beat every ten seconds until `is_ended`, then remove the row."""
        due = self.clock.monotonic()
        while not is_ended():
            if self.clock.monotonic() >= due:
                with suppress(Unavailable):  # the next one may work
                    self.beat()
                due = self.clock.monotonic() + RENEW_EVERY.total_seconds()
            self.clock.sleep(POLL_SECONDS)
        with suppress(Unavailable):  # others see that it has vanished
            self.leave()

    def beat(self) -> None:
        """Say that this server is alive; remove those that were not seen for a day."""
        with self.database.write() as session:
            now = self.database.clock_of(session)
            values = {"parts": sorted(self.parts), "version": self.version, "seen_at": now}
            row = {"name": self.name, **values, "started_at": now}
            if self._is_new:  # a server with this name may have died
                session.execute(replicas.delete().where(replicas.c.name == self.name))
            if not insert_if_absent(session, replicas, [row]):
                is_it = replicas.c.name == self.name
                session.execute(replicas.update().where(is_it).values(values))
            session.execute(replicas.delete().where(replicas.c.seen_at < now - SHOWN_FOR))
        self._is_new = False

    def leave(self) -> None:
        """Remove the row of this server."""
        with self.database.write() as session:
            session.execute(replicas.delete().where(replicas.c.name == self.name))


def list_replicas(database: Database, session: Session) -> list[Replica]:
    """The servers of the last day, oldest first."""
    now = database.clock_of(session)
    held = session.execute(sa.select(leases).where(leases.c.until >= now).order_by(leases.c.name))
    leads: dict[str, list[str]] = {}
    for lease in held:
        leads.setdefault(lease.holder, []).append(lease.name)
    rows = session.execute(sa.select(replicas).order_by(replicas.c.started_at, replicas.c.name))
    return [_to_value(row, leads.get(row.name, ()), now) for row in rows]


def _to_value(row: sa.Row[Any], leads: Sequence[str], now: datetime) -> Replica:
    is_alive = now - row.seen_at <= TIME_TO_LIVE
    return Replica(
        name=row.name,
        parts=tuple(row.parts),
        version=row.version,
        started_at=row.started_at,
        seen_at=row.seen_at,
        is_alive=is_alive,
        leads=tuple(leads) if is_alive else (),
    )
