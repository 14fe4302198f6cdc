"""The HTTP client for orchestrators: idempotent syncs, waiting, errors, and the examples."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eventlake.client import PATIENCE_SECONDS, Client, Reply, RunFailed
from eventlake.control.endings import end_runs
from eventlake.control.queue import Limits, start_next
from eventlake.control.results import Outcome
from eventlake.control.roles import Scope
from eventlake.control.runs import RunState
from eventlake.errors import Conflict, EventLakeError, InvalidSettings, NotFound, Unavailable
from tests.clocks import SimulatedClock
from tests.server.servers import Api, serving
from tests.server.test_runs import count_archived, count_rows
from tests.server.test_up import up

ROOT = Path(__file__).parents[2]


@pytest.fixture
def api(url: str, tmp_path: Path) -> Iterator[Api]:
    with serving(url) as api:
        lake = {"slug": "main", "kind": "local", "settings": {"path": str(tmp_path / "lake")}}
        api.post("/lakes", lake)
        api.post("/sources", {"slug": "web", "lake": "main"})
        api.use_token(Scope.ADMIN)
        yield api


@pytest.fixture
def client(api: Api) -> Iterator[Client]:
    with Client(api.url, api.make_token(Scope.WRITE)) as client:
        yield client


def end(api: Api, state: RunState = RunState.FINISHED, error: str = "") -> None:
    """Have a worker take the queued run and end it."""
    database, now = api.context.database, api.context.clock.now()
    with database.write() as session:
        run = start_next(database, session, "worker", now, Limits())
        assert run
        code = InvalidSettings.code if error else ""
        outcome = Outcome(state=state, error=error, error_code=code)
        end_runs(session, {(run.id, run.attempt): outcome}, now)


def test_a_key_starts_one_run(api: Api, client: Client) -> None:
    first = client.start_sync("web", key="dag/1")
    assert client.start_sync("web", key="dag/1")["id"] == first["id"]
    end(api)
    again = client.sync("web", key="dag/1")
    assert (again["id"], again["state"]) == (first["id"], "finished")
    assert client.start_sync("web", key="dag/2")["id"] == first["id"] + 1
    assert [run["id"] for run in client.list_runs("web")] == [first["id"] + 1, first["id"]]


def test_a_key_whose_run_failed_starts_another(api: Api, client: Client) -> None:
    first = client.start_sync("web", key="dag/1")
    end(api, RunState.FAILED, "no such bucket")
    with pytest.raises(RunFailed, match="no such bucket") as failed:
        client.has_ended(first["id"])
    assert failed.value.run["id"] == first["id"]
    assert failed.value.code == InvalidSettings.code
    second = client.start_sync("web", key="dag/1")
    assert second["id"] > first["id"]
    assert client.start_sync("web", key="dag/1")["id"] == second["id"]
    assert not client.has_ended(second["id"])
    client.cancel_run(second["id"])
    with pytest.raises(RunFailed, match="is cancelled: by token"):
        client.wait_for_run(second["id"])


def test_a_sync_waits_behind_the_active_run(api: Api, client: Client) -> None:
    active = client.start_sync("web")
    waiting = client.start_sync("web")
    assert waiting["state"] == "waiting"
    with pytest.raises(Conflict, match=f"run {waiting['id']} of source web is waiting"):
        client.sync("web", queue=False)
    end(api)
    assert client.get_run(waiting["id"])["state"] == "queued"
    assert client.has_ended(active["id"])


def test_a_run_that_does_not_end_in_time_goes_on(api: Api, client: Client) -> None:
    with pytest.raises(Unavailable, match="is queued after 1 seconds"):
        client.sync("web", key="k", seconds=1)
    assert client.start_sync("web", key="k")["state"] == "queued"


def test_errors_are_those_of_the_reply(api: Api, client: Client) -> None:
    with pytest.raises(NotFound, match="no such source"):
        client.sync("none")
    with pytest.raises(NotFound, match="no such run"):
        client.get_run(99)
    with pytest.raises(EventLakeError, match="needs the role admin") as refused:
        client.ask("POST", "/sources", {"slug": "x"})
    assert refused.value.code == "EventLake.Forbidden"
    with Client(api.url, "el_wrong") as other, pytest.raises(EventLakeError, match="token"):
        other.list_runs()
    with Client("http://127.0.0.1:9") as other, pytest.raises(Unavailable, match="not answer"):
        other.list_runs()
    for url in ("lake.example.com", "ftp://lake", "http://"):
        with pytest.raises(InvalidSettings, match="give a URL"):
            Client(url)


class Replies:
    """Sends nothing, and replies as a test says; time passes at each request."""

    def __init__(self, clock: SimulatedClock, *replies: Callable[[], Reply]) -> None:
        self.clock, self.replies, self.sent = clock, list(replies), list[dict[str, str]]()

    def __call__(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        self.sent.append(headers)
        self.clock.sleep(1)
        return self.replies.pop(0)() if len(self.replies) > 1 else self.replies[0]()


def reply(**run: Any) -> Callable[[], Reply]:
    values = {"id": 1, "kind": "sync", "state": "running", "ended_at": None, **run}
    return lambda: Reply(200, {}, str(values).replace("'", '"').replace("None", "null").encode())


def away() -> Reply:
    raise Unavailable("connection refused")


def make(*replies: Callable[[], Reply]) -> tuple[Client, Replies]:
    clock = SimulatedClock(datetime(2026, 3, 2, tzinfo=UTC))
    sent = Replies(clock, *replies)
    return Client(send=sent, clock=clock), sent


def test_a_server_that_restarts_is_asked_again() -> None:
    client, _ = make(reply(), away, away, away, reply(state="finished", ended_at="now"))
    assert client.wait_for_run(1)["state"] == "finished"
    client, sent = make(reply(), away)
    with pytest.raises(Unavailable, match="connection refused"):
        client.wait_for_run(1)
    assert len(sent.sent) >= PATIENCE_SECONDS / 3


def test_a_start_without_a_reply_is_sent_again_with_its_key() -> None:
    client, sent = make(away, reply())
    client.start_sync("web")
    first, second = (headers["idempotency-key"] for headers in sent.sent)
    assert first == second
    assert len(first) == 32


def test_a_replay_is_started_once_per_key() -> None:
    client, sent = make(away, reply(state="planned"))
    assert client.start_replay("web", key="k", since="2026-10-01")["state"] == "planned"
    assert [headers["idempotency-key"] for headers in sent.sent] == ["k", "k"]


def test_a_reply_of_another_server_is_not_taken_for_one_of_ours() -> None:
    client, _ = make(lambda: Reply(502, {}, b"<html>Bad gateway"))
    with pytest.raises(Unavailable, match="502 without JSON"):
        client.list_runs()


def test_it_needs_neither_spark_nor_the_server() -> None:
    code = """
