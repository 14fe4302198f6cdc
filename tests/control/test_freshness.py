"""What no run says: stale and silent sources, slow runs, an absent server, the daily digest."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventlake.control import schedules, tables
from eventlake.control.audit import Actor, Change, record
from eventlake.control.database import Database
from eventlake.control.digest import write_digests
from eventlake.control.endings import end_runs
from eventlake.control.freshness import (
    Freshness,
    Limits,
    SourceFreshness,
    read_freshness,
    set_limits,
)
from eventlake.control.health import list_health
from eventlake.control.incidents import list_incidents
from eventlake.control.monitor import Monitor
from eventlake.control.monitor_tables import freshness
from eventlake.control.notify.messages import format_count, format_span, write_message
from eventlake.control.notify.notices import Notice
from eventlake.control.preferences import Preferences, set_heartbeat, set_preferences
from eventlake.control.replays import ReplayRequest, add_replay, advance_replays
from eventlake.control.results import NewColumn, Outcome, TableResult
from eventlake.control.retention import prune
from eventlake.control.rollups import read_daily
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunRequest, RunState, queue_run
from eventlake.control.schedule import Schedule
from eventlake.control.vault import Vault
from tests.clocks import SimulatedClock
from tests.control.receivers import hook_server
from tests.control.world import KEY, World

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Watched:
    """A world with a source that is synced every two hours, and a monitor."""

    def __init__(self, database: Database, clock: SimulatedClock) -> None:
        self.world = World(database, clock)
        self.world.add("web")
        self.database, self.clock = database, clock
        self.restart()

    def restart(self) -> None:
        """Begin with another server."""
        self.monitor = Monitor(self.database, Vault([KEY]), "me", self.clock, is_alone=True)
        self.monitor.step()

    def pass_time(self, span: timedelta, *, syncs: bool = False, step: timedelta = HOUR) -> None:
        """Let the monitor work until the time is over; with `syncs`, all slots are synced."""
        end = self.clock.now() + span
        while self.clock.now() < end:
            self.clock.advance(min(step, end - self.clock.now()))
            self.monitor.step()
            if syncs and self.world.tick().queued:
                for run in self.world.start():
                    self.land(run, self.clock.now() - MINUTE)

    def land(self, run: Run, newest: datetime, **counts: Any) -> None:
        """End a run with a row in one table."""
        total = {"rows": 1, "received": 1, **counts}
        lines = [
            TableResult(table=name, status="finished", newest=newest, **total)
            for name in ("", "orders")
        ]
        self.end(
            run, Outcome(state=RunState.FINISHED, lake_run=lake_run(newest), tables=tuple(lines))
        )

    def end(self, run: Run, outcome: Outcome) -> None:
        with self.database.write() as session:
            end_runs(session, {(run.id, run.attempt): outcome}, self.clock.now())

    def start(self, kind: str = "sync") -> Run:
        with self.database.write() as session:
            parameters = {"all_time": True} if kind == "replay" else {}
            request = RunRequest(source="web", kind=Kind(kind), parameters=parameters)
            queue_run(session, request, "me", self.clock.now())
        [run] = self.world.start()
        return run

    def read(self) -> SourceFreshness:
        with self.database.read() as session:
            return read_freshness(session, "web", self.clock.now())

    def events(self) -> list[str]:
        return [event for event, _ in self.world.events()]

    def texts(self) -> list[str]:
        rows = self.world.read(tables.notices)
        return [write_message(to_notice(row), "https://x").text for row in rows]


def to_notice(row: dict[str, Any]) -> Notice:
    kept = {name: row[name] for name in ("id", "event", "data", "created_at")}
    return Notice(severity="problem", source="web" if row["source_id"] else None, **kept)


def lake_run(moment: datetime) -> str:
    return f"{int(moment.timestamp())}000000000"


@pytest.fixture
def watched(database: Database, clock: SimulatedClock) -> Watched:
    return Watched(database, clock)


def test_a_source_whose_syncs_land_is_fresh(watched: Watched) -> None:
    watched.pass_time(13 * HOUR, syncs=True)
    shown = watched.read()
    assert (shown.state, shown.tables[0].table) == (Freshness.FRESH, "orders")
    assert shown.newest is not None
    assert shown.age_seconds == (watched.clock.now() - shown.newest).total_seconds() < 2 * 3600
    assert shown.due == datetime(2026, 3, 2, 23, tzinfo=UTC)
    assert watched.events() == []


def test_nothing_ran_although_it_was_scheduled(watched: Watched) -> None:
    """The scheduler does not work: no run, no failure, and still somebody is told."""
    watched.pass_time(5 * HOUR, syncs=True)
    watched.pass_time(3 * HOUR)
    assert watched.events() == []
    watched.pass_time(HOUR / 2)
    assert watched.events() == ["stale"]
    shown = watched.read()
    assert (shown.state, shown.tables[0].state) == (Freshness.STALE, Freshness.STALE)
    watched.pass_time(DAY, step=2 * HOUR)
    assert watched.events() == ["stale"]  # once
    watched.pass_time(HOUR, syncs=True, step=HOUR / 2)
    assert watched.events() == ["stale", "fresh"]
    assert watched.texts()[0].startswith("A sync of web was due at 2026-03-02 15:00 UTC, and the l")
    assert watched.texts()[1] == "web is fresh again after 1 d 1 h."
    with watched.database.read() as session:
        [incident] = list_incidents(session, "web")
        assert (incident.kind, bool(incident.closed_at)) == ("stale", True)
        assert list_incidents(session, is_open=True) == []
        [health] = list_health(session)
    assert (health.freshness, health.failures) == (Freshness.FRESH, 0)
    assert health.newest == watched.read().newest


def test_nothing_was_received(watched: Watched) -> None:
    watched.pass_time(4 * HOUR, syncs=True)
    newest = watched.read().newest
    for _ in range(15):  # syncs that have nothing to land
        watched.pass_time(2 * HOUR, step=2 * HOUR)
        watched.world.tick()
        for run in watched.world.start():
            watched.end(run, Outcome(state=RunState.FINISHED))
    assert watched.events() == ["silent"]
    shown = watched.read()
    assert (shown.state, shown.newest) == (Freshness.SILENT, newest)
    watched.pass_time(3 * HOUR, syncs=True)
    assert watched.events() == ["silent", "fresh"]


def test_a_clock_that_is_ahead_does_not_hide_silence(watched: Watched) -> None:
    landed_at = watched.clock.now()
    watched.land(watched.start(), landed_at + 3650 * DAY)
    for _ in range(15):  # syncs that have nothing to land
        watched.pass_time(2 * HOUR, step=2 * HOUR)
        watched.world.tick()
        for run in watched.world.start():
            watched.end(run, Outcome(state=RunState.FINISHED))
    assert watched.events() == ["silent"]
    assert watched.read().newest == landed_at


def test_a_source_that_never_got_anything_is_not_a_problem(watched: Watched) -> None:
    for _ in range(14):
        watched.pass_time(2 * HOUR, step=2 * HOUR)
        watched.world.tick()
        for run in watched.world.start():
            watched.end(run, Outcome(state=RunState.FINISHED))
    assert (watched.read().state, watched.events()) == (Freshness.NEVER, [])


def test_what_somebody_disables_or_changes_is_not_stale(watched: Watched) -> None:
    watched.pass_time(5 * HOUR, syncs=True)
    with watched.database.write() as session:
        schedules.disable(session, "web", watched.clock.now())
    watched.pass_time(2 * DAY, step=4 * HOUR)
    assert watched.read().state is Freshness.SILENT
    with watched.database.write() as session:
        now = watched.clock.now()
        schedules.enable(session, "web", now)
        hourly = Schedule(cron="0 * * * *")
        schedules.set_schedule(
            session, "web", hourly, now, schedules.get_schedule(session, "web").version
        )
    watched.pass_time(90 * MINUTE)
    assert watched.events() == []
    watched.pass_time(2 * HOUR)
    assert watched.events() == ["stale"]


def test_limits_of_a_source_and_of_the_workspace(watched: Watched) -> None:
    with watched.database.write() as session:
        set_preferences(session, Preferences(late_after_seconds=600, silent_after_seconds=0))
    watched.pass_time(2 * HOUR)
    watched.pass_time(9 * MINUTE)
    assert watched.events() == []
    watched.pass_time(3 * MINUTE)
    assert watched.events() == ["stale"]
    with watched.database.write() as session:
        set_limits(session, "web", Limits(late_after_seconds=86400))
    watched.pass_time(2 * MINUTE)
    assert watched.events() == ["stale", "fresh"]
    assert watched.read().limits.late_after_seconds == 86400


def test_a_server_that_was_away_says_so_and_catches_up_first(watched: Watched) -> None:
    watched.pass_time(5 * HOUR, syncs=True)
    watched.clock.advance(9 * HOUR)
    watched.monitor = Monitor(
        watched.database, Vault([KEY]), "second", watched.clock, is_alone=True
    )
    watched.monitor.step()
    watched.pass_time(MINUTE, syncs=True)
    watched.pass_time(HOUR, syncs=True)
    assert watched.events() == ["server_away"]
    assert watched.texts()[0].startswith("No server ran from 2026-03-02 14:00 UTC to 2026-03-02 23")
    watched.clock.advance(4 * MINUTE)  # a restart
    watched.restart()
    assert watched.events() == ["server_away"]


def test_only_the_server_with_the_lease_judges(watched: Watched) -> None:
    other = Monitor(watched.database, Vault([KEY]), "other", watched.clock)
    assert not other.step()
    watched.clock.advance(MINUTE)
    assert other.step()  # the lease of the first has ended
    assert not watched.monitor.step()
    assert watched.monitor.lease is None


def test_a_run_over_three_times_the_median(watched: Watched) -> None:
    for _ in range(5):
        run = watched.start()
        watched.clock.advance(2 * MINUTE)
        watched.end(run, Outcome(state=RunState.FINISHED))
    run = watched.start()
    watched.pass_time(6 * MINUTE, step=MINUTE)
    assert watched.events() == []
    watched.pass_time(5 * MINUTE, step=MINUTE)
    assert watched.world.events() == [("run_slow", f"run/{run.id}/slow")]
    assert "A sync of web has run for 7 min; the median is 2 min." in watched.texts()


def test_a_share_of_the_quarantine_is_noticed_once_a_day(watched: Watched) -> None:
    for quarantined, received in ((1, 50), (10, 1000), (11, 1000), (500, 1000)):
        counts = {"received": received, "quarantined": quarantined, "rows": received - quarantined}
        watched.land(watched.start(), watched.clock.now(), **counts)
        watched.clock.advance(HOUR)
    assert watched.events() == ["quarantine_share"]
    assert watched.texts()[0].startswith("11 of 1 k lines of a sync of web are invalid")


def test_replays_and_erasures_that_end(watched: Watched) -> None:
    for kind, state in (("replay", "finished"), ("forget", "failed"), ("redrive", "cancelled")):
        run = watched.start(kind)
        if state == "cancelled":
            continue
        outcome = Outcome(
            state=RunState(state), error_code="EventLake.Internal" * (state == "failed")
        )
        watched.end(run, outcome)
    assert watched.events() == ["replay_finished", "erasure_failed"]
    assert watched.texts()[1] == "The forget of web is failed; it landed 0 rows."


def test_a_replay_in_chunks_is_one_notice(watched: Watched) -> None:
    parameters = {"since": "2026-02-01", "until": "2026-02-03"}
    request = ReplayRequest(source="web", parameters=parameters)
    with watched.database.write() as session:
        replay = add_replay(session, request, "me", watched.clock.now())
    assert replay.chunks == 2
    for _ in range(2):
        with watched.database.write() as session:
            advance_replays(session, watched.clock.now())
        [run] = watched.world.start()
        watched.land(run, watched.clock.now(), rows=600)
    assert watched.events() == []
    with watched.database.write() as session:
        advance_replays(session, watched.clock.now())
    assert watched.events() == ["replay_finished"]
    assert watched.texts() == ["The replay of web is finished; it landed 1.2 k rows."]


def test_schema_changes_are_one_digest_a_day(watched: Watched) -> None:
    def land(table: str, *columns: str, is_new: bool = False, rescued: int = 0) -> None:
        new = tuple(NewColumn(name=name, type="string") for name in columns)
        lines = (
            TableResult(table="", status="finished", rescued=rescued),
            TableResult(table=table, status="finished", is_new=is_new, new_columns=new),
        )
        now = watched.clock.now()
        outcome = Outcome(state=RunState.FINISHED, lake_run=lake_run(now), tables=lines)
        watched.end(watched.start(), outcome)
        with watched.database.write() as session:
            write_digests(session, now)
        watched.clock.advance(HOUR)

    land("orders", is_new=True)
    for number in range(24):
        land("orders", f"c{number}", rescued=2)
    land("orders")
    assert watched.events() == ["schema_changed", "schema_changed"]
    first, second = watched.texts()
    assert first == "web has 1 new table: orders."
    assert second.startswith("web has 24 new columns: orders.c0, ")
    assert second.endswith("orders.c19 and 4 more; 48 rescued values.")


def test_changes_of_settings_are_noticed(watched: Watched) -> None:
    with watched.database.write() as session:
        actor, now = Actor("user:ada"), watched.clock.now()
        record(session, actor, Change("schedule.disable", "source:web"), now)
        record(session, actor, Change("token.add", "token:1"), now)
    [row] = watched.world.read(tables.notices)
    assert (row["event"], row["source_id"]) == ("settings_changed", "id-web")
    assert watched.texts() == ["user:ada did schedule.disable on source:web."]


def test_the_heartbeat_is_asked_while_the_monitor_works(
    watched: Watched, capfd: pytest.CaptureFixture[str]
) -> None:
    with hook_server() as hooks:
        with watched.database.write() as session:
            set_heartbeat(session, f"{hooks.url}/planted-uuid", Vault([KEY]))
        watched.pass_time(4 * MINUTE, step=MINUTE)
        assert [(one.method, one.path) for one in hooks.requests] == [("GET", "/planted-uuid")] * 4
        assert "planted" not in str(watched.world.read(tables.metadata.tables["settings"]))
        hooks.status = 500
        watched.pass_time(MINUTE)
    assert "warning: heartbeat: it answered 500" in capfd.readouterr().err


def test_days_are_summed_and_survive_the_retention_of_runs(watched: Watched) -> None:
    for _ in range(10):
        watched.pass_time(DAY, syncs=True, step=6 * HOUR)
    failed = watched.start()
    watched.end(failed, Outcome(state=RunState.FAILED, error_code="EventLake.Internal", error="x"))
    with watched.database.write() as session:
        now = watched.clock.now()
        assert prune(session, now) == 0  # everything is kept by default
        before = read_daily(session, "web", now, days=30, table=None)
        set_preferences(session, Preferences(keep_runs_days=7))
        assert prune(session, now) == 3 * 4 - 1
        assert prune(session, now) == 0
        assert read_daily(session, "web", now, days=30, table=None) == before
        three = read_daily(session, "web", now, days=3)
    assert sum(one.rows for one in before.rows if one.table == "orders") == 40
    assert sum(one.runs for one in before.runs) == 41
    assert {(one.kind, one.state) for one in before.runs} == {
        ("sync", "finished"),
        ("sync", "failed"),
    }
    assert [one.table for one in three.rows] == [""] * 3
    assert len(watched.world.runs()) == 41 - 11


def test_a_replay_of_old_events_makes_nothing_older(watched: Watched) -> None:
    now = watched.clock.now()
    watched.land(watched.start(), now)
    watched.land(watched.start(), now - DAY)  # late events
    watched.land(watched.start("replay"), now + DAY)
    rows = {row["table"]: row["newest"] for row in watched.world.read(freshness)}
    assert rows == {"": now, "orders": now}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40, "40 s"), (300, "5 min"), (5 * 3600, "5 h"), (76 * 3600, "3 d 4 h"), (86400 * 2, "2 d")],
)
def test_spans(seconds: int, text: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == text


def test_counts() -> None:
    assert [format_count(n) for n in (950, 1200, 1_200_000, 3_000_000_000)] == [
        "950",
        "1.2 k",
        "1.2 M",
        "3 G",
    ]
