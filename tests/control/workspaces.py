"""A workspace with a source in a lake on disk, whose runs are executed without Spark."""

import gzip
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.connections import change_connection, connect, get_connection
from eventlake.control.database import Database, open_database
from eventlake.control.erasures import read_users, store_tied_ids
from eventlake.control.lakes import add_lake
from eventlake.control.queue import Limits, owner_name, start_runs
from eventlake.control.runs import Run, RunRequest, cancel_run, get_run, queue_run
from eventlake.control.sources import add_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from eventlake.ports import NoProgress, Progress
from eventlake.services.read import open_lake
from eventlake.worker.__main__ import end_run, judge_lost
from eventlake.worker.execution import execute, make_hooks, read_task
from eventlake.worker.keeper import Keeper
from tests.lakes import InlineRunner

KEY = "x" * 43 + "="
SOURCE_ID = "id-web"
_CHANGES = re.compile("reports|suppression")
MANY = Limits(total=100, local=100, per_cluster=100)


def event(number: int, day: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "type": "track",
        "event": "Order Completed",
        "messageId": f"m{number}",
        "userId": f"u{number % 3}",
        "receivedAt": f"2026-03-{day:02}T08:00:00.000Z",
        "properties": {"n": number},
        **fields,
    }


@dataclass
class Workspace:
    """A source `web` in the lake `main`; runs are executed in the test's process."""

    url: str
    folder: Path
    database: Database
    vault: Vault

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def archive(self, name: str, *events: dict[str, Any] | str) -> None:
        """Put a raw log into the lake's archive."""
        folder = self.lake / "segment-logs" / SOURCE_ID / "1772323200000"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [one if isinstance(one, str) else json.dumps(one) for one in events]
        (folder / f"{name}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))

    def queue(self, kind: str, dry_run: bool = False, **parameters: Any) -> Run:
        request = RunRequest.model_validate(
            {"source": "web", "kind": kind, "parameters": parameters, "dry_run": dry_run}
        )
        with self.database.write() as session:
            return queue_run(session, request, "ada", SYSTEM_CLOCK.now())

    def start(self) -> list[Run]:
        """Give all queued runs that can start to this process."""
        with self.database.write() as session:
            owner = owner_name(os.getpid())
            return start_runs(self.database, session, owner, SYSTEM_CLOCK.now(), MANY)

    def run(self, kind: str, dry_run: bool = False, **parameters: Any) -> Run:
        """Queue a run and execute it to its end."""
        number = self.queue(kind, dry_run, **parameters).id
        self.work()
        return self.show(number)

    def work(self, progress: Progress | None = None) -> list[Run]:
        """Execute what is queued, as a worker does; return the runs as they are then."""
        return [self.execute(run, progress) for run in self.start()]

    def execute(self, run: Run, progress: Progress | None = None) -> Run:
        with Keeper(self.database, run) as keeper:
            with self.database.read() as session:
                task = read_task(session, run, self.vault)
            both = Both(progress or NoProgress(), keeper)
            hooks = make_hooks(task, both, keeper.store_plan, keeper.store_handle)
            hooks = hooks._replace(
                choose_place=lambda: nullcontext(InlineRunner()),
                store_ids=lambda ids: self._store_ids(run, ids),
            )
            outcome = execute(task, hooks, lambda: self.show(run.id))
            keeper.stop()
            assert outcome
            end_run(self.database, run, outcome)
        return self.show(run.id)

    def _store_ids(self, run: Run, ids: tuple[str, ...]) -> tuple[str, ...]:
        with self.database.write() as session:
            store_tied_ids(session, run, ids, self.vault)
        with self.database.read() as session:
            return read_users(session, run, self.vault).ids

    def judge(self, number: int) -> Run:
        """Judge a run whose process is gone."""
        judge_lost(self.database, self.vault, self.show(number))
        return self.show(number)

    def show(self, number: int) -> Run:
        with self.database.read() as session:
            return get_run(session, number)

    def cancel(self, number: int) -> Run:
        with self.database.write() as session:
            return cancel_run(session, number, SYSTEM_CLOCK.now(), "by ada")

    def change_settings(self, **settings: Any) -> None:
        with self.database.write() as session:
            version = get_connection(session, "web").version
            change_connection(session, "web", settings, version)

    def query(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = open_lake(self.lake).query(sql).to_pylist()
        return rows

    def count(self, table: str = "order_completed") -> int:
        (row,) = self.query(f"select count(*) as n from web.{table}")
        rows: int = row["n"]
        return rows

    def verify(self) -> tuple[str, ...]:
        return open_lake(self.lake).verify("web").problems

    def list_objects(self) -> dict[str, bytes]:
        """All files of the lake but reports and the suppression list, with their content."""
        files = (path for path in self.lake.rglob("*") if path.is_file())
        found = {str(path.relative_to(self.lake)): path.read_bytes() for path in files}
        return {path: data for path, data in found.items() if not _CHANGES.search(path)}


@dataclass
class Both:
    """Reports progress to two listeners."""

    first: Progress
    second: Progress

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        self.first.step(stage, done, total, rows)
        self.second.step(stage, done, total, rows)


@dataclass
class AtStage:
    """Does something once, at the first step of a stage."""

    stage: str
    act: Callable[[], object]
    happened: bool = False

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage and not self.happened:
            self.happened = True
            self.act()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work_and_die(url: str, folder: Path, stage: str) -> None:
    """In another process: execute what is queued, and be killed at a stage."""
    with open_workspace(url, folder) as workspace:
        workspace.work(AtStage(stage, die))


@contextmanager
def open_workspace(url: str, folder: Path) -> Iterator[Workspace]:
    database = open_database(url)
    yield Workspace(url, folder, database, Vault([KEY]))
    database.close()


def make_workspace(workspace: Workspace, **settings: Any) -> None:
    """Add the lake and the source."""
    now = SYSTEM_CLOCK.now()
    with workspace.database.write() as session:
        ensure_workspace(session, now)
        place = {"path": str(workspace.lake)}
        add_lake(session, "main", "local", place, workspace.vault, now)
        add_source(session, "web", now, source_id=SOURCE_ID)
        connect(session, "web", "main", {"date_partition": "day", **settings}, now)
