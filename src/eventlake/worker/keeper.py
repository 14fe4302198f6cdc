"""Keeps a run alive while it is executed: its lease, its progress, and whether to stop."""

import os
import signal
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.database import Database
from eventlake.control.queue import renew_run
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunState
from eventlake.errors import Cancelled, Conflict, EventLakeError
from eventlake.job import BEFORE_COMMIT, CANCELLED
from eventlake.model.job import Step

BEAT_SECONDS = 2.0
"""How often the lease is renewed, and so how late a cancelled run notices it before its commit."""
COMMIT = BEFORE_COMMIT[-1]
CAN_STOP = (
    *("", "plan", "archive", "start", "submit", "wait", "run", "search", "erase", "verify"),
    *BEFORE_COMMIT[:-1],
)
"""The stages at which nothing has been committed."""
MAX_STAGES = 100


class Keeper:
    """Renews the lease of a run in a thread, and stores the steps that it hears of.

    If the run was cancelled or is no longer its owner's, or at SIGTERM, raises Cancelled in the
    main thread, unless the run may have committed.
    """

    def __init__(self, database: Database, run: Run) -> None:
        self._database, self._run = database, run
        self._step = Step("")
        self._stages: list[dict[str, str]] = []
        self._is_cancelled = self._has_committed = False
        self._has_job = bool(run.handle)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._handler = signal.signal(signal.SIGTERM, self._cancel)
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()
        signal.signal(signal.SIGTERM, self._handler)

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """Remember a step; raise Cancelled if the run was cancelled and can still stop."""
        if self._step.stage == COMMIT and stage not in (COMMIT, *CAN_STOP):
            # A compaction goes on to its next commit, before which it can be cancelled.
            self._has_committed = self._run.kind != Kind.COMPACT
        is_new = stage != self._step.stage
        if is_new and len(self._stages) < MAX_STAGES:
            self._stages.append({"stage": stage, "at": SYSTEM_CLOCK.now().isoformat()})
        self._step = Step(stage, done, total, rows)
        # The commit of a job on a cluster may have been made when its step is reported here.
        may_have_committed = self._has_job or self._has_committed
        is_before_commit = stage == COMMIT and is_new and not may_have_committed
        if is_before_commit:
            self._look_for_cancel()
        if self._is_cancelled and (self._can_stop or is_before_commit):
            raise Cancelled(CANCELLED)

    def _look_for_cancel(self) -> None:
        """Ask the database whether the run was cancelled since the last beat."""
        with suppress(EventLakeError), self._database.write() as session:
            state = renew_run(self._database, session, self._run)
            self._is_cancelled = self._is_cancelled or state is not RunState.RUNNING

    @property
    def _can_stop(self) -> bool:
        is_open = not self._ended.is_set() and not self._has_committed
        return is_open and self._step.stage in CAN_STOP

    def store_plan(self, lake_run: str) -> None:
        """Store the lake's id of the run; raises Conflict if the run is no longer its owner's."""
        self._store(lake_run=lake_run)

    def store_handle(self, handle: str) -> None:
        """Store the cluster's id of the run's job; raises as `store_plan`."""
        self._has_job = True
        self._store(handle=handle)

    def _store(self, **values: str) -> None:
        with self._database.write() as session:
            if renew_run(self._database, session, self._run, **values) is None:
                raise Conflict("another process has taken this run over")

    def stop(self) -> None:
        """Let the run go on to its end, whatever is asked of it from now on."""
        if not self._ended.is_set():
            self._ended.set()
            with suppress(EventLakeError), self._database.write() as session:
                renew_run(self._database, session, self._run, stages=list(self._stages))

    def _keep(self) -> None:
        asked = False
        while not self._ended.wait(BEAT_SECONDS):
            try:
                shown: dict[str, Any] = (
                    {"progress": self._step._asdict()} if self._step.stage else {}
                )
                shown |= {"stages": list(self._stages)} if self._stages else {}
                with self._database.write() as session:
                    state = renew_run(self._database, session, self._run, **shown)
            except EventLakeError:  # the database is asked again until it answers
                continue
            if state is not RunState.RUNNING and not asked:
                asked = True
                os.kill(os.getpid(), signal.SIGTERM)

    def _cancel(self, *_: object) -> None:
        first, self._is_cancelled = not self._is_cancelled, True
        if first and self._can_stop:
            raise Cancelled(CANCELLED)
