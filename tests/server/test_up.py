"""`eventlake up` as a process, on both databases."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from eventlake.collect.server import RELOAD_SECONDS
from eventlake.control.database import open_database
from eventlake.control.roles import Role
from eventlake.control.tables import schedules
from eventlake.control.users import add_user
from tests import processes
from tests.processes import SHORT_LIVED

PATIENCE = 60.0
MAIN = """
import sys
from eventlake.cli.main import main
code = main(sys.argv[1:])
assert not {"pyspark", "py4j", "duckdb", "boto3"} & sys.modules.keys(), sorted(sys.modules)
sys.exit(code)
"""
EVENT = {"userId": "u1", "event": "Hello"}


@dataclass
class Up:
    """A running server."""

    url: str
    setup_link: str
    process: "subprocess.Popen[str]"
    folder: Path

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        address = f"{self.url}/api/v1{path}"
        return httpx.request(method, address, json=body, timeout=30, **options)

    def add_source(self, slug: str) -> str:
        """Add a source that is connected to the first lake; return its key once it works."""
        reply = self.ask("POST", "/sources", {"slug": slug, "lake": "main"})
        assert reply.status_code == 201, reply.text
        key: str = reply.json()["write_keys"][0]
        wait_until(lambda: self.send(key).status_code == 200)
        return key

    def send(self, key: str) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/track", json=EVENT, auth=(key, ""), timeout=30)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def up(folder: Path, url: str, *options: str) -> Iterator[Up]:
    command = [sys.executable, "-c", MAIN, "up", "--database", url, "--port", "0", *options]
    env = {**os.environ, **SHORT_LIVED}
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            assert process.stdout
            first = process.stdout.readline()
            assert first.startswith("listening on "), first
            has_link = "--public-url" not in options and "--only" not in options
            link = process.stdout.readline() if has_link else ""
            yield Up(first.split()[-1], link.rpartition(" ")[2].strip(), process, folder)
        finally:
            if process.poll() is None:
                process.kill()


def wait_until(is_so: Callable[[], bool]) -> float:
    """Wait for a condition; return the seconds that it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.05)
    return time.monotonic() - began


def count_archived(folder: Path, source: str = "*") -> int:
    files = folder.glob(f"lake/segment-logs/{source}/*/*.gz")
    return sum(len(gzip.decompress(file.read_bytes()).splitlines()) for file in files)


def test_events_of_sources_in_the_database_are_archived(url: str, tmp_path: Path) -> None:
    with up(tmp_path, url) as server:
        assert server.send("unknown").status_code == 401
        web, ios = server.add_source("web"), server.add_source("ios")
        assert server.send(web).status_code == 200
        assert server.ask("PATCH", "/sources/web", {"enabled": False}).status_code == 200
        wait_until(lambda: server.send(web).json().get("code") == "source_disabled")
        assert server.ask("DELETE", f"/sources/ios/keys?key={ios}").status_code == 200
        wait_until(lambda: server.send(ios).json().get("code") == "invalid_write_key")
        new = server.ask("POST", "/sources/ios/keys", {}).json()["write_keys"][0]
        wait_until(lambda: server.send(new).status_code == 200)
        assert 'source="ios"' in httpx.get(f"{server.url}/metrics").text
        assert server.stop() == 0  # with Spark imported it would be 1
    assert count_archived(tmp_path) >= 4


def test_acknowledged_events_survive_a_kill(url: str, tmp_path: Path) -> None:
    with up(tmp_path, url) as server:
        key = server.add_source("web")
        for _ in range(5):
            assert server.send(key).status_code == 200
        server.process.kill()
        server.process.wait(PATIENCE)
    with up(tmp_path, url) as server:
        wait_until(lambda: count_archived(tmp_path) >= 6)
        assert server.send(key).status_code == 200
        assert server.stop() == 0


def test_a_sync_on_request_lands_what_was_just_accepted(url: str, tmp_path: Path) -> None:
    with up(tmp_path, url) as server:
        web, ios = server.add_source("web"), server.add_source("ios")
        sources = {one: server.ask("GET", f"/sources/{one}").json()["id"] for one in ("web", "ios")}
        for number in range(20):
            assert server.send(web).status_code == server.send(ios).status_code == 200
            if number % 5 == 0:
                assert server.ask("POST", "/runs", {"source": "web"}).status_code in (201, 409)
                sent = number + 2  # the first of them showed that the key works
                assert count_archived(tmp_path, sources["web"]) == sent
        assert count_archived(tmp_path, sources["ios"]) == 0


