"""The process that executes runs: it takes them from the queue, one at a time.

It keeps its Spark session for further runs of the same lake, and ends when it was idle for some
time, after some runs, or when the server that started it is gone. A run that has begun goes on.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.database import Database, open_database
from eventlake.control.endings import end_runs
from eventlake.control.erasures import read_users, store_tied_ids
from eventlake.control.queue import Limits, count_ready, owner_name, start_next, take_over
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState, get_run
from eventlake.control.supervisor import DATABASE_VARIABLE
from eventlake.control.vault import Vault, open_vault
from eventlake.errors import Cancelled, EventLakeError, Unavailable
from eventlake.worker.execution import execute, fail, judge, make_hooks, read_task
from eventlake.worker.keeper import Keeper
from eventlake.worker.kinds import Task

IDLE_SECONDS = 120.0
MAX_RUNS = 50
POLL_SECONDS = 0.5
JUDGE_SECONDS = 2.0


@dataclass
class Worker:
    """Takes runs from the queue and executes them."""

    database: Database
    vault: Vault
    arguments: Sequence[str]
    """Those of this process, without the run with which it begins."""
    owner: str = field(default_factory=lambda: owner_name(os.getpid()))
    parent: int = field(default_factory=os.getppid)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    """That of the process without the secrets of lakes."""
    place: tuple[str, int] | None = None
    """The lake of the runs so far."""

    def work(self, run: Run | None) -> None:
        """Execute a run that this worker has taken, and those of the queue after it."""
        count, until = 0, SYSTEM_CLOCK.monotonic() + IDLE_SECONDS
        while count < MAX_RUNS and SYSTEM_CLOCK.monotonic() < until:
            if run is None and os.getppid() != self.parent:
                return
            if run := run or self._take():
                if not self._execute(run):
                    return  # Spark may still work for a run that was cancelled
                run, count, until = None, count + 1, SYSTEM_CLOCK.monotonic() + IDLE_SECONDS
            else:
                SYSTEM_CLOCK.sleep(POLL_SECONDS)

    def _take(self) -> Run | None:
        now = SYSTEM_CLOCK.now()
        with self.database.read() as session:  # so that others can write while this one is idle
            if not count_ready(session, now, Limits()):
                return None
        with self.database.write() as session:
            return start_next(self.database, session, self.owner, now, Limits())

    def _execute(self, run: Run) -> bool:
        """Execute a run to its end, and return whether it went well.

        Raises Unavailable if it goes on elsewhere: then the supervisor has it judged.
        """
        with Keeper(self.database, run) as keeper:
            try:
                outcome = self._work(run, keeper)
            except EventLakeError as problem:
                with self.database.read() as session:
                    if get_run(session, run.id).lake_run:
                        raise  # only the lake knows how it ended
                outcome = fail(problem)
            keeper.stop()
            if outcome is None:
                raise Unavailable(f"run {run.id} goes on elsewhere")
            end_run(self.database, run, outcome)
        return outcome.state is not RunState.FAILED

    def _work(self, run: Run, keeper: Keeper) -> Outcome | None:
        task = self._read(run)
        hooks = make_hooks(task, keeper, keeper.store_plan, keeper.store_handle)
        store_ids = partial(self._store_ids, run)
        return execute(task, hooks._replace(store_ids=store_ids), partial(self._reload, run))

    def _reload(self, run: Run) -> Run:
        with self.database.read() as session:
            return get_run(session, run.id)

    def _store_ids(self, run: Run, ids: tuple[str, ...]) -> tuple[str, ...]:
        with self.database.write() as session:
            store_tied_ids(session, run, ids, self.vault)
        with self.database.read() as session:
            return read_users(session, run, self.vault).ids

    def _read(self, run: Run) -> Task:
        """The task of a run. For another lake than before, this process is replaced by a new one:
        Spark's processes have the secrets of the lake for which they were started.
        """
        with self.database.read() as session:
            task = read_task(session, run, self.vault)
        if self.place not in (None, task.place):
            command = [sys.executable, *self.arguments, str(run.id)]
            os.execve(command[0], command, self.environment)  # noqa: S606 - there is no shell
        self.place = task.place
        return task


def end_run(database: Database, run: Run, outcome: Outcome) -> None:
    """End a run's attempt; nothing happens if it has ended already."""
    with database.write() as session:
        end_runs(session, {(run.id, run.attempt): outcome}, SYSTEM_CLOCK.now())


def judge_lost(database: Database, vault: Vault, run: Run) -> None:
    """End a run whose worker is gone as the lake says; follow a job that runs on a cluster.

    This process then owns the run, and does what its worker would: it renews the lease, stores
    the progress, and cancels the job if the run is cancelled.
    """
    parent, before = os.getppid(), run.owner
    with database.write() as session:
        taken = take_over(database, session, run, owner_name(os.getpid()))
    if taken is None:
        return
    with Keeper(database, taken) as keeper:
        while os.getppid() == parent:
            try:
                with database.read() as session:
                    # The stage of a job that waits has the lease of the process before.
                    task = read_task(session, taken.model_copy(update={"owner": before}), vault)
                outcome = judge(task, progress=keeper)
            except Cancelled:
                continue
            except Unavailable:
                outcome = None
            except EventLakeError as problem:
                outcome = fail(problem)
            if outcome:
                keeper.stop()
                end_run(database, taken, outcome)
                return
            SYSTEM_CLOCK.sleep(JUDGE_SECONDS)


def main(key_file: str, action: str, run_id: str = "") -> int:
    """Work, or judge the run that is given; return the exit status.

    Errors that are not of a run go to stderr, which is a log of the server.
    """
    database = open_database(os.environ[DATABASE_VARIABLE])
    try:
        vault = open_vault(Path(key_file))
        run = None
        if run_id:
            with database.read() as session:
                run = get_run(session, int(run_id))
        if run and action == "judge":
            judge_lost(database, vault, run)
        else:
            arguments = ("-P", "-m", "eventlake.worker", key_file, "work")
            Worker(database, vault, arguments).work(run)
    except (EventLakeError, Cancelled) as problem:
        sys.stderr.write(f"{problem} ({problem.code})\n")
        return 1
    finally:
        database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
