"""Keeps a run alive while it is executed: its lease, its progress, and whether to stop."""

import os
import signal
import threading
from types import TracebackType
from typing import Self

from eventlake.control.database import Database
from eventlake.control.queue import renew_run
from eventlake.control.runs import Run, RunState
from eventlake.errors import Cancelled, Conflict, EventLakeError
from eventlake.job import BEFORE_COMMIT, CANCELLED
from eventlake.model.job import Step

BEAT_SECONDS = 2.0
"""How often the lease is renewed, and so how late a cancelled run notices it."""
CAN_STOP = ("", "plan", "archive", "start", "submit", "wait", "run", *BEFORE_COMMIT[:-1])
"""The stages at which nothing has been committed."""


class Keeper:
    """Renews the lease of a run in a thread, and stores the steps that it hears of.

    If the run was cancelled or is no longer its owner's, or at SIGTERM, raises Cancelled in the
    main thread, unless the run may have committed.
    """

    def __init__(self, database: Database, run: Run) -> None:
        self._database, self._run = database, run
        self._step = Step("")
        self._is_cancelled = False
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
        self._step = Step(stage, done, total, rows)
        if self._is_cancelled and stage in CAN_STOP and not self._ended.is_set():
            raise Cancelled(CANCELLED)

    def store_plan(self, lake_run: str) -> None:
        """Store the lake's id of the run; raises Conflict if the run is no longer its owner's."""
        with self._database.write() as session:
            if renew_run(self._database, session, self._run, lake_run=lake_run) is None:
                raise Conflict("another process has taken this run over")

    def stop(self) -> None:
        """Let the run go on to its end, whatever is asked of it from now on."""
        self._ended.set()

    def _keep(self) -> None:
        asked = False
        while not self._ended.wait(BEAT_SECONDS):
            try:
                progress = self._step._asdict() if self._step.stage else {}
                with self._database.write() as session:
                    state = renew_run(self._database, session, self._run, progress=progress)
            except EventLakeError:  # the database is asked again until it answers
                continue
            if state is not RunState.RUNNING and not asked:
                asked = True
                os.kill(os.getpid(), signal.SIGTERM)

    def _cancel(self, *_: object) -> None:
        first, self._is_cancelled = not self._is_cancelled, True
        if first and self._step.stage in CAN_STOP and not self._ended.is_set():
            raise Cancelled(CANCELLED)
