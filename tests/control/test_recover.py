"""A lost database is rebuilt from the lake: the same history as the database had."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eventlake.control import tables
from eventlake.control.apply import Target as ApplyTarget
from eventlake.control.apply import apply_declaration
from eventlake.control.connections import connect, get_connection
from eventlake.control.database import Database
from eventlake.control.declaration import read_declaration
from eventlake.control.endings import end_runs
from eventlake.control.lakes import add_lake
from eventlake.control.monitor_tables import freshness, run_days
from eventlake.control.queue import start_next
from eventlake.control.recover import Target, recover_workspace
from eventlake.control.results import read_outcome
from eventlake.control.runs import list_runs, request_run
from eventlake.control.sources import add_source, get_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace, get_workspace
from eventlake.errors import InvalidSettings
from eventlake.lakes import open_parts
from eventlake.lakes.local_settings import LocalSettings
from eventlake.ledger import Ledger
from eventlake.model.layout import Layout
from eventlake.services.history import read_history
from eventlake.services.judge import judge_run
from tests.clocks import SimulatedClock
from tests.control.world import KEY, MANY
from tests.lakes import AtStage, load, small_sample

VAULT = Vault([KEY])
AFTER_THE_EVENTS = datetime(2026, 11, 2, tzinfo=UTC)
CHANGES = {"date_partition": "day", "compression": "snappy", "database": "events"}


@dataclass
class Site:
    """A database with a workspace, and the lake of its runs."""

    database: Database
    clock: SimulatedClock
    lake: Path

    def start(self) -> "Site":
        with self.database.write() as session:
            ensure_workspace(session, self.clock.now())
        return self

    def recover(self, histories: Sequence[Any] | None = None) -> Any:
        found = read_history(self.lake) if histories is None else histories
        target = Target(self.database, VAULT, self.clock.now())
        return recover_workspace(target, "main", LocalSettings(path=str(self.lake)), found)

    def read_history(self) -> dict[str, list[Any]]:
        """Runs, counts and schema changes, without what is another in each database."""
        named = ("source_id", "kind", "lane", "state", "lake_run", "error_code", "error")
        queries = {
            "runs": sa.select(*(tables.runs.c[n] for n in named)).order_by(tables.runs.c.id),
            "tables": sa.select(tables.run_tables, tables.runs.c.lake_run).join(tables.runs),
            "daily": sa.select(tables.daily),
            "schema": sa.select(tables.schema_log.c["table", "column", "change", "type"]),
            "newest": sa.select(freshness.c["source_id", "table", "newest"]),
            "days": sa.select(run_days.c["source_id", "kind", "state", "runs"]),
        }
        with self.database.read() as session:
            found = {name: session.execute(query).all() for name, query in queries.items()}
        rows = {name: [row._asdict() for row in found[name]] for name in found}
        for row in rows["tables"]:
            del row["run_id"]
        sums = ("tables", "daily", "schema", "newest", "days")
        ordered = {name: sorted(map(str, rows[name])) for name in sums}
        return {"runs": rows["runs"], **ordered}

    def forget(self) -> None:
        """Lose the database."""
        with self.database.write() as session:
            for table in reversed(tables.metadata.sorted_tables):
                if table.name != "audit":
                    session.execute(table.delete())
        self.start()


@pytest.fixture
def site(database: Database, tmp_path: Path, clock: SimulatedClock) -> Site:
    return Site(database, clock, tmp_path / "lake").start()


def land_by_runs(site: Site, raw: Path) -> None:
    """Three runs of the workspace: two that land events, one that fails in between."""
    settings = LocalSettings(path=str(site.lake))
    site.clock.moment = max(site.clock.moment, AFTER_THE_EVENTS)
    with site.database.write() as session:
        now = site.clock.now()
        add_lake(session, "main", "local", {"path": str(site.lake)}, VAULT, now)
        add_source(session, "web", now, source_id="web1", write_key="k1")
        connect(session, "web", "main", CHANGES, now)
        source = get_connection(session, "web").resolved
    files = small_sample(raw)
    for part in (files[:1], files[:2], files):
        with site.database.write() as session:
            request_run(session, "web", "sync", "ada", site.clock.now())
            run = start_next(site.database, session, "worker", site.clock.now(), MANY)
        planned: list[str] = []
        progress = AtStage("write", fail) if len(part) == 2 else None
        with suppress(InvalidSettings):
            load(part, site.lake, progress, settings=source, on_planned=planned.append)
        report = judge_run(settings, source.folder, planned[0]).report
        assert run
        with site.database.write() as session:
            ended = {(run.id, run.attempt): read_outcome(report)}
            end_runs(session, ended, site.clock.now())


def fail() -> None:
    raise InvalidSettings("it failed")


def test_the_history_is_that_of_the_lost_database(site: Site, tmp_path: Path) -> None:
    land_by_runs(site, tmp_path / "raw")
    before = site.read_history()
    assert [run["state"] for run in before["runs"]] == ["finished", "failed", "finished"]
    assert before["daily"]
    assert before["schema"]
    assert len(before["newest"]) > 1
    assert "None" not in str(before["newest"])
    with site.database.read() as session:
        workspace = get_workspace(session).id
        connection = get_connection(session, "web")
    site.forget()
    recovered = site.recover()
    assert [(one.source, one.is_new, one.runs) for one in recovered.sources] == [("web", True, 3)]
    assert recovered.workspace == workspace
    assert "new write key" in recovered.notes[0]
    assert site.read_history() == before
    with site.database.read() as session:
        found = get_connection(session, "web")
        newest = list_runs(session)[0]
        assert get_source(session, "web").id == "web1"
    assert found.resolved == connection.resolved
    assert newest.trigger == "recovered"
    assert newest.started_at
    assert newest.ended_at


def test_a_second_time_adds_nothing(site: Site, tmp_path: Path) -> None:
    land_by_runs(site, tmp_path / "raw")
    before = site.read_history()
    again = site.recover()  # the database is not lost at all
    assert [(one.runs, one.known_runs) for one in again.sources] == [(0, 3)]
    assert again.notes == ()
    assert site.read_history() == before
    site.forget()
    site.recover()
    site.recover()
    assert site.read_history() == before


def test_the_workspace_gets_its_id_also_after_apply(site: Site, tmp_path: Path) -> None:
    land_by_runs(site, tmp_path / "raw")
    with site.database.read() as session:
        workspace, exported = get_workspace(session).id, read_declaration(session)
    site.forget()
    with site.database.write() as session:
        assert get_workspace(session).id != workspace
        plan, _ = apply_declaration(ApplyTarget(session, VAULT, site.clock.now()), exported)
        assert plan.is_applied
    recovered = site.recover()
    assert (recovered.workspace, recovered.notes) == (workspace, ())
    assert [(one.is_new, one.runs) for one in recovered.sources] == [(False, 3)]
    with site.database.read() as session:
        assert get_source(session, "web").write_keys == ("k1",)


def test_a_workspace_with_runs_of_its_own_keeps_its_id(site: Site, tmp_path: Path) -> None:
    land_by_runs(site, tmp_path / "raw")
    with site.database.read() as session:
        before = get_workspace(session).id
    site.forget()
    with site.database.write() as session:
        current = get_workspace(session).id
        add_source(session, "ios", site.clock.now())
        add_lake(session, "other", "local", {"path": "/other"}, VAULT, site.clock.now())
        connect(session, "ios", "other", {}, site.clock.now())
        request_run(session, "ios", "sync", "ada", site.clock.now())
    recovered = site.recover()
    assert recovered.workspace == current
    assert f"keeps its id {current}, and the lake's runs had {before}" in recovered.notes[0]


def test_a_run_without_its_report_is_described_by_its_commit(site: Site, tmp_path: Path) -> None:
    load(small_sample(tmp_path / "raw"), site.lake)
    site.recover()
    with_report = site.read_history()
    (report,) = site.lake.glob("segment-data/reports/*/*/*/report.json")
    report.unlink()
    site.forget()
    site.recover()
    assert site.read_history() == with_report


def test_another_lake_of_that_name_is_kept(site: Site, tmp_path: Path) -> None:
    load(small_sample(tmp_path / "raw"), site.lake)
    with site.database.write() as session:
        add_lake(session, "main", "local", {"path": "/other"}, VAULT, site.clock.now())
    with pytest.raises(InvalidSettings, match="choose another --name"):
        site.recover()


# As many runs as months have

RUNS = int(os.environ.get("EVENTLAKE_RECOVER_RUNS", "300"))
"""`make recover` has 10,000."""
MAX_SECONDS = 60


def test_months_of_runs_are_recovered_within_a_minute(site: Site, tmp_path: Path) -> None:
    load(small_sample(tmp_path / "raw"), site.lake)
    repeat_run(site.lake, RUNS)
    began, worked = time.monotonic(), time.process_time()
    recovered = site.recover()
    wall, seconds = time.monotonic() - began, time.process_time() - worked
    name = site.database.engine.dialect.name
    sys.stdout.write(f"{RUNS} runs on {name}: {wall:.1f} s, of which {seconds:.1f} s of CPU\n")
    assert recovered.sources[0].runs == RUNS
    with site.database.read() as session:
        count = session.execute(sa.select(sa.func.count()).select_from(tables.run_tables)).scalar()
        days = session.execute(sa.select(sa.func.sum(tables.daily.c.received))).scalar()
    assert count == RUNS * 7  # the run and its tables
    assert days
    assert seconds < MAX_SECONDS  # other programs of the machine do not count


def repeat_run(lake: Path, count: int) -> None:
    """Write the commit and the report of a lake's only run as those of many more."""
    ledger = Ledger(open_parts(lake).store, Layout(), "web")
    commit = ledger.read_commit(1)
    (report,) = lake.glob("segment-data/reports/*/*/*/report.json")
    text = report.read_text()
    bare = [done.model_copy(update={"adds": (), "is_new": False}) for done in commit.tables]
    copy = {"inputs": (), "tables": tuple(bare), "ids": (), "quarantine": None}
    body = commit.model_copy(update=copy).to_json().decode()
    for number in range(1, count):
        run_id = str(int(commit.run_id) + number * 3600 * 10**9)
        written = lake / ledger.path / f"{number + 1:012d}.json"
        written.write_text(body.replace(commit.run_id, run_id))
        path = lake / Layout().report_path("web", run_id)
        path.parent.mkdir(parents=True)
        path.write_text(text.replace(commit.run_id, run_id))
    ledger.rebuild_snapshot()
