"""What runs of a real lake landed, as the database shows it after they ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlake.control import tables
from eventlake.control.database import Database
from eventlake.control.endings import LOST, end_runs
from eventlake.control.results import Outcome, read_outcome
from eventlake.control.runs import Run, RunState, queue_run
from eventlake.lakes import open_parts
from eventlake.model.layout import run_day
from eventlake.model.report import failure_lines
from eventlake.model.settings import SourceSettings
from eventlake.reports import read_reports
from eventlake.services.load import LoadResult
from tests.clocks import SimulatedClock
from tests.control.world import World, ask_for
from tests.lakes import load


@pytest.fixture
def world(database: Database, clock: SimulatedClock) -> World:
    world = World(database, clock)
    world.add("web")
    return world


def event(name: str, number: int, **properties: Any) -> str:
    at = "2026-03-02T08:00:00.000Z"
    body = {"type": "track", "event": name, "messageId": f"{name}-{number}", "receivedAt": at}
    return json.dumps(body | {"userId": "u", "properties": properties})


def load_events(folder: Path, number: int, *lines: str) -> tuple[LoadResult, Outcome]:
    """Load lines into a lake; return the result, and the outcome by the lake's report."""
    path = folder / f"{number}.json"
    path.write_text("\n".join(lines))
    result = load([path], folder / "lake")
    lake = open_parts(folder / "lake")
    lines_of_run = [
        line
        for line in read_reports(lake.store, lake.layout, "web")
        if line["run_id"] == result.run_id
    ]
    return result, read_outcome(lines_of_run)


def run_to_end(world: World, outcome: Outcome, kind: str = "sync") -> Run:
    with world.database.write() as session:
        queue_run(session, ask_for("web", kind), "me", world.clock.now())
    [run] = world.start()
    with world.database.write() as session:
        [ended] = end_runs(session, {(run.id, run.attempt): outcome}, world.clock.now())
    return ended


def counts_of(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    return {row["table"]: (row["rows"], row["duplicates"], row["quarantined"]) for row in rows}


def test_the_counts_of_a_run_are_those_of_its_report(world: World, tmp_path: Path) -> None:
    lines = [event("A", 1), event("A", 1), event("A", 2), event("B", 1), "not an event"]
    result, outcome = load_events(tmp_path, 1, *lines)
    run = run_to_end(world, outcome)
    assert (run.state, run.lake_run) == (RunState.FINISHED, result.run_id)
    rows = world.read(tables.run_tables)
    assert {row["run_id"] for row in rows} == {run.id}
    assert counts_of(rows) == {"": (3, 1, 1), "a": (2, 1, 0), "b": (1, 0, 0)}
    total = next(row for row in rows if not row["table"])
    assert total["received"] == result.counts.received == 5
    assert total["rows"] == result.counts.landed
    assert total["quarantined"] == result.counts.quarantined == 1
    assert total["files"] == sum(row["files"] for row in rows if row["table"]) > 0
    assert total["bytes"] == sum(row["bytes"] for row in rows if row["table"]) > 0
    landed = {done.table.name: done.counts.landed for done in result.tables}
    assert {row["table"]: row["rows"] for row in rows if row["table"]} == landed


def test_days_add_up_the_syncs_and_not_the_replays(world: World, tmp_path: Path) -> None:
    first, outcome = load_events(tmp_path, 1, event("A", 1), event("A", 2))
    run_to_end(world, outcome)
    second, again = load_events(tmp_path, 2, event("A", 3), event("A", 1))
    run_to_end(world, again)
    run_to_end(world, again, "replay")
    rows = world.read(tables.daily)
    assert {row["day"] for row in rows} <= {run_day(one.run_id) for one in (first, second)}
    totals = [row for row in rows if not row["table"]]
    assert sum(row["rows"] for row in totals) == 3
    assert sum(row["duplicates"] for row in totals) == 1
    assert sum(row["rows"] for row in rows if row["table"] == "a") == 3


def test_days_have_the_rows_of_redrives_too(world: World, tmp_path: Path) -> None:
    _, outcome = load_events(tmp_path, 1, event("A", 1), event("B", 1), event("B", 1), "no event")
    run_to_end(world, outcome, "redrive")
    total = next(row for row in world.read(tables.daily) if not row["table"])
    counts = ("rows", "received", "duplicates", "quarantined")
    assert tuple(total[name] for name in counts) == (2, 0, 0, 0)


def test_new_tables_and_columns_are_logged(world: World, tmp_path: Path) -> None:
    run_to_end(world, load_events(tmp_path, 1, event("A", 1, x=1))[1])
    _, outcome = load_events(tmp_path, 2, event("A", 2, x=1, price=2.5), event("B", 1))
    second = run_to_end(world, outcome)
    logged = {
        (row["table"], row["column"], row["change"])
        for row in world.read(tables.schema_log)
        if row["run_id"] == second.id
    }
    assert ("b", "", "new_table") in logged
    assert ("a", "price", "new_column") in logged
    assert not {one for one in logged if one[1] == "x"}


def test_a_failed_run_has_its_error_and_no_rows(world: World) -> None:
    run_id = "1772442000000000000"
    finished = "2026-03-02 09:05:00.000000"
    settings = SourceSettings(source="web")
    lines = failure_lines(run_id, settings, "no bucket", "EventLake.InvalidSettings", finished)
    run = run_to_end(world, read_outcome(lines))
    assert (run.state, run.error, run.lake_run) == (RunState.FAILED, "no bucket", run_id)
    assert counts_of(world.read(tables.run_tables)) == {"": (0, 0, 0)}


def test_an_attempt_that_is_retried_is_not_counted(world: World, tmp_path: Path) -> None:
    _, outcome = load_events(tmp_path, 1, event("A", 1))
    lost = run_to_end(world, LOST)
    assert lost.not_before
    world.clock.advance(lost.not_before - world.clock.now())
    [run] = world.start()
    for _ in range(2):  # the second end of the same attempt does nothing
        with world.database.write() as session:
            end_runs(session, {(run.id, run.attempt): outcome}, world.clock.now())
    assert [row["rows"] for row in world.read(tables.daily) if row["table"] == "a"] == [1]
