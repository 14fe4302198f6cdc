"""Runs of the control plane on a cluster: followed after their worker was killed, and cancelled."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.connections import connect
from eventlake.control.database import Database, open_database
from eventlake.control.lakes import add_lake
from eventlake.control.queue import Limits, owner_name, start_next
from eventlake.control.runs import Run, cancel_run, get_run, request_run
from eventlake.control.sources import add_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from eventlake.runners import package
from eventlake.runners.emr import EmrRunner
from eventlake.services.read import open_lake
from eventlake.worker.__main__ import Worker, judge_lost
from tests import lakes, processes
from tests.aws.emr import (
    Emr,
    Steps,
    make_cluster,
    steps_of,
    wait_for_step,
    wait_until,
    write_little,
)
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.control.world import KEY


@dataclass
class Plane:
    """A control database with a source in a lake on EMR, and processes that work for it."""

    emr: Emr
    url: str
    database: Database
    run: Run

    def show(self) -> Run:
        with self.database.read() as session:
            return get_run(session, self.run.id)

    def start(self, action: str) -> BaseProcess:
        """A process that executes the run, or one that judges it."""
        return processes.start(work, action, self.url, self.run.id, self.emr.proxy.here.env)

    def cancel(self) -> None:
        with self.database.write() as session:
            cancel_run(session, self.run.id, SYSTEM_CLOCK.now(), "by ada")


def work(action: str, url: str, number: int, env: dict[str, str]) -> None:
    os.environ.update(env)
    EmrRunner.poll_seconds = 0.1
    package.write_environment = write_little
    database, vault = open_database(url), Vault([KEY])
    with database.read() as session:
        run = get_run(session, number)
    if action == "judge":
        judge_lost(database, vault, run)
        return
    owner = owner_name(os.getpid())
    with database.write() as session:
        taken = start_next(database, session, owner, SYSTEM_CLOCK.now(), Limits())
    assert taken
    Worker(database, vault, ())._execute(taken)


@pytest.fixture
def plane(
    aws: Aws, proxy: Proxy, tmp_path: Path, migrated_sqlite: bytes, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Plane]:
    monkeypatch.setattr(package, "write_environment", write_little)
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    steps, vault, now = Steps(), Vault([KEY]), SYSTEM_CLOCK.now()
    with proxy.ruled(steps), ThreadPoolExecutor(1) as pool:
        emr = Emr(aws, proxy, steps, make_cluster(aws), tmp_path, pool)
        for file in lakes.small_sample(tmp_path / "raw"):
            key = f"segment-logs/web/1772323200000/{file.name}"
            aws.client("s3").put_object(Bucket=aws.bucket, Key=key, Body=file.read_bytes())
        database = open_database(str(path))
        with database.write() as session:
            ensure_workspace(session, now)
            values = emr.lake.model_dump(mode="json", exclude_defaults=True)
            add_lake(session, "main", "aws", values, vault, now)
            add_source(session, "web", now, source_id="web")
            connect(session, "web", "main", {}, now)
            run = request_run(session, "web", "sync", "ada", now)
        yield Plane(emr, str(path), database, run)
        database.close()
        for step in steps_of(aws, emr.cluster):
            steps.states.setdefault(step["Id"], "FAILED")


def submit_and_kill(plane: Plane) -> str:
    """Kill the worker when its handle is stored; return the step."""
    worker = plane.start("work")
    wait_until(lambda: bool(plane.show().handle))
    os.kill(int(plane.show().owner.rpartition(":")[2]), signal.SIGKILL)
    assert processes.finish(worker) == -signal.SIGKILL
    return plane.show().handle


def check_landed(plane: Plane) -> None:
    run = plane.show()
    assert (run.state, run.error, run.attempt) == ("finished", "", 1)
    result = open_lake(plane.emr.lake).verify("web")
    assert (result.problems, result.landed > 0) == ((), True)


def test_a_job_is_followed_when_its_worker_and_then_its_judge_are_gone(plane: Plane) -> None:
    handle = submit_and_kill(plane)
    step = wait_for_step(plane.emr.aws, plane.emr.cluster)
    assert step["Id"] == handle
    plane.emr.steps.states[handle] = "PENDING"
    first = plane.start("judge")
    wait_until(lambda: plane.show().progress.get("stage") == "wait")
    assert first.pid
    assert plane.show().owner.endswith(f":{first.pid}")
    os.kill(first.pid, signal.SIGKILL)
    processes.finish(first)
    plane.emr.steps.states[handle] = "RUNNING"
    second = plane.start("judge")
    wait_until(lambda: plane.show().progress.get("stage") == "run")
    assert plane.emr.run(step)[0] == 0
    assert processes.finish(second) == 0
    check_landed(plane)


@pytest.mark.parametrize("worker_is_gone", [True, False])
def test_a_cancel_reaches_the_cluster(plane: Plane, worker_is_gone: bool) -> None:
    if worker_is_gone:
        submit_and_kill(plane)
        process = plane.start("judge")
    else:
        process = plane.start("work")
        wait_until(lambda: bool(plane.show().handle))
    plane.cancel()
    processes.finish(process)
    run = plane.show()
    assert (run.state, run.reason) == ("cancelled", "by ada")
    assert plane.emr.steps.cancelled[:1] == [run.handle]
    step = wait_for_step(plane.emr.aws, plane.emr.cluster)
    code, said = plane.emr.run(step, "CANCELLED")
    assert (code, "it landed nothing" in said) == (1, True)
    assert plane.emr.keys("segment-data/data/") == []
