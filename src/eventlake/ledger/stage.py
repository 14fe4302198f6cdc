"""A run's stage: its folder, and the lease that shows whether the run is alive."""

import os
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.layout import STAGE, stage_path
from eventlake.model.values import FrozenModel
from eventlake.stores import Store


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

    def __init__(
        self, store: Store, folder: str, run_id: str, heartbeat: timedelta = HEARTBEAT
    ) -> None:
        self.store, self.run_id, self.path = store, run_id, stage_path(run_id)
        self._lease = Lease(folder=folder, host=socket.gethostname(), pid=os.getpid())
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
            if self.store.exists(lease_path(self.run_id)):
                # The process may live on after the run, so say that the run has ended.
                self._lease = self._lease.model_copy(update={"pid": NO_PID})
                self._renew()

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(self._heartbeat.total_seconds()):
            with suppress(EventLakeError):  # the run itself fails with the same error
                self._renew()

    def _renew(self) -> None:
        self.store.write(lease_path(self.run_id), self._lease.to_json())


def lease_path(run_id: str) -> str:
    return f"{stage_path(run_id)}/lease.json"


def remove_stage(store: Store, run_id: str) -> None:
    """Remove a run's stage, the lease last: without it, the source of a stage is unknown."""
    lease = lease_path(run_id)
    store.delete(sorted(o.path for o in store.objects(stage_path(run_id)) if o.path != lease))
    store.delete([lease])
    store.remove_folder(stage_path(run_id))


def list_staged_runs(store: Store, folder: str) -> list[str]:
    """List the runs of a source that have a stage, and runs without a lease of any source."""
    folders, _ = store.names(STAGE)
    runs = [name for name in folders if name.isdecimal()]
    return [run for run in runs if _folder_of(store, run) in (folder, None)]


def _folder_of(store: Store, run_id: str) -> str | None:
    lease = read_lease(store, run_id)
    return lease.folder if lease else None


def read_lease(store: Store, run_id: str) -> Lease | None:
    """Read the lease of a stage; None if there is none."""
    try:
        return Lease.from_json(store.read(lease_path(run_id)))
    except InvalidSettings:
        return None


def is_dead(store: Store, run_id: str) -> bool:
    """Whether a run has ended: by its lease, its process on this host, or `DEAD_AFTER`."""
    lease = read_lease(store, run_id)
    if lease is None:  # the run may be about to write it
        return _age(run_id) > DEAD_AFTER
    if lease.pid == NO_PID:
        return True
    if lease.host == socket.gethostname() and not _is_running(lease.pid):
        return True
    renewed = max((o.modified for o in store.objects(stage_path(run_id))), default=None)
    return renewed is None or datetime.now(UTC) - renewed > DEAD_AFTER


def _age(run_id: str) -> timedelta:
    """The time since a run was planned, by its id."""
    return datetime.now(UTC) - datetime.fromtimestamp(int(run_id) // 10**9, UTC)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
