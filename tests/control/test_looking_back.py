"""What people look at: every source at a glance, the history, saved queries."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from eventlake.control.database import Database
from eventlake.control.endings import end_runs
from eventlake.control.history import (
    RunFilter,
    find_first_seen,
    get_summary,
    list_history,
    list_schema_changes,
)
from eventlake.control.lakes import add_lake
from eventlake.control.overview import SourceOverview, list_overview
from eventlake.control.queries import list_queries, remove_query, save_query
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState, queue_run
from eventlake.control.sources import get_source
from eventlake.control.tables import COUNTS, daily
from eventlake.control.vault import Vault
from eventlake.errors import Conflict, InvalidSettings, NotFound
from tests.clocks import SimulatedClock
from tests.control.test_results import event, load_events
from tests.control.world import World, ask_for

HOUR = timedelta(hours=1)


@pytest.fixture
def world(database: Database, clock: SimulatedClock) -> World:
    world = World(database, clock)
    world.add("web")
    world.add("ios")
    return world


def run(world: World, source: str, outcome: Outcome, took: timedelta = HOUR) -> Run:
    """A sync that begins now and ends after some time."""
    with world.database.write() as session:
        queue_run(session, ask_for(source), "me", world.clock.now())
    [started] = world.start()
    world.clock.advance(took)
    with world.database.write() as session:
        [ended] = end_runs(session, {(started.id, started.attempt): outcome}, world.clock.now())
    return ended


FAILED = Outcome(state=RunState.FAILED, error_code="EventLake.InvalidSettings", error="no")


def look(world: World) -> dict[str, SourceOverview]:
    with world.database.read() as session:
        found = list_overview(session, world.clock.now())
    return {one.health.source: one for one in found}


def test_a_strip_has_the_runs_of_the_last_day(world: World) -> None:
    run(world, "web", FAILED)
    world.clock.advance(timedelta(hours=30))
    failed = run(world, "web", FAILED)
    world.clock.advance(6 * HOUR)
    with world.database.write() as session:
        queue_run(session, ask_for("ios"), "me", world.clock.now())
    [active] = world.start()
    world.clock.advance(12 * HOUR)
    found = look(world)
    [mark] = found["web"].strip
    assert (mark.id, mark.state) == (failed.id, "failed")
    assert (mark.begin, mark.end) == (pytest.approx(5 / 24), pytest.approx(6 / 24))
    assert (found["ios"].active_sync, found["ios"].strip[0].end) == (active.id, 1)
    assert (found["web"].active_sync, found["web"].last_success) == (None, None)


def test_rows_of_today_are_compared_with_other_days(world: World) -> None:
    assert (look(world)["web"].rows_today, look(world)["web"].usual) == (0, None)
    with world.database.write() as session:
        identity = look_up(world, "web")
        for day, rows in (("2026-03-02", 7), ("2026-03-01", 240), ("2026-02-28", 480)):
            row = {**dict.fromkeys(COUNTS, 0), "rows": rows, "day": day, "table": ""}
            session.execute(daily.insert().values(row | {"source_id": identity}))
    found = look(world)["web"]
    assert (found.rows_today, found.usual) == (7, 360 * 9 / 24)  # it is nine o'clock


def look_up(world: World, source: str) -> str:
    with world.database.read() as session:
        return get_source(session, source).id


def test_the_history_is_filtered_and_paged(world: World, tmp_path: Path) -> None:
    _, landed = load_events(tmp_path, 1, event("Order", 1), event("Order", 2), "not json")
    first = run(world, "web", landed)
    second = run(world, "web", FAILED)
    third = run(world, "ios", FAILED)
    with world.database.read() as session:
        ids = [one.run.id for one in list_history(session)]
        assert ids == [third.id, second.id, first.id]
        assert [one.run.id for one in list_history(session, before=third.id, limit=1)] == [
            second.id
        ]
        failed = list_history(session, "web", RunFilter(state="failed"))
        assert [(one.source, one.run.id, one.counts) for one in failed] == [
            ("web", second.id, None)
        ]
        summary = get_summary(session, first.id)
        assert summary
        assert summary.counts
        assert (summary.counts.rows, summary.counts.received) == (2, 3)
        assert get_summary(session, 999) is None
        with pytest.raises(NotFound):
            list_history(session, "zebra")
    assert look(world)["web"].last_success == first.ended_at


def test_changes_of_the_schema_say_when_a_column_came(world: World, tmp_path: Path) -> None:
    _, outcome = load_events(tmp_path, 1, event("Order", 1, total=1))
    one = run(world, "web", outcome)
    _, outcome = load_events(tmp_path, 2, event("Order", 2, gift=True), event("View", 1))
    two = run(world, "web", outcome)
    with world.database.read() as session:
        changes = list_schema_changes(session, "web", "order")
        assert [(c.run_id, c.change, c.column) for c in changes] == [
            (two.id, "new_column", "gift"),
            (one.id, "new_table", ""),
        ]
        assert find_first_seen(session, "web", "order") == {
            "gift": changes[0].created_at,
            "*": changes[1].created_at,
        }
        assert len(list_schema_changes(session, "web", limit=1)) == 1
        before = changes[0].id
        assert [c.id for c in list_schema_changes(session, "web", before=before)] == [changes[1].id]


def test_queries_are_kept_under_a_name(database: Database, clock: SimulatedClock) -> None:
    vault = Vault([Fernet.generate_key().decode()])
    with database.write() as session:
        add_lake(session, "main", "local", {"path": "lake"}, vault, clock.now())
        first = save_query(session, " b ", "main", "select 1", "ann", clock.now())
        save_query(session, "a", "main", "select 2", "bob", clock.now())
        again = save_query(session, "b", "main", "select 3", "ann", clock.now())
        assert (again.id, again.sql) == (first.id, "select 3")
        with pytest.raises(Conflict, match="ann has saved a query as b: choose another name"):
            save_query(session, "b", "main", "select 4", "bob", clock.now())
        assert [one.name for one in list_queries(session)] == ["a", "b"]
        assert remove_query(session, first.id) == again
        with pytest.raises(NotFound, match="there is no such saved query"):
            remove_query(session, first.id)
        with pytest.raises(NotFound):
            save_query(session, "c", "zebra", "select 1", "ann", clock.now())
        for name in ("", " ", "x" * 101, "a\nb"):
            with pytest.raises(InvalidSettings, match="printable characters"):
                save_query(session, name, "main", "select 1", "ann", clock.now())
