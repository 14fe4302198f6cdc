"""How long requests take with a long history; `make bench-api` has 200,000 runs."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from typing import Any

import httpx
import pytest

from eventlake.control import tables
from eventlake.control.connections import connect
from eventlake.control.database import open_database
from eventlake.control.lakes import add_lake
from eventlake.control.runs import make_row
from eventlake.control.sources import add_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from tests.control.world import KEY
from tests.server.servers import serving

RUNS = int(os.environ.get("EVENTLAKE_API_RUNS", "1000"))
IS_MEASURED = "EVENTLAKE_API_RUNS" in os.environ
SOURCES, REPEATS = (200, 100) if IS_MEASURED else (10, 3)
MAX_READ, MAX_WRITE = 0.030, 0.060
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def fill(url: str) -> None:
    """Add sources, each with a long history of syncs in two tables."""
    database = open_database(url)
    with database.write() as session:
        ensure_workspace(session, BEGIN)
        add_lake(session, "main", "local", {"path": "/lake"}, Vault([KEY]), BEGIN)
        for number in range(SOURCES):
            add_source(session, f"s{number}", BEGIN, source_id=f"id-{number}")
            connect(session, f"s{number}", "main", {}, BEGIN)
        for rows in make_runs():
            session.execute(tables.runs.insert(), rows)
            session.execute(tables.run_tables.insert(), list(make_results(rows)))
        if session.dialect.name == "postgresql":
            last = f"SELECT setval(pg_get_serial_sequence('runs', 'id'), {RUNS})"
            session.exec_driver_sql(last)
            session.exec_driver_sql("ANALYZE")
    database.close()


def make_runs() -> Iterator[list[dict[str, Any]]]:
    for start in range(1, RUNS + 1, 2000):
        yield [make_run(number) for number in range(start, min(start + 2000, RUNS + 1))]


def make_run(number: int) -> dict[str, Any]:
    at = BEGIN + number * timedelta(minutes=1)
    state = "failed" if number % 50 == 0 else "finished"
    values = {"slot": at, "trigger": "schedule", "state": state, "lake_run": str(number)}
    times = {"started_at": at, "ended_at": at + timedelta(seconds=30)}
    return make_row(f"id-{number % SOURCES}", "sync", at, **values, **times) | {"id": number}


def make_results(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    counts = dict.fromkeys(tables.COUNTS, 10)
    texts = {"status": "finished", "error": "", "error_code": ""}
    for row in rows:
        for name in ("", "order_completed"):
            key = {"run_id": row["id"], "table": name, "is_new": False, "new_columns": []}
            yield {**key, **texts, **counts}


def measure(ask: Callable[[int], httpx.Response]) -> float:
    """The time within which 95 of 100 requests are answered."""
    seconds = []
    for number in range(REPEATS):
        began = time.perf_counter()
        reply = ask(number)
        seconds.append(time.perf_counter() - began)
        assert reply.status_code < 300, reply.text
    return quantiles(seconds, n=20)[-1]


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    fill(url)
    with serving(url) as api, httpx.Client(base_url=f"{api.url}/api/v1", timeout=60) as http:
        yield http


def test_requests_are_fast_with_a_long_history(http: httpx.Client, url: str) -> None:
    reads: dict[str, Callable[[int], httpx.Response]] = {
        "newest runs": lambda n: http.get("/runs"),
        "an old page of runs": lambda n: http.get(f"/runs?after={RUNS // 2}&limit=500"),
        "runs of a source": lambda n: http.get(f"/runs?source=s{n}&limit=100"),
        "one run": lambda n: http.get(f"/runs/{RUNS - n}"),
        "health": lambda n: http.get("/health"),
        "sources": lambda n: http.get("/sources"),
        "connections": lambda n: http.get("/connections"),
        "a schedule": lambda n: http.get(f"/schedules/s{n}"),
        "audit": lambda n: http.get("/audit"),
    }
    writes: dict[str, Callable[[int], httpx.Response]] = {
        "start a run": lambda n: http.post("/runs", json={"source": f"s{n}"}),
        "cancel a run": lambda n: http.post(f"/runs/{RUNS + 1 + n}/cancel"),
        "enable a source": lambda n: http.post(f"/sources/s{n}/enable"),
        "change a source": lambda n: http.patch(f"/sources/s{n}", json={"enabled": False}),
    }
    took = {name: measure(ask) for name, ask in (reads | writes).items()}
    kind = "postgresql" if "://" in url else "sqlite"
    for name, seconds in took.items():
        sys.stdout.write(f"{kind}, {RUNS} runs: {name}: p95 {1000 * seconds:.1f} ms\n")
    if IS_MEASURED:
        assert {name: took[name] for name in reads if took[name] > MAX_READ} == {}
        assert {name: took[name] for name in writes if took[name] > MAX_WRITE} == {}
