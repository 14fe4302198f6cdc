"""Runs that `eventlake up` executes: real processes, a real lake on disk, real Spark."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlake.control.database import open_database
from eventlake.control.tables import runs
from tests.server.test_up import Up, count_archived, up, wait_until


@pytest.fixture
def file(tmp_path: Path, migrated_sqlite: bytes) -> str:
    (tmp_path / "eventlake.db").write_bytes(migrated_sqlite)
    return "eventlake.db"


def start(server: Up, source: str = "web") -> int:
    reply = server.ask("POST", "/runs", {"source": source})
    assert reply.status_code == 201, reply.text
    number: int = reply.json()["id"]
    return number


def show(server: Up, number: int) -> dict[str, Any]:
    found: dict[str, Any] = server.ask("GET", f"/runs/{number}").json()
    return found


def wait_for_end(server: Up, number: int) -> dict[str, Any]:
    wait_until(lambda: bool(show(server, number)["ended_at"]))
    return show(server, number)


def wait_until_planned(server: Up, number: int) -> dict[str, Any]:
    wait_until(lambda: bool(show(server, number)["lake_run"]))
    return show(server, number)


def send_and_sync(server: Up) -> tuple[int, int]:
    """Send an event of a new source, and sync it; return how many were sent, and the run."""
    server.add_source("web")
    number = start(server)
    return count_archived(server.folder), number


def count_rows(folder: Path) -> int:
    """The rows of the table by the command `query`."""
    sql = "select count(*) as n, count(distinct id) as ids from web.hello"
    command = [sys.executable, "-m", "eventlake.cli.main", "query", sql, "--lake", "lake", "--json"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    (row,) = json.loads(done.stdout)
    assert row["n"] == row["ids"]
    rows: int = row["n"]
    return rows


def owner_pid(run: dict[str, Any]) -> int:
    return int(run["owner"].rpartition(":")[2])


def test_an_event_is_in_a_table_after_a_sync(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        sent, number = send_and_sync(server)
        wait_until(lambda: bool(show(server, number)["progress"]))  # Spark takes seconds to start
        run = wait_for_end(server, number)
        assert (run["state"], run["error"], run["attempt"]) == ("finished", "", 1)
        assert count_rows(tmp_path) == sent
        again = wait_for_end(server, start(server))  # without anything new
        assert (again["state"], again["lake_run"]) == ("finished", "")
        assert again["owner"] == run["owner"]  # the worker stays for the next run
        assert server.stop() == 0
        wait_until(lambda: not Path(f"/proc/{owner_pid(run)}").exists())


def test_a_killed_worker_lands_its_events_once(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        sent, number = send_and_sync(server)
        os.kill(owner_pid(wait_until_planned(server, number)), signal.SIGKILL)
        wait_until(lambda: show(server, number)["state"] != "running")
        run = show(server, number)
        assert (run["state"], run["attempt"]) == ("queued", 2)
        assert run["error"] == "the process of the run is gone"
        database = open_database(str(tmp_path / file))
        with database.write() as session:
            session.execute(runs.update().values(not_before=None))  # it would be in a minute
        database.close()
        run = wait_for_end(server, number)
        assert (run["state"], run["error"]) == ("finished", "")
        assert server.stop() == 0
    assert count_rows(tmp_path) == sent


def test_a_run_goes_on_when_the_server_is_killed(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        sent, number = send_and_sync(server)
        wait_until_planned(server, number)
        server.process.kill()
        server.process.wait(60)
    with up(tmp_path, file) as server:
        run = wait_for_end(server, number)
        assert (run["state"], run["attempt"]) == ("finished", 1)
        assert server.stop() == 0
    assert count_rows(tmp_path) == sent


def test_a_run_is_cancelled(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        sent, number = send_and_sync(server)
        wait_until_planned(server, number)
        assert server.ask("POST", f"/runs/{number}/cancel").status_code == 200
        assert wait_for_end(server, number)["state"] == "cancelled"
        assert wait_for_end(server, start(server))["state"] == "finished"
        assert server.stop() == 0
    assert count_rows(tmp_path) == sent


def test_one_worker_runs_sources_of_several_lakes(url: str, tmp_path: Path) -> None:
    """With no event of any source, so that nothing is planned."""
    with up(tmp_path, url) as server:
        other = {"slug": "other", "kind": "local", "settings": {"path": str(tmp_path / "other")}}
        assert server.ask("POST", "/lakes", other).status_code == 201
        ended = []
        for slug, lake in (("web", "main"), ("ios", "other"), ("tv", "main")):
            reply = server.ask("POST", "/sources", {"slug": slug, "lake": lake})
            assert reply.status_code == 201, reply.text
            ended.append(wait_for_end(server, start(server, slug)))
        assert {(run["state"], run["error"], run["lake_run"]) for run in ended} == {
            ("finished", "", "")
        }
        assert len({run["owner"] for run in ended}) == 1
        assert server.stop() == 0
