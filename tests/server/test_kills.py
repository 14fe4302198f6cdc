"""`kill -9` of the server and its workers at random moments, while clients send events.

A quarter of a minute on each database here; `make kills` takes ten minutes on each.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import sqlalchemy as sa

from eventlake.client import Client
from eventlake.collect.spool import SEGMENT_GLOB
from eventlake.control import tables
from eventlake.control.database import Database, open_database
from eventlake.model.commit import CommitKind
from eventlake.services.history import read_history
from eventlake.services.read import open_lake
from tests.postgres import create_database
from tests.processes import SHORT_LIVED
from tests.server.test_up import MAIN
from tests.tiers import long

SECONDS = float(os.environ.get("EVENTLAKE_KILL_SECONDS", "15"))
IS_LONG = "EVENTLAKE_KILL_SECONDS" in os.environ
SEED = int(os.environ.get("EVENTLAKE_KILL_SEED", "1"))
MAX_END = timedelta(seconds=90)
CLIENTS, BATCH = 3, 10
ENDED = {"finished", "partial", "failed", "cancelled", "skipped"}


@dataclass
class Campaign:
    """A server that is killed and started again on the same port."""

    folder: Path
    url: str
    """That of the database."""
    port: int
    database: Database
    dice: random.Random = field(default_factory=lambda: random.Random(SEED))
    server: "subprocess.Popen[bytes] | None" = None
    key: str = ""
    acknowledged: set[str] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)
    killed: list[tuple[int, datetime]] = field(default_factory=list)
    """Runs whose worker was killed, and when."""
    kills: Counter[str] = field(default_factory=Counter)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-c", MAIN, "up", "--database", self.url]
        log = (self.folder / "server.log").open("ab")
        self.server = subprocess.Popen(
            [*command, "--port", str(self.port)],
            cwd=self.folder,
            stdout=log,
            stderr=log,
            env={**os.environ, **SHORT_LIVED},
        )
        log.close()
        self.wait_until(self.is_ready)

    def is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.address}/ready", timeout=5).status_code == 200
        return False

    def wait_until(self, is_so: Any, seconds: float = 120) -> None:
        until = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < until, (self.folder / "server.log").read_text()[-2000:]
            time.sleep(0.1)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.address}/api/v1{path}"
        reply = httpx.request(method, url, json=body, timeout=30)
        assert reply.status_code < 300, reply.text
        return reply.json()

    def send_events(self, client: int) -> None:
        """Send batches as an SDK does: one without a 200 is sent again, as it was."""
        with httpx.Client(auth=(self.key, ""), timeout=10) as http:
            number = 0
            while not self.stop.is_set():
                ids = [f"{client}-{number}-{n}" for n in range(BATCH)]
                events = [{"type": "track", "event": "Hello", "userId": "u", "messageId": one}
                          for one in ids]  # fmt: skip
                while not self._is_accepted(http, {"batch": events}):
                    time.sleep(0.2)
                self.acknowledged.update(ids)
                number += 1
                time.sleep(0.05)

    def _is_accepted(self, http: httpx.Client, body: Any) -> bool:
        with suppress(httpx.HTTPError):
            return http.post(f"{self.address}/v1/batch", json=body).status_code == 200
        return False

    def kill_something(self) -> None:
        kind = self.dice.choice(("server", "worker", "worker", "both"))
        if not self.killed:  # so that a short campaign has each
            kind = "both"
        if kind != "server":
            self._kill_workers()
        if kind != "worker":
            assert self.server
            self.server.kill()
            self.server.wait(30)
            self.kills["server"] += 1
            time.sleep(self.dice.uniform(0, 1))
            self.start()

    def _kill_workers(self) -> None:
        """Kill the workers that have a run, with their JVMs."""
        for run in self.read_runs():
            if run["state"] == "running" and run["owner"]:
                pid = int(run["owner"].rpartition(":")[2])
                with suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(pid).children(recursive=True):
                        with suppress(psutil.NoSuchProcess):
                            child.kill()
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append((run["id"], datetime.now(UTC)))
                    self.kills["worker"] += 1

    def read_runs(self) -> list[dict[str, Any]]:
        with self.database.read() as session:
            rows = session.execute(sa.select(tables.runs).order_by(tables.runs.c.id))
            return [row._asdict() for row in rows]

    def run(self) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(2, 9))
            self.kill_something()
        if not self.killed:  # nothing was running yet
            self.wait_until(lambda: any(one["state"] == "running" for one in self.read_runs()))
            self.kill_something()

    def request_runs(self) -> None:
        """Ask for syncs all the time; one that cannot be had now is asked for again."""
        while not self.stop.wait(1):
            with suppress(httpx.HTTPError):
                url = f"{self.address}/api/v1/runs?queue=true"
                httpx.post(url, json={"source": "web"}, timeout=10)

    def have_ended(self, runs: set[int]) -> bool:
        if not IS_LONG:
            with self.database.write() as session:  # a killed run is tried again in a minute
                session.execute(tables.runs.update().values(not_before=None))
        return all(run["ended_at"] for run in self.read_runs() if run["id"] in runs)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=long)])
def campaign(request: Any, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        url = str(tmp_path / "eventlake.db")
        (tmp_path / "eventlake.db").write_bytes(request.getfixturevalue("migrated_sqlite"))
    else:
        url = create_database(request.getfixturevalue("migrated_postgres"), "kills", "migrated")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    database = open_database(url)
    campaign = Campaign(tmp_path, url, port, database)
    yield campaign
    campaign.stop.set()
    if campaign.server and campaign.server.poll() is None:
        campaign.server.kill()
        campaign.server.wait(30)
    database.close()


def test_nothing_is_lost_or_doubled_and_every_run_ends(campaign: Campaign) -> None:
    campaign.start()
    made = campaign.ask("POST", "/sources", {"slug": "web", "lake": "main"})
    campaign.key = made["write_keys"][0]
    with Client(campaign.address) as client:
        client.change("PUT", "/schedules/web", {"every_seconds": 60})
    campaign.ask("POST", "/sources/web/enable")
    threads = [threading.Thread(target=campaign.send_events, args=(n,)) for n in range(CLIENTS)]
    threads.append(threading.Thread(target=campaign.request_runs))
    for thread in threads:
        thread.start()
    campaign.run()
    campaign.stop.set()
    for thread in threads:
        thread.join(60)
    archive_the_rest(campaign)
    killed = {number for number, _ in campaign.killed}
    campaign.wait_until(lambda: campaign.have_ended(killed), 180)
    campaign.ask("POST", "/sources/web/disable")
    every = {run["id"] for run in campaign.read_runs()}
    campaign.wait_until(lambda: campaign.have_ended(every), 300)
    started = campaign.ask("POST", "/runs", {"source": "web"})["id"]
    campaign.wait_until(lambda: campaign.have_ended({started}), 180)
    assert campaign.ask("GET", f"/runs/{started}")["state"] == "finished"
    check_runs(campaign)
    check_events(campaign)
    states = Counter(run["state"] for run in campaign.read_runs())
    sys.stdout.write(f"{dict(campaign.kills)}, {len(campaign.acknowledged)} events, {states}\n")
    assert campaign.kills["server"]
    assert campaign.kills["worker"]


def archive_the_rest(campaign: Campaign) -> None:
    """Stop and start the server, so that everything is archived; runs go on meanwhile."""
    assert campaign.server
    campaign.server.send_signal(signal.SIGTERM)
    assert campaign.server.wait(60) == 0
    assert list(campaign.folder.glob(f"spool/**/{SEGMENT_GLOB}")) == []
    campaign.start()


def check_runs(campaign: Campaign) -> None:
    """Each run has one end, which is that of the lake, in time."""
    runs = campaign.read_runs()
    assert {run["state"] for run in runs} <= ENDED
    by_id = {run["id"]: run for run in runs}
    for number, killed_at in campaign.killed:
        assert by_id[number]["ended_at"] - killed_at < MAX_END, by_id[number]
    (history,) = read_history(campaign.folder / "lake")
    heads = history.ledger.read_commit_heads()
    committed = {run_id for run_id, (kind, _) in heads.items() if kind is CommitKind.LOAD}
    landed = {run["lake_run"] for run in runs if run["state"] in ("finished", "partial")} - {""}
    assert landed == committed
    failed = {run["lake_run"] for run in runs if run["state"] == "failed"} - {""}
    assert not failed & committed
    slots = [run["slot"] for run in runs if run["slot"]]
    assert len(slots) == len(set(slots))


def check_events(campaign: Campaign) -> None:
    lake = open_lake(campaign.folder / "lake")
    rows = lake.query("select id, count(*) as n from web.hello group by id")
    found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert campaign.acknowledged - found.keys() == set()
    assert set(found.values()) == {1}
    assert len(campaign.acknowledged) > 100
    assert lake.verify("web").problems == ()
