"""A run's stage: its folder, and the lease that says whether the run still lives."""

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
    """Says whose a stage is, and where its process runs."""

    folder: str
    host: str
    pid: int


NOBODY = 0
HEARTBEAT = timedelta(seconds=30)
DEAD_AFTER = timedelta(minutes=10)


class Stage:
    """A run's own folder, with a lease that is renewed while the run lives."""

    def __init__(self, store: Store, folder: str, run_id: str) -> None:
        self.store, self.run_id, self.path = store, run_id, stage_path(run_id)
        self._lease = Lease(folder=folder, host=socket.gethostname(), pid=os.getpid())
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._renew()
        self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._heart.join()  # or a last beat would bring back a stage that was removed
        with suppress(EventLakeError):  # what ends the run may be that the store is gone
            if self.store.exists(lease_path(self.run_id)):
                # The process may live on, but this run does not: whoever comes next may take over.
                self._lease = self._lease.model_copy(update={"pid": NOBODY})
                self._renew()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT.total_seconds()):
            with suppress(EventLakeError):  # the run itself will meet what is wrong, and tell
                self._renew()

    def _renew(self) -> None:
        self.store.write(lease_path(self.run_id), self._lease.to_json())


def lease_path(run_id: str) -> str:
    return f"{stage_path(run_id)}/lease.json"


def remove_stage(store: Store, run_id: str) -> None:
    """Remove a run's stage, the lease last: while it is there, the stage is accounted for."""
    lease = lease_path(run_id)
    store.delete(sorted(o.path for o in store.objects(stage_path(run_id)) if o.path != lease))
    store.delete([lease])
    store.remove_folder(stage_path(run_id))


def staged_runs(store: Store, folder: str) -> list[str]:
    """The runs of a source whose stage is there, also those without a lease."""
    folders, _ = store.names(STAGE)
    runs = [name for name in folders if name.isdecimal()]
    return [run for run in runs if _folder_of(store, run) in (folder, None)]


def _folder_of(store: Store, run_id: str) -> str | None:
    lease = read_lease(store, run_id)
    return lease.folder if lease else None


def read_lease(store: Store, run_id: str) -> Lease | None:
    try:
        return Lease.from_json(store.read(lease_path(run_id)))
    except InvalidSettings:  # there is none, or none any more
        return None


def is_dead(store: Store, run_id: str) -> bool:
    """Whether a run's process is gone for all that can be told from here."""
    lease = read_lease(store, run_id)
    if lease is None:  # it may be about to be written: a run begins with it
        return _age(run_id) > DEAD_AFTER
    if lease.pid == NOBODY:
        return True
    if lease.host == socket.gethostname() and not _is_running(lease.pid):
        return True
    renewed = max((o.modified for o in store.objects(stage_path(run_id))), default=None)
    return renewed is None or datetime.now(UTC) - renewed > DEAD_AFTER


def _age(run_id: str) -> timedelta:
    """How long ago a run was planned; its id says so."""
    return datetime.now(UTC) - datetime.fromtimestamp(int(run_id) // 10**9, UTC)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
