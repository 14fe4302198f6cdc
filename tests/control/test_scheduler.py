"""The rules of the scheduler, on both databases. Which slots there are: `test_schedule.py`."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eventlake.control import schedules, tables
from eventlake.control.database import Database, migrate, open_database
from eventlake.control.endings import LOST, cancel_overdue, end_runs
from eventlake.control.leases import hold_file, release_lease, take_lease
from eventlake.control.queue import Limits, find_lost, renew_run
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState, cancel_run, get_run, queue_run
from eventlake.control.schedule import Schedule
from eventlake.control.scheduler import LEASE, tick
from eventlake.errors import (
    Conflict,
    InsufficientPermissions,
    InvalidSettings,
    LimitExceeded,
    NotFound,
    Unavailable,
)
from tests.clocks import SimulatedClock
from tests.control.world import Killed, World, ask_for

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
WHOLE_TABLE = re.compile(r"SCAN runs(?! USING (COVERING )?INDEX uq_runs_(active|waiting))")
"""A step of SQLite that reads all runs."""


@pytest.fixture
def world(database: Database, clock: SimulatedClock) -> World:
    """It begins at 09:00 UTC."""
    return World(database, clock)


def request(world: World, kind: str = "sync", *, wait: bool = False, source: str = "web") -> Run:
    with world.database.write() as session:
        return queue_run(session, ask_for(source, kind), "me", world.clock.now(), wait=wait)


def cancel(world: World, run: Run) -> Run:
    with world.database.write() as session:
        return cancel_run(session, run.id, world.clock.now(), "asked by me")


# Rule 1


def test_rule_1_a_source_is_synced_every_two_hours_from_when_it_was_enabled(world: World) -> None:
    world.add("web")
    assert world.tick().next_slot == world.clock.now() + 2 * HOUR
    for _ in range(4):
        world.clock.advance(HOUR)
        world.tick()
        for run in world.start():
            world.end(run)
    assert world.shown() == [("finished", "11:00", 1), ("finished", "13:00", 1)]


def test_rule_1_manual_sources_have_no_slots(world: World) -> None:
    world.add("web", Schedule())
    world.clock.advance(timedelta(days=9))
    assert world.tick()[:3] == (0, 0, None)


# Rule 2


def test_rule_2_several_due_slots_are_one_run(world: World) -> None:
    world.add("web")
    world.clock.advance(timedelta(hours=9))
    assert world.tick().queued == 1
    assert world.tick().queued == 0
    assert world.shown() == [("queued", "17:00", 4)]


def test_rule_2_the_claim_and_what_was_considered_are_one_transaction(world: World) -> None:
    """A tick that is killed at any statement has done nothing or all."""
    world.add("web")
    world.clock.advance(2 * HOUR)
    for statement in range(20):
        before = world.read(tables.schedules), world.shown()
        with Killed(world.database, statement) as killed:
            tick(world.database, world.clock, world.lease)
        if not killed.happened:
            break
        assert (world.read(tables.schedules), world.shown()) == before
    assert statement > 3
    assert world.shown() == [("queued", "11:00", 1)]


# Rule 3


def test_rule_3_enabling_and_changes_run_nothing_again(world: World) -> None:
    world.add("web")
    world.clock.advance(5 * HOUR)
    with world.database.write() as session:
        schedules.disable(session, "web", world.clock.now())
    assert world.tick()[:3] == (0, 0, None)
    world.clock.advance(5 * HOUR)
    with world.database.write() as session:
        version = schedules.enable(session, "web", world.clock.now()).version
        daily = Schedule(cron="0 6 * * *")
        schedules.set_schedule(session, "web", daily, world.clock.now(), version)
    assert world.tick().queued == 0
    world.clock.advance(11 * HOUR)
    world.tick()
    assert world.shown() == [("queued", "06:00", 1)]


# Rule 4


def test_rule_4_a_slot_is_claimed_once_by_schedulers_that_race(world: World) -> None:
    for number in range(20):
        world.add(f"s{number}")
    world.clock.advance(2 * HOUR)
    with ThreadPoolExecutor(4) as pool:
        ticks = list(pool.map(lambda _: world.tick(), range(8)))
    assert sum(done.queued for done in ticks) == 20
    assert len(world.runs()) == 20


def test_rule_4_a_slot_while_a_sync_runs_is_skipped_and_names_it(world: World) -> None:
    world.add("web")
    world.clock.advance(2 * HOUR)
    world.tick()
    [running] = world.start()
    world.clock.advance(2 * HOUR)
    assert world.tick()[:2] == (0, 1)
    skipped = world.runs()[-1]
    assert (skipped.state, skipped.met_run) == (RunState.SKIPPED, running.id)
    world.end(running)
    world.clock.advance(2 * HOUR)
    assert world.tick()[:2] == (1, 0)


def test_rule_4_sync_now_names_the_run_that_it_met_or_waits_one_deep(world: World) -> None:
    world.add("web")
    first = request(world)
    with pytest.raises(Conflict, match=f"run {first.id} of source web is queued since 09:00"):
        request(world)
    second = request(world, wait=True)
    assert second.state is RunState.WAITING
    with pytest.raises(Conflict, match=f"run {second.id} of source web is waiting"):
        request(world, wait=True)
    [started] = world.start()
    assert world.start() == []
    world.end(started)
    assert [run.id for run in world.start()] == [second.id]


def test_rule_4_a_source_that_is_not_connected_cannot_be_synced(world: World) -> None:
    with pytest.raises(NotFound, match="no such source"):
        request(world, source="other")


# Rule 5


def test_rule_5_replays_run_beside_syncs_and_not_beside_erasures(world: World) -> None:
    world.add("web")
    replay, sync = request(world, "replay"), request(world, "sync")
    with pytest.raises(Conflict, match=f"run {replay.id} of source web"):
        request(world, "retype")  # it changes the same tables
    assert {run.id for run in world.start()} == {replay.id, sync.id}
    erasure = request(world, "forget")
    assert world.start() == []
    world.end(replay)
    world.end(sync)
    later_sync, later_replay = request(world, "sync"), request(world, "replay")
    assert [run.id for run in world.start()] == [erasure.id]
    assert [run.id for run in world.start()] == [later_sync.id]
    world.end(erasure)
    assert [run.id for run in world.start()] == [later_replay.id]


def test_rule_5_an_erasure_waits_for_the_sync_in_flight_only(world: World) -> None:
    """A source that always has a next sync does not keep an erasure waiting."""
    world.add("web")
    request(world)
    [sync] = world.start()
    erasure, next_sync = request(world, "forget"), request(world, wait=True)
    world.end(sync)
    assert [run.id for run in world.start()] == [erasure.id]
    assert [run.id for run in world.start()] == [next_sync.id]


# The queue


def test_runs_start_within_limits_manual_ones_first_then_the_oldest_slot(world: World) -> None:
    world.add("late", Schedule(every_seconds=120))
    world.add("early", Schedule(every_seconds=60))
    for source in ("person", "replayed"):
        world.add(source, Schedule())
    world.clock.advance(MINUTE)
    world.tick()
    world.clock.advance(MINUTE)
    world.tick()
    request(world, "replay", source="replayed")
    request(world, source="person")
    order = []
    while started := world.start(Limits(total=8, local=1)):
        [run] = started
        order.append(run.source_id)
        world.end(run)
    assert order == ["id-person", "id-early", "id-late", "id-replayed"]


def test_a_run_that_waited_long_comes_before_manual_ones(world: World) -> None:
    world.add("web", Schedule(every_seconds=3600))
    world.add("person", Schedule())
    world.clock.advance(HOUR)
    world.tick()
    world.clock.advance(11 * MINUTE)
    request(world, source="person")
    [first] = world.start(Limits(total=1))
    assert first.source_id == "id-web"
    assert world.start(Limits(total=1)) == []


# Rule 6


def test_rule_6_a_slot_in_the_quiet_window_runs_at_its_end_once(world: World) -> None:
    world.add("web", Schedule(every_seconds=3600, quiet="09:30-13:15"))
    while world.clock.now().hour < 16:
        world.clock.advance(5 * MINUTE)
        world.tick()
        for run in world.start():
            world.end(run)
    times = [("13:15", 4), ("14:00", 1), ("15:00", 1), ("16:00", 1)]
    assert world.shown() == [("finished", time, count) for time, count in times]


def test_rule_6_sources_with_one_cron_expression_are_spread(world: World) -> None:
    for number in range(20):
        world.add(f"s{number}", Schedule(cron="0 10 * * *", spread_seconds=600))
    world.clock.advance(HOUR + 5 * MINUTE)
    early = world.tick().queued
    world.clock.advance(5 * MINUTE)
    assert 0 < early < 20
    assert early + world.tick().queued == 20


# Rule 7


@pytest.mark.parametrize("code", [Unavailable.code, Conflict.code])
def test_rule_7_passing_failures_are_retried_inside_the_slot(world: World, code: str) -> None:
    world.add("web")
    world.clock.advance(2 * HOUR)
    waits = []
    ended = world.sync("failed", code)
    while ended.state is RunState.QUEUED:
        assert ended.not_before
        waits.append((ended.not_before - world.clock.now()) // MINUTE)
        assert world.start() == []
        world.clock.advance(ended.not_before - world.clock.now())
        [run] = world.start()
        next_end = world.end(run, "failed", code)
        assert next_end
        ended = next_end
    assert (waits, ended.state, ended.attempt) == ([1, 5, 25], RunState.FAILED, 4)
    assert [row["failures"] for row in world.read(tables.incidents)] == [1]


def test_rule_7_another_attempt_is_another_run_of_the_lake(world: World) -> None:
    world.add("web")
    request(world)
    [run] = world.start()
    failed = {"state": RunState.FAILED, "error_code": Unavailable.code, "lake_run": "17"}
    with world.database.write() as session:
        outcomes = {(run.id, run.attempt): Outcome.model_validate(failed)}
        [again] = end_runs(session, outcomes, world.clock.now())
    assert (again.attempt, again.lake_run, again.owner) == (2, "", "")
    assert again == world.runs()[0]


def test_rule_7_no_retry_when_the_next_slot_comes_first(world: World) -> None:
    world.add("web", Schedule(every_seconds=180))
    world.clock.advance(3 * MINUTE)
    assert world.sync("failed", Unavailable.code).state is RunState.QUEUED
    world.clock.advance(MINUTE)
    [again] = world.start()
    ended = world.end(again, "failed", Unavailable.code)
    assert ended
    assert ended.state is RunState.FAILED  # five minutes later would be two slots later


@pytest.mark.parametrize(
    "code", [LimitExceeded.code, InvalidSettings.code, InsufficientPermissions.code]
)
def test_rule_7_other_failures_wait_for_the_next_slot(world: World, code: str) -> None:
    world.add("web")
    world.clock.advance(2 * HOUR)
    assert world.sync("failed", code).state is RunState.FAILED


def test_rule_7_failures_are_noticed_1_5_20_then_daily_and_at_recovery(world: World) -> None:
    world.add("web", Schedule(every_seconds=7200))
    for _ in range(40):
        world.clock.advance(2 * HOUR)
        world.sync("failed", LimitExceeded.code)
    world.clock.advance(2 * HOUR)
    world.sync()
    [incident] = world.read(tables.incidents)
    assert (incident["failures"], incident["closed_at"]) == (40, world.clock.now())
    # The first slot was on 2 March; failures 21 to 40 were on 4 and 5 March.
    keys = ["1", "5", "20", "2026-03-04", "2026-03-05", "recovered"]
    events = ["sync_failed"] * 5 + ["recovered"]
    wanted = [f"incident/{incident['id']}/{key}" for key in keys]
    assert world.events() == list(zip(events, wanted, strict=True))


def test_rule_7_after_20_failures_that_need_a_person_only_checks_run(world: World) -> None:
    world.add("web")
    for _ in range(20):
        world.clock.advance(2 * HOUR)
        assert not world.sync("failed", InsufficientPermissions.code).check_first
    world.clock.advance(2 * HOUR)
    assert world.sync("failed", InsufficientPermissions.code).check_first
    world.clock.advance(2 * HOUR)
    assert world.sync().check_first  # the checks passed, and the sync after them
    world.clock.advance(2 * HOUR)
    assert not world.sync().check_first


def test_rule_7_after_20_other_failures_syncs_go_on(world: World) -> None:
    world.add("web")
    for _ in range(21):
        world.clock.advance(2 * HOUR)
        assert not world.sync("failed", LimitExceeded.code).check_first


def test_rule_7_partial_is_noticed_once_and_not_counted(world: World) -> None:
    world.add("web")
    for state in ("failed", "partial", "partial", "finished", "partial"):
        world.clock.advance(2 * HOUR)
        world.sync(state, LimitExceeded.code)
    shown = [(row["kind"], bool(row["closed_at"])) for row in world.read(tables.incidents)]
    assert shown == [("sync", True), ("partial", True), ("partial", False)]
    events = [event for event, _ in world.events()]
    assert events == ["sync_failed", "recovered", "sync_partial", "sync_partial"]


def test_an_attempt_ends_once(world: World) -> None:
    world.add("web")
    request(world)
    [run] = world.start()
    assert world.end(run, "failed", LimitExceeded.code)
    assert world.end(run) is None
    assert world.runs()[0].state is RunState.FAILED
    assert len(world.events()) == 1


# Rule 8


def test_rule_8_a_step_back_repeats_no_slot(world: World) -> None:
    world.add("web")
    world.clock.advance(2 * HOUR)
    world.sync()
    world.clock.advance(-HOUR)
    for _ in range(9):
        world.clock.advance(15 * MINUTE)
        world.tick()
    assert world.shown() == [("finished", "11:00", 1)]
    world.clock.advance(HOUR)
    assert world.tick().queued == 1
    assert world.events() == []


def test_rule_8_far_ahead_of_the_clock_is_reset_with_a_notice(world: World) -> None:
    """The clock was wrong by a day for a while: syncs do not stop for that day."""
    world.add("web")
    world.clock.advance(timedelta(days=1))
    world.sync()
    world.clock.advance(timedelta(days=-1))
    world.tick()
    world.tick()
    world.clock.advance(2 * HOUR)
    world.tick()
    assert world.shown() == [("finished", "09:00", 12), ("queued", "11:00", 1)]
    assert [event for event, _ in world.events()] == ["clock_set_back"]


# Rule 9


def test_rule_9_another_server_schedules_when_the_lease_has_ended(world: World) -> None:
    world.add("web")
    world.clock.advance(timedelta(seconds=29))
    assert take_lease(world.database, LEASE, "second") is None
    world.tick()
    world.clock.advance(timedelta(seconds=29))  # the tick has renewed it
    assert take_lease(world.database, LEASE, "second") is None
    world.clock.advance(timedelta(seconds=2))
    second = world.take_lease("second")
    assert second.epoch == world.lease.epoch + 1
    world.clock.advance(2 * HOUR)
    assert tick(world.database, world.clock, world.lease) is None  # it has not seen that it lost
    assert world.shown() == []
    world.lease = second
    world.tick()
    assert [run.epoch for run in world.runs()] == [second.epoch]


def test_rule_9_a_lease_is_taken_by_one_of_many(database: Database, clock: SimulatedClock) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: take_lease(database, LEASE, f"s{n}"), range(16)))
    [lease] = filter(None, taken)
    release_lease(database, lease)
    clock.advance(timedelta(seconds=1))
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: take_lease(database, LEASE, f"s{n}"), range(16)))
    assert [one.epoch for one in taken if one] == [2]


def test_rule_9_a_server_that_is_alone_does_not_wait(world: World) -> None:
    lease = take_lease(world.database, LEASE, "second", is_alone=True)
    assert lease
    assert lease.epoch == 2


def test_rule_9_a_second_server_on_a_sqlite_file_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from eventlake.control.leases import hold_file\n"
        "with hold_file(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "eventlake.db"
    command = [sys.executable, "-c", code, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(InvalidSettings, match=f"is in use by process {other.pid} on "),
            hold_file(path),
        ):
            pass
        other.kill()
    with hold_file(path):
        pass


def test_a_run_whose_worker_is_gone_is_found_and_retried(world: World) -> None:
    world.add("web")
    request(world)
    [run] = world.start()
    world.clock.advance(timedelta(seconds=50))
    with world.database.write() as session:
        assert renew_run(world.database, session, run) is RunState.RUNNING
    world.clock.advance(timedelta(seconds=50))
    with world.database.read() as session:
        assert find_lost(world.database, session) == []
    world.clock.advance(timedelta(seconds=11))
    with world.database.write() as session:
        [lost] = find_lost(world.database, session)
        [ended] = end_runs(session, {(lost.id, lost.attempt): LOST}, world.clock.now())
        assert renew_run(world.database, session, run) is None  # if it lives after all, it learns
    assert (ended.state, ended.attempt, ended.owner) == (RunState.QUEUED, 2, "")


# Rule 10


def test_rule_10_a_run_that_has_not_started_is_cancelled_at_once(world: World) -> None:
    world.add("web")
    first, second = request(world), request(world, wait=True)
    assert cancel(world, first).state is RunState.CANCELLED
    [started] = world.start()
    assert started.id == second.id
    with pytest.raises(Conflict, match=f"run {first.id} is cancelled already"):
        cancel(world, first)
    with pytest.raises(NotFound, match="run is 999"), world.database.read() as session:
        get_run(session, 999)


def test_rule_10_a_worker_is_asked_and_its_run_ends_cancelled(world: World) -> None:
    world.add("web")
    request(world)
    [run] = world.start()
    assert cancel(world, run).state is RunState.CANCELLING
    with world.database.write() as session:
        assert renew_run(world.database, session, run) is RunState.CANCELLING
    with pytest.raises(Conflict, match="is cancelling"):
        request(world)
    ended = world.end(run, "failed", Conflict.code)  # no retry
    assert ended
    assert (ended.state, ended.reason) == (RunState.CANCELLED, "asked by me")
    assert world.read(tables.incidents) == []


def test_rule_10_after_the_commit_it_is_too_late(world: World) -> None:
    world.add("web")
    request(world)
    [run] = world.start()
    cancel(world, run)
    ended = world.end(run)
    assert ended
    assert ended.state is RunState.FINISHED
    assert "cancelled too late" in ended.reason


def test_rule_10_a_run_over_its_limit_fails(world: World) -> None:
    world.add("web", Schedule(every_seconds=3600, max_seconds=600))
    request(world)
    [run] = world.start()
    for minutes, asked in ((10, 0), (1, 1), (1, 0)):
        world.clock.advance(minutes * MINUTE)
        with world.database.write() as session:
            assert cancel_overdue(session, world.clock.now()) == asked
    ended = world.end(run, "cancelled")
    assert ended
    assert (ended.state, ended.error) == (
        RunState.FAILED,
        "it took longer than max_seconds of its schedule",
    )
    assert [row["failures"] for row in world.read(tables.incidents)] == [1]


# Cost


def test_the_queries_of_every_second_use_the_index_of_active_runs(tmp_path: Path) -> None:
    """They cost the same after years of runs."""
    database = open_database(str(tmp_path / "eventlake.db"))
    migrate(database)
    asked: list[tuple[str, Any]] = []
    world = World(database, SimulatedClock(datetime(2026, 3, 2, tzinfo=UTC)))
    world.add("web")
    sa.event.listen(
        database.engine, "before_cursor_execute", lambda *given: asked.append(given[2:4])
    )
    world.clock.advance(2 * HOUR)
    world.sync()
    with database.read() as session:
        find_lost(database, session)
    about_runs = [one for one in asked if re.search(r"(FROM|UPDATE) runs", one[0])]
    assert len(about_runs) >= 6
    with database.read() as session:
        for statement, values in about_runs:
            given = values[0] if isinstance(values, list) else values
            plan = session.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given).all()
            steps = [str(step[-1]) for step in plan]
            assert not [one for one in steps if WHOLE_TABLE.match(one)], statement
    database.close()