import sys
from eventlake.client import Client
Client("http://127.0.0.1:9")
heavy = {"pyspark", "pyarrow", "fastapi", "sqlalchemy", "pandas", "numpy", "duckdb", "pydantic"}
sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def load_functions(name: str) -> dict[str, Any]:
    """The functions of an example, without its orchestrator, which is not installed here."""
    tree = ast.parse((ROOT / "examples" / name).read_text())
    kept = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and not node.decorator_list)
        or (isinstance(node, ast.ImportFrom) and node.module in ("eventlake.client", "typing"))
    ]
    found: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), name, "exec"), found)
    return found


def test_the_functions_of_the_examples_land_events(
    tmp_path: Path, migrated_sqlite: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real server, real workers, real Spark."""
    (tmp_path / "eventlake.db").write_bytes(migrated_sqlite)
    airflow, dagster = map(load_functions, ("airflow_dag.py", "dagster_assets.py"))
    with up(tmp_path, "eventlake.db") as server:
        server.add_source("web")
        monkeypatch.setenv("EVENTLAKE_URL", server.url)
        shown = dagster["sync_source"]("web", "run-1")
        assert (shown["state"], bool(shown["lake_run"])) == ("finished", True)
        sent = count_archived(tmp_path)
        assert dagster["sync_source"]("web", "run-1") == shown
        number = airflow["start_sync"]("web", "run-2/start")
        assert airflow["start_sync"]("web", "run-2/start") == number
        with Client() as client:
            client.wait_for_run(number)
        assert airflow["has_ended"](str(number))
        assert server.stop() == 0
    assert count_rows(tmp_path) == sent
