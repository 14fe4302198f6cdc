"""Several servers on one PostgreSQL: each with its parts, and one that takes over from another."""

import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from eventlake.control import tables
from eventlake.control.database import Database, open_database
from eventlake.errors import InvalidSettings
from eventlake.server.parts import ALL_PARTS, Part, parse_parts
from tests.postgres import create_database
from tests.server.test_runs import count_rows, wait_for_end
from tests.server.test_up import MAIN, PATIENCE, Up, count_archived, up, wait_until

SECOND = timedelta(seconds=1)
MAX_TAKEOVER = timedelta(seconds=45)


def test_which_parts_a_server_has() -> None:
    assert parse_parts("") == ALL_PARTS
    assert parse_parts("api, worker") == {Part.API, Part.WORKER}
    with pytest.raises(InvalidSettings, match="'web': choose from collector, api, worker"):
        parse_parts("api,web")


def test_a_part_on_sqlite_is_refused(tmp_path: Path, migrated_sqlite: bytes) -> None:
    (tmp_path / "eventlake.db").write_bytes(migrated_sqlite)
    command = [sys.executable, "-c", MAIN, "up", "--port", "0", "--only", "api"]
    refused = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (refused.returncode, "a URL of PostgreSQL" in refused.stderr) == (2, True)


def test_three_servers_with_a_part_each_land_an_event(
    tmp_path: Path, migrated_postgres: str
) -> None:
    url = create_database(migrated_postgres, "parts", "migrated")
    with ExitStack() as stack:
        collector, api, worker = (
            stack.enter_context(up(tmp_path, url, "--only", part)) for part in Part
        )
        (key,) = api.ask("POST", "/sources", {"slug": "web", "lake": "main"}).json()["write_keys"]
        wait_until(lambda: collector.send(key).status_code == 200)
        for server in (api, worker):  # clients send it again elsewhere or later
            assert server.send(key).status_code == 503
        for server in (collector, worker):
            assert server.ask("GET", "/sources").status_code == 404
            assert httpx.get(f"{server.url}/setup").status_code == 404
        for server in (collector, api, worker):
            assert httpx.get(f"{server.url}/ready").status_code == 200
            assert httpx.get(f"{server.url}/health").status_code == 200
        wait_until(lambda: len(list_replicas(api)) == len(Part))
        found = {tuple(one["parts"]): one for one in list_replicas(api)}
        assert found.keys() == {(part.value,) for part in Part}
        assert all(one["is_alive"] for one in found.values())
        wait_until(lambda: count_archived(tmp_path) > 0)
        run = wait_for_end(api, api.ask("POST", "/runs", {"source": "web"}).json()["id"])
        assert (run["state"], run["error"]) == ("finished", "")
        assert [server.stop() for server in (collector, api, worker)] == [0, 0, 0]
    assert count_rows(tmp_path) == count_archived(tmp_path)


def test_another_server_takes_over_within_45_seconds(
    tmp_path: Path, migrated_postgres: str
) -> None:
    """Three servers, of which the one that schedules is killed."""
    url = create_database(migrated_postgres, "takeover", "migrated")
    database = open_database(url)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(up(tmp_path, url, "--spool", f"spool-{n}")) for n in range(3)
        ]
        servers[0].add_source("web")
        assert servers[1].ask("POST", "/sources/web/enable").status_code == 200
        schedule_every_second(database)
        wait_until(lambda: len(claims(database)) > 2)
        holder = find_holder(database, servers)
        holder.process.kill()
        killed = datetime.now(UTC)
        before = max(run.epoch for run in claims(database))
        wait_until(lambda: max(run.epoch for run in claims(database)) > before)
        wait_until(lambda: len([run for run in claims(database) if run.epoch > before]) > 2)
        rows = claims(database)
        alive = [server for server in servers if server is not holder]
        assert all(server.send("none").status_code == 401 for server in alive)
        wait_until(lambda: sum(one["is_alive"] for one in list_replicas(alive[0])) == len(alive))
        [gone] = [one for one in list_replicas(alive[0]) if not one["is_alive"]]
        assert gone["name"].endswith(f":{holder.process.pid}")
        leaders = [one for one in list_replicas(alive[0]) if "scheduler" in one["leads"]]
        assert [one["is_alive"] for one in leaders] == [True]
    database.close()
    taken_over = min(run.created_at for run in rows if run.epoch > before)
    assert taken_over - killed < MAX_TAKEOVER
    slots = [run.slot for run in rows]
    assert slots == sorted(set(slots))
    # Each run stands for all slots since the one before it.
    assert all((b.slot - a.slot) // SECOND == b.coalesced for a, b in pairwise(rows))


def list_replicas(server: Up) -> list[Any]:
    found: list[Any] = server.ask("GET", "/replicas").json()["items"]
    return found


def schedule_every_second(database: Database) -> None:
    """Slots that a user cannot have so often, so that the test need not wait for minutes."""
    with database.write() as session:
        now = datetime.now(UTC)
        values = {"rule": {"every_seconds": 1}, "next_slot": now + SECOND}
        session.execute(tables.schedules.update().values(values))


def claims(database: Database) -> list[sa.Row[tuple[int, datetime, datetime, int]]]:
    columns = (tables.runs.c[name] for name in ("epoch", "slot", "created_at", "coalesced"))
    with database.read() as session:
        return list(session.execute(sa.select(*columns).order_by(tables.runs.c.slot)))


def find_holder(database: Database, servers: list[Up]) -> Up:
    with database.read() as session:
        leases = tables.leases
        asked = sa.select(leases.c.holder).where(leases.c.name == "scheduler")
        holder = session.execute(asked).scalar_one()
    return next(one for one in servers if holder.endswith(f":{one.process.pid}"))
