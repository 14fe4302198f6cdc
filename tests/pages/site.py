"""A server with a workspace that has a month of history, three people and a real lake."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from eventlake.control.connections import connect, get_connection
from eventlake.control.database import Database, migrate, open_database
from eventlake.control.endings import end_runs
from eventlake.control.lakes import add_lake
from eventlake.control.queue import Limits, start_next
from eventlake.control.results import Outcome, read_outcome
from eventlake.control.roles import Role
from eventlake.control.runs import Run, RunState, request_run
from eventlake.control.schedules import enable
from eventlake.control.sessions import start_session
from eventlake.control.sources import add_source
from eventlake.control.tables import COUNTS, daily, runs
from eventlake.control.users import add_user
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from eventlake.lakes import open_parts
from eventlake.reports import read_reports
from tests.lakes import sync
from tests.processes import SHORT_LIVED

PASSWORD = "correct horse battery"
SOURCE_ID = "webid1"
MANY = Limits(local=50, per_cluster=50, total=50)
SHOP = (
    ("Order Completed", {"total": 19.9, "currency": "EUR", "coupon": "SPRING"}),
    ("Product Viewed", {"sku": "A-17", "price": 12, "category": "shoes"}),
    ("Cart Opened", {"items": 3}),
)


@dataclass
class Site:
    """A workspace, and where its server is."""

    folder: Path
    database: Database
    url: str = ""
    sessions: dict[Role, str] = field(default_factory=dict)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def record(self, source: str, outcome: Outcome, began: timedelta, took: timedelta) -> Run:
        """A sync that began some time ago, ended with an outcome, and took so long."""
        start = self.now() - began
        with self.database.write() as session:
            request_run(session, source, "sync", "scheduler", start)
            run = start_next(self.database, session, "test:1", start, MANY)
            assert run
            end_runs(session, {(run.id, run.attempt): outcome}, start + took)
            moments = {"created_at": start, "started_at": start, "trigger": "schedule"}
            session.execute(runs.update().where(runs.c.id == run.id).values(moments))
        return run

    def land(self, source: str, source_id: str, lines: Sequence[str], day: str = "") -> Outcome:
        """Put lines into the archive, sync them without Spark, and return the outcome."""
        folder = self.folder / "lake/segment-logs" / source_id / (day or f"{self.now():%Y-%m-%d}")
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.iterdir()))
        (folder / f"{number}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        with self.database.read() as session:
            settings = get_connection(session, source).resolved
        result = sync(self.folder / "lake", source, changes=settings.model_dump())
        lake = open_parts(self.folder / "lake")
        report = read_reports(lake.store, lake.layout, source_id)
        return read_outcome([line for line in report if line["run_id"] == result.run_id])


def event(name: str, number: int, properties: dict[str, Any], at: datetime, **more: Any) -> str:
    body = {
        "type": "track",
        "event": name,
        "messageId": f"{name}-{number}-{at:%H%M%S%f}",
        "userId": f"user-{number % 7}",
        "receivedAt": f"{at:%Y-%m-%dT%H:%M:%S.000Z}",
        "properties": properties,
    }
    return json.dumps(body | more)


def make_workspace(folder: Path) -> Site:
    """A database with people, sources and lakes, of which one has tables."""
    database = open_database(str(folder / "eventlake.db"))
    migrate(database)
    site = Site(folder, database)
    key = folder / "eventlake.key"
    key.write_bytes(Fernet.generate_key())
    key.chmod(0o600)
    vault = Vault([key.read_text()])
    long_ago = site.now() - timedelta(days=40)
    with database.write() as session:
        ensure_workspace(session, long_ago)
        for role in Role:
            user = add_user(session, f"{role}@example.com", PASSWORD, role, long_ago)
            site.sessions[role] = start_session(session, user.id, site.now())
        add_lake(session, "main", "local", {"path": str(folder / "lake")}, vault, long_ago)
        add_source(session, "web", long_ago, source_id=SOURCE_ID, write_key="web-key-1")
        connect(session, "web", "main", {}, long_ago)
        add_source(session, "ios", long_ago, source_id="iosid1", write_key="ios-key-1")
        connect(session, "ios", "main", {}, long_ago)
        add_source(session, "tv", long_ago, source_id="tvid1", write_key="tv-key-1")
        for source in ("web", "ios"):
            enable(session, source, site.now() - timedelta(hours=1))
    return site


def add_history(site: Site) -> None:
    """Syncs of the lake, a month of counts, failures and a running sync."""
    now = site.now()
    lines = [
        event(name, number, {**properties, "number": number}, now - timedelta(hours=5))
        for number in range(40)
        for name, properties in SHOP
    ]
    lines += ["not json", '{"type":"track","event":"No id"}', '{"type":"dance","messageId":"1"}']
    first = site.land("web", SOURCE_ID, lines)
    site.record("web", first, timedelta(hours=5), timedelta(seconds=48))
    more = [
        event("Order Completed", number, {"total": "many", "gift": True}, now - timedelta(hours=2))
        for number in range(9)
    ]
    second = site.land("web", SOURCE_ID, [*more, more[0]])
    site.record("web", second, timedelta(hours=2), timedelta(seconds=21))
    denied = Outcome(
        state=RunState.FAILED,
        error_code="EventLake.InsufficientPermissions",
        error="AWS denied s3:PutObject on arn:aws:s3:::events/segment-data/*: allow it",
    )
    for hours in (7, 5, 3, 1):
        site.record("ios", denied, timedelta(hours=hours), timedelta(seconds=4))
    _add_days(site)


def _add_days(site: Site) -> None:
    zero = dict.fromkeys(COUNTS, 0)
    days = []
    for ago in range(1, 30):
        day = f"{site.now() - timedelta(days=ago):%Y-%m-%d}"
        rows = 90 + (ago * 37) % 60
        total = {"rows": rows + 12, "received": rows + 15, "duplicates": 3}
        days.append({**zero, "source_id": SOURCE_ID, "day": day, "table": "", **total})
        for table, share in (("order_completed", rows), ("product_viewed", 12)):
            days.append({**zero, "source_id": SOURCE_ID, "day": day, "table": table, "rows": share})
    with site.database.write() as session:
        session.execute(daily.insert(), days)


@contextmanager
def serving(site: Site, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Run `eventlake up` on the workspace until the end of the block."""
    with running_server(site.folder, *options, env=env) as url:
        site.url = url
        yield site
    site.database.close()


@contextmanager
def running_server(
    folder: Path, *options: str, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run `eventlake up` in a folder; its URL."""
    command = [sys.executable, "-m", "eventlake.cli.main", "up", "--port", "0", *options]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **SHORT_LIVED, **(env or {})},
    ) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            assert line.startswith("listening on "), line
            yield line.split()[-1]
        finally:
            process.terminate()
            process.wait(60)