def test_a_sync_that_a_command_asks_for_lands_what_was_just_accepted(
    url: str, tmp_path: Path
) -> None:
    """It asks in the database; the collector notices that before the sync starts."""
    with up(tmp_path, url) as server:
        server.add_source("web")
        command = [sys.executable, "-m", "eventlake.cli.main", "runs", "start", "web", "--json"]
        done = subprocess.run(
            [*command, "--database", url], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        asked = json.loads(done.stdout)
        wait_until(lambda: count_archived(tmp_path) == 1)
        (file,) = tmp_path.glob("lake/segment-logs/*/*/*.gz")
        accepted = int(file.name.partition("-")[0]) / 1000
        assert file.stat().st_mtime - accepted < 9  # by itself it takes ten
        run = server.ask("GET", f"/runs/{asked['id']}").json()
        assert run["started_at"] is None or run["started_at"] >= run["not_before"]
        assert run["not_before"] > run["created_at"]


def test_slots_that_are_due_are_queued(url: str, tmp_path: Path) -> None:
    with up(tmp_path, url) as server:
        server.add_source("web")
        assert server.ask("POST", "/sources/web/enable").status_code == 200
        database = open_database(url)
        past = datetime.now(UTC) - timedelta(hours=3)
        values = {"enabled_at": past, "considered_to": past, "next_slot": past}
        with database.write() as session:
            session.execute(schedules.update().values(values))
        database.close()
        wait_until(lambda: len(server.ask("GET", "/runs").json()["items"]) == 1)
        (run,) = server.ask("GET", "/runs").json()["items"]
        assert (run["trigger"], run["actor"]) == ("schedule", "scheduler")
        assert server.stop() == 0


def test_the_link_of_the_first_start_makes_the_admin(url: str, tmp_path: Path) -> None:
    with up(tmp_path, url) as server:
        code = server.setup_link.partition("code=")[2]
        body = {"code": code, "email": "ada@example.com", "password": "correct horse"}
        assert server.ask("POST", "/setup", body).status_code == 201
        assert server.ask("GET", "/sources").status_code == 401
        assert server.stop() == 0


def test_others_can_reach_it_only_when_somebody_has_been_added(url: str, tmp_path: Path) -> None:
    public = ("--public-url", "https://lake.example.com")
    for options in (("--host", "0.0.0.0"), public):
        command = [sys.executable, "-c", MAIN, "up", "--database", url, "--port", "0", *options]
        refused = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert refused.returncode == 2
        assert "nobody has been added yet" in refused.stderr
    database = open_database(url)
    with database.write() as session:
        add_user(session, "ada@example.com", "correct horse", Role.ADMIN, datetime.now(UTC))
    database.close()
    with up(tmp_path, url, *public) as server:
        assert server.url == "https://lake.example.com"
        assert server.stop() == 0


@pytest.fixture
def file(tmp_path: Path, migrated_sqlite: bytes) -> str:
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    return str(path)


def test_a_second_server_on_the_same_file_is_refused(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        command = [sys.executable, "-c", MAIN, "up", "--database", file, "--port", "0"]
        second = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert second.returncode == 2
        assert f"in use by process {server.process.pid}" in second.stderr
        assert server.stop() == 0


def test_a_spool_that_cannot_be_one_is_refused(file: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    ran = processes.command(
        "up", "--database", file, "--port", "0", "--spool", tmp_path / "taken", cwd=tmp_path
    )
    assert (ran.code, ran.out) == (2, "")
    assert "taken cannot be the spool" in ran.err


def test_a_lake_that_cannot_be_opened_does_not_stop_the_others(file: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with up(tmp_path, file) as server:
        body = {"slug": "bad", "kind": "local", "settings": {"path": str(tmp_path / "taken")}}
        assert server.ask("POST", "/lakes", body).status_code == 201
        bad = server.ask("POST", "/sources", {"slug": "lost", "lake": "bad"}).json()
        key = server.add_source("web")
        assert server.send(key).status_code == 200
        refused = server.send(bad["write_keys"][0])  # clients send it again
        assert (refused.status_code, refused.json()["code"]) == (503, "not_served")
        (tmp_path / "taken").unlink()
        wait_until(lambda: server.send(bad["write_keys"][0]).status_code == 200)
        assert server.stop() == 0


def test_no_key_is_refused_while_settings_of_a_lake_change(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        key = server.add_source("web")
        codes: set[int] = set()
        has_changed = threading.Event()

        def send_on() -> None:
            while not has_changed.is_set():
                codes.add(server.send(key).status_code)

        with ThreadPoolExecutor() as pool:
            sending = [pool.submit(send_on) for _ in range(4)]
            for _ in range(3):
                version = server.ask("GET", "/lakes/main").headers["etag"]
                change = {"settings": {"format": "parquet"}}
                head = {"if-match": version}
                reply = server.ask("PATCH", "/lakes/main", change, headers=head)
                assert reply.status_code == 200, reply.text
                time.sleep(2 * RELOAD_SECONDS)
            has_changed.set()
            for one in sending:
                one.result()
        assert codes <= {200, 503}
        wait_until(lambda: server.send(key).status_code == 200)
        assert server.stop() == 0


def test_a_lake_that_is_gone_is_not_begun_anew(file: str, tmp_path: Path) -> None:
    lake, away = tmp_path / "lake", tmp_path / "away"
    with up(tmp_path, file) as server:
        key = server.add_source("web")
        run = server.ask("POST", "/runs", {"source": "web"}).json()["id"]
        wait_until(lambda: server.ask("GET", f"/runs/{run}").json()["state"] == "finished")
        lake.rename(away)
        lake.mkdir()  # as of a disk that is not mounted
        assert server.send(key).status_code == 200
        sync = server.ask("POST", "/runs", {"source": "web"}).json()["id"]
        wait_until(lambda: server.ask("GET", f"/runs/{sync}").json()["attempt"] > 1)
        assert "is gone or empty" in server.ask("GET", f"/runs/{sync}").json()["error"]
        assert not list(lake.iterdir())
        assert server.stop() == 0
    with up(tmp_path, file) as server:
        assert server.send(key).status_code == 503
        assert not list(lake.iterdir())
        lake.rmdir()
        away.rename(lake)
        wait_until(lambda: server.send(key).status_code == 200)
        wait_until(lambda: count_archived(tmp_path) >= 3)
        assert server.stop() == 0


def test_it_is_small(file: str, tmp_path: Path) -> None:
    with up(tmp_path, file) as server:
        assert server.ask("GET", "/workspace").status_code == 200
        memory = psutil.Process(server.process.pid).memory_info().rss
        assert server.stop() == 0
    assert memory < 150 << 20
