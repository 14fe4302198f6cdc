"""The scheduler as a loop of a server: waits for the lease, then ticks while it has it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database
from eventlake.control.leases import RENEW_EVERY, Lease, release_lease, take_lease
from eventlake.control.scheduler import LEASE, Tick, tick
from eventlake.control.tables import schedules
from eventlake.errors import Unavailable

POLL = timedelta(seconds=1)
"""How late a change of a schedule is seen."""


@dataclass
class SchedulerLoop:
    """Schedules while this server has the lease; call `step` about once a second."""

    database: Database
    holder: str
    """The server's name, which no other has."""
    clock: Clock = SYSTEM_CLOCK
    is_alone: bool = False
    """Whether no other server can use the database, as with SQLite."""
    lease: Lease | None = None
    on_tick: Callable[[Tick], None] = lambda _: None
    """Called with what each tick did."""
    _renewed: float = field(default=0.0, init=False)

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Step until `is_ended`, then let another server have the lease.

        While the database does not answer, it is asked again.
        """
        while not is_ended():
            try:
                self.step()
            except Unavailable:
                self.lease = None
            self.clock.sleep(POLL.total_seconds())
        if self.lease:
            release_lease(self.database, self.lease)

    def step(self) -> Tick | None:
        """Take the lease if nobody has it; with it, tick if a slot is due or it has to be renewed.

        Returns what the tick did, if there was one.
        """
        if self.lease is None:
            self.lease = take_lease(self.database, LEASE, self.holder, is_alone=self.is_alone)
            if self.lease is None:
                return None
        elif not self._is_due():
            return None
        self._renewed = self.clock.monotonic()
        done = tick(self.database, self.clock, self.lease)
        if done is None:
            self.lease = None
        else:
            self.on_tick(done)
        return done

    def _is_due(self) -> bool:
        if self.clock.monotonic() - self._renewed >= RENEW_EVERY.total_seconds():
            return True
        with self.database.read() as session:  # it writes nothing, unlike a tick
            query = sa.select(sa.func.min(schedules.c.next_slot))
            next_slot: datetime | None = session.execute(query).scalar()
        return next_slot is not None and next_slot <= self.clock.now()
