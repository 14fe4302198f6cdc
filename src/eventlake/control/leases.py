"""Leases: which server may do what only one of them should, by the database's clock.

A lease that ends is taken by another holder under a higher epoch. `renew` in a transaction keeps
others from taking it until that transaction ends, so whoever renews it is alone in doing so.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from eventlake.control.database import Database, Session, insert_if_absent
from eventlake.control.tables import leases
from eventlake.errors import InvalidSettings

TIME_TO_LIVE = timedelta(seconds=30)
RENEW_EVERY = timedelta(seconds=10)


_RENEW = leases.update().where(
    leases.c.name == sa.bindparam("of"), leases.c.epoch == sa.bindparam("held")
)


@dataclass(frozen=True)
class Lease:
    """A lease that a holder has taken."""

    name: str
    holder: str
    epoch: int


def take_lease(
    database: Database, name: str, holder: str, *, is_alone: bool = False
) -> Lease | None:
    """Take a lease that has ended or that nobody had; None if another holder has it.

    `is_alone` takes it in any case, for a server that knows that there is no other.
    """
    with database.write() as session:
        now = database.clock_of(session)
        row = {"name": name, "holder": holder, "epoch": 1, "until": now + TIME_TO_LIVE}
        if insert_if_absent(session, leases, [row]):
            return Lease(name, holder, 1)
        ended = sa.true() if is_alone else leases.c.until < now
        epoch = session.execute(
            leases.update()
            .where(leases.c.name == name, ended)
            .values(holder=holder, epoch=leases.c.epoch + 1, until=now + TIME_TO_LIVE)
            .returning(leases.c.epoch)
        ).scalar()
    return Lease(name, holder, epoch) if epoch else None


def renew_lease(database: Database, session: Session, lease: Lease) -> bool:
    """Prolong a lease within a transaction that writes; False if another holder has taken it."""
    values = {"of": lease.name, "held": lease.epoch}
    until = database.clock_of(session) + TIME_TO_LIVE
    renewed = session.execute(_RENEW, {**values, "until": until})
    return bool(renewed.rowcount)


def release_lease(database: Database, lease: Lease) -> None:
    """End a lease, so that another holder need not wait."""
    with database.write() as session:
        values = {"of": lease.name, "held": lease.epoch}
        session.execute(_RENEW, {**values, "until": database.clock_of(session)})


@contextmanager
def hold_file(path: Path) -> Iterator[None]:
    """Be the only server on a SQLite file until the end of the block, or of the process.

    Raises InvalidSettings with the name of the server that has it.
    """
    lock = path.with_name(f"{path.name}.lock")
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InvalidSettings(
                f"{path} is in use by {file.read().strip() or 'another server'}: stop that first, "
                "or use PostgreSQL for several servers"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
