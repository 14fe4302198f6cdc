"""A run's stage: its folder, and the lease that shows whether the run is alive."""

import os
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.ledger.commits import Ledger
from eventlake.model.layout import Layout
from eventlake.model.values import FrozenModel


class Lease(FrozenModel):
    """The source that a stage belongs to, and the process that writes it."""

    folder: str
    host: str
    pid: int


NO_PID = 0
"""The pid in the lease of a run that has ended."""
HEARTBEAT = timedelta(seconds=30)
DEAD_AFTER = timedelta(minutes=10)


class Stage:
    """A run's folder; inside the context, a thread renews its lease every `heartbeat`."""

    def __init__(self, ledger: Ledger, run_id: str, heartbeat: timedelta = HEARTBEAT) -> None:
        self._store, self._path = ledger.store, lease_path(ledger.layout, run_id)
        self._lease = Lease(folder=ledger.folder, host=socket.gethostname(), pid=os.getpid())
        self._heartbeat, self._ended = heartbeat, threading.Event()
        self._renewer = threading.Thread(target=self._renew_until_ended, daemon=True)

    def __enter__(self) -> Self:
        self._renew()
        self._renewer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._renewer.join()  # or it could recreate a stage that was removed
        with suppress(EventLakeError):  # the store may be why the run ends
            if self._store.exists(self._path):
                # The process may live on after the run, so say that the run has ended.
                self._lease = self._lease.model_copy(update={"pid": NO_PID})
                self._renew()

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(self._heartbeat.total_seconds()):
            with suppress(EventLakeError):  # the run itself fails with the same error
                self._renew()

    def _renew(self) -> None:
        self._store.write(self._path, self._lease.to_json())


def lease_path(layout: Layout, run_id: str) -> str:
    return f"{layout.stage_path(run_id)}/lease.json"


def remove_stage(ledger: Ledger, run_id: str) -> None:
    """Remove a run's stage, the lease last: without it, the source of a stage is unknown."""
    store, stage = ledger.store, ledger.layout.stage_path(run_id)
    lease = lease_path(ledger.layout, run_id)
    store.delete(sorted(o.path for o in store.objects(stage) if o.path != lease))
    store.delete([lease])
    store.remove_folder(stage)


def list_staged_runs(ledger: Ledger) -> list[str]:
    """List the runs of a source that have a stage, and runs without a lease of any source."""
    folders, _ = ledger.store.names(ledger.layout.stage)
    leases = {name: read_lease(ledger, name) for name in folders if name.isdecimal()}
    return [
        run_id for run_id, lease in leases.items() if lease is None or lease.folder == ledger.folder
    ]


def read_lease(ledger: Ledger, run_id: str) -> Lease | None:
    """Read the lease of a stage; None if there is none."""
    try:
        return Lease.from_json(ledger.store.read(lease_path(ledger.layout, run_id)))
    except InvalidSettings:
        return None


def has_ended(ledger: Ledger, run_id: str) -> bool:
    """Whether a run has surely ended: by its lease, or because its process on this host is gone."""
    lease = read_lease(ledger, run_id)
    if lease is None:
        return False
    return lease.pid == NO_PID or (lease.host == socket.gethostname() and not is_running(lease.pid))


def is_dead(ledger: Ledger, run_id: str, now: datetime) -> bool:
    """Whether a run has ended: by its lease, its process on this host, or `DEAD_AFTER`."""
    lease = read_lease(ledger, run_id)
    if lease is None:  # the run may be about to write it
        return now - datetime.fromtimestamp(int(run_id) // 10**9, UTC) > DEAD_AFTER
    if has_ended(ledger, run_id):
        return True
    staged = ledger.store.objects(ledger.layout.stage_path(run_id))
    renewed = max((one.modified for one in staged), default=None)
    return renewed is None or now - renewed > DEAD_AFTER


def is_running(pid: int) -> bool:
    """Whether this machine has a process with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
