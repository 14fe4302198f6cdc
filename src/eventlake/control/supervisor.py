"""The supervisor, a loop of a server: starts workers, and has runs judged whose worker is gone."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database
from eventlake.control.endings import cancel_overdue
from eventlake.control.queue import Limits, count_ready, find_lost, list_running, owner_name
from eventlake.control.replays import advance_replays, has_running_replays
from eventlake.control.runs import Run
from eventlake.errors import InsufficientPermissions, Unavailable
from eventlake.runners.local import log_folder

DATABASE_VARIABLE = "EVENTLAKE_DATABASE"
"""The environment variable with the database of a worker; a URL may have a password."""
LOG = "workers.log"
POLL_SECONDS = 0.5
OVERDUE_SECONDS = 10.0
"""How often runs that take too long are looked for."""
PAUSE_SECONDS = 5.0
"""No process is started for so long after one has failed."""

Process = subprocess.Popen[bytes]


@dataclass
class Supervisor:
    """Starts a worker for each queued run that can start and for which no worker is idle.

    Before that, it queues the next chunks of replays.

    Workers are the leaders of their own sessions: their runs go on if the server ends.
    """

    database: Database
    url: str
    """That of the database."""
    key_file: Path
    clock: Clock = SYSTEM_CLOCK
    _workers: list[Process] = field(default_factory=list, init=False)
    _judges: dict[int, Process] = field(default_factory=dict, init=False)
    """By run."""
    _gone: set[str] = field(default_factory=set, init=False)
    """The names of processes that have ended, and that still have a run."""
    _pause_until: float = field(default=0.0, init=False)
    _overdue_at: float = field(default=0.0, init=False)

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Step until `is_ended`. While the database does not answer, it is asked again."""
        while not is_ended():
            try:
                self.step()
            except Unavailable:
                self._pause_until = self.clock.monotonic() + PAUSE_SECONDS
            self.clock.sleep(POLL_SECONDS)

    def step(self) -> None:
        """Start the processes that are needed now, and cancel runs that take too long."""
        self._reap()
        self._advance()
        with self.database.read() as session:
            running = list_running(session)
            lost = find_lost(self.database, session)
            ready = count_ready(session, self.clock.now(), Limits())
        self._gone &= {run.owner for run in running}  # process ids are used again
        if self.clock.monotonic() >= self._pause_until:
            self._start_judges(lost + [run for run in running if run.owner in self._gone])
            workers = {owner_name(one.pid) for one in self._workers}
            idle = len(workers - {run.owner for run in running})
            for _ in range(ready - idle):
                self._workers.append(self._start("work"))
        if self.clock.monotonic() >= self._overdue_at:
            self._overdue_at = self.clock.monotonic() + OVERDUE_SECONDS
            with self.database.write() as session:
                cancel_overdue(session, self.clock.now())

    def _advance(self) -> None:
        """Queue the next chunks of replays."""
        with self.database.read() as session:
            has_replays = has_running_replays(session)
        if has_replays:
            with self.database.write() as session:
                advance_replays(session, self.clock.now())

    def _start_judges(self, lost: Sequence[Run]) -> None:
        for run in lost:
            if run.id not in self._judges:
                self._judges[run.id] = self._start("judge", str(run.id))

    def _reap(self) -> None:
        """Forget the processes that have ended, but for their names."""
        ended = [one for one in self._workers if one.poll() is not None]
        self._workers = [one for one in self._workers if one not in ended]
        ended += [one for one in self._judges.values() if one.poll() is not None]
        self._gone |= {owner_name(one.pid) for one in ended}
        self._judges = {run: one for run, one in self._judges.items() if one not in ended}
        for one in ended:
            if one.returncode:
                self._pause_until = self.clock.monotonic() + PAUSE_SECONDS
                status, log = one.returncode, log_folder() / LOG
                sys.stderr.write(f"warning: a worker ended with status {status}: see {log}\n")

    def _start(self, *arguments: str) -> Process:
        """Start a process of the package `worker`."""
        module = ("-P", "-m", "eventlake.worker")
        try:
            with (log_folder() / LOG).open("ab") as log:
                return subprocess.Popen(
                    [sys.executable, *module, str(self.key_file), *arguments],
                    env={**os.environ, DATABASE_VARIABLE: self.url},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as problem:
            raise InsufficientPermissions(f"cannot start a worker: {problem}") from problem
