"""Kinds of runs with `eventlake up` and real workers, which are killed."""

import json
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from eventlake.control.database import open_database
from eventlake.control.tables import runs
from tests.server.test_runs import (
    count_rows,
    owner_pid,
    send_and_sync,
    show,
    start,
    wait_for_end,
    wait_until_planned,
)
from tests.server.test_up import EVENT, Up, up, wait_until


@pytest.fixture
def file(tmp_path: Path, migrated_sqlite: bytes) -> str:
    (tmp_path / "eventlake.db").write_bytes(migrated_sqlite)
    return "eventlake.db"


def count_suppressed(server: Up) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    found = [line for line in lines if "suppressed" in line and 'source="web"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_a_suppressed_user_is_refused_at_the_collector_within_a_second(
    file: str, tmp_path: Path
) -> None:
    with up(tmp_path, file) as server:
        key, took = server.add_source("web"), []
        for number in range(3):
            user, before = f"user-{number}", count_suppressed(server)
            reply = server.ask("POST", "/suppressions", {"users": [user]})
            assert reply.status_code == 200, reply.text
            began = time.monotonic()
            while count_suppressed(server) == before:
                assert time.monotonic() - began < 30
                event = {**EVENT, "userId": user}
                httpx.post(f"{server.url}/v1/track", json=event, auth=(key, ""), timeout=30)
            took.append(time.monotonic() - began)
        assert min(took) < 1.0
        assert server.stop() == 0


def test_a_replay_ends_once_although_worker_and_server_are_killed(
    file: str, tmp_path: Path
) -> None:
    day = time.time() // 86400 * 86400
    since, until = (time.strftime("%Y-%m-%d", time.gmtime(day + n * 86400)) for n in (-1, 2))
    window = {"source": "web", "since": since, "until": until}
    with up(tmp_path, file) as server:
        sent, number = send_and_sync(server)
        assert wait_for_end(server, number)["state"] == "finished"
        replay = server.ask("POST", "/replays", window).json()
        assert (replay["chunks"], replay["state"]) == (3, "running")
        path = f"/replays/{replay['id']}"

        shown = replay

        def has_done_one() -> bool:
            nonlocal shown
            shown = server.ask("GET", path).json()
            return shown["chunks_done"] == 1 and shown["active_run"] is not None

        wait_until(has_done_one)  # the first day has no events
        number = shown["active_run"]
        os.kill(owner_pid(wait_until_planned(server, number)), signal.SIGKILL)
        wait_until(lambda: show(server, number)["attempt"] == 2)
        database = open_database(str(tmp_path / file))
        with database.write() as session:
            session.execute(runs.update().values(not_before=None))  # it would be in a minute
        database.close()
        wait_until(lambda: show(server, number)["state"] == "running")
        wait_until_planned(server, number)
        server.process.kill()
        server.process.wait(60)
    with up(tmp_path, file) as server:
        run = wait_for_end(server, number)
        assert (run["state"], run["attempt"], run["chunk"]) == ("finished", 2, 1)
        wait_until(lambda: server.ask("GET", path).json()["state"] == "finished")
        asked = server.ask("POST", "/runs", {"source": "web", "kind": "verify"}).json()
        verified = wait_for_end(server, asked["id"])
        assert (verified["state"], verified["result"]["problems"]) == ("finished", [])
        assert server.stop() == 0
    assert count_rows(tmp_path) == sent


def test_corrected_lines_land_and_a_replay_changes_the_partitions(
    file: str, tmp_path: Path
) -> None:
    """The connection has the new settings afterwards, so that later syncs use them."""
    with up(tmp_path, file) as server:
        sent, number = send_and_sync(server)
        (folder,) = tmp_path.glob("lake/segment-logs/*/*")
        wait_for_end(server, number)
        (folder / "bad.json").write_text('{"type": "track", "event": "Hello", "userId": "u2"\n')
        wait_for_end(server, start(server))
        (line,) = server.ask("GET", "/quarantine?source=web").json()["items"]
        assert line["reason"] == "not_json"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        raw = json.dumps({**EVENT, "type": "track", "messageId": "m9", "receivedAt": now})
        corrected = json.dumps([{**line, "raw": raw}])
        redrive = {"source": "web", "corrected": corrected}
        asked = server.ask("POST", "/quarantine/redrive", redrive)
        assert asked.status_code == 201, asked.text
        assert wait_for_end(server, asked.json()["id"])["state"] == "finished"
        assert server.ask("GET", "/quarantine?source=web").json()["items"] == []
        assert count_rows(tmp_path) == sent + 1

        other = {"source": "web", "all_time": True, "settings": {"date_partition": "day"}}
        replay = server.ask("POST", "/replays", other).json()
        wait_until(
            lambda: server.ask("GET", f"/replays/{replay['id']}").json()["state"] == "finished"
        )
        found = server.ask("GET", "/connections/web").json()
        assert found["settings"] == {"date_partition": "day"}
        assert wait_for_end(server, start(server))["state"] == "finished"
        asked = server.ask("POST", "/runs", {"source": "web", "kind": "verify"})
        verified = wait_for_end(server, asked.json()["id"])
        assert (verified["state"], verified["result"]["problems"]) == ("finished", [])
        assert server.stop() == 0
    assert count_rows(tmp_path) == sent + 1
    files = [*tmp_path.glob("lake/segment-data/data/*/*/**/*.parquet")]
    assert {path.parent.name.partition("=")[0] for path in files} == {"day"}
