"""The scheduler of a server: when it ticks, and several servers of which some are killed."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from subprocess import Popen

import pytest
import sqlalchemy as sa

from eventlake.control import tables
from eventlake.control.database import Database, open_database
from eventlake.control.schedule import Schedule
from eventlake.control.scheduler_loop import SchedulerLoop
from tests.clocks import SimulatedClock
from tests.control.world import World
from tests.postgres import create_database

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MAX_TAKEOVER = timedelta(seconds=45)


@pytest.fixture
def world(database: Database, clock: SimulatedClock) -> World:
    world = World(database, clock)
    clock.advance(HOUR)  # the world's own lease has ended
    return world


def test_it_ticks_when_a_slot_is_due_and_to_renew_the_lease(world: World) -> None:
    world.add("web", Schedule(every_seconds=3600))
    loop = SchedulerLoop(world.database, "one", world.clock)
    ticks = []
    for second in range(3602):
        if loop.step():
            ticks.append(second)
        world.clock.advance(SECOND)
    assert 3600 in ticks
    assert all(9 <= after - before <= 11 for before, after in pairwise(ticks[:-1]))
    assert [run.slot for run in world.runs()] == [world.clock.now() - 2 * SECOND]


def test_a_changed_schedule_is_seen_within_a_second(world: World) -> None:
    loop = SchedulerLoop(world.database, "one", world.clock)
    assert loop.step()
    assert loop.step() is None
    world.add("web", Schedule(every_seconds=60))
    world.clock.advance(60 * SECOND)
    done = loop.step()
    assert done
    assert done.queued == 1


def test_one_of_two_servers_schedules_until_it_ends(world: World) -> None:
    world.add("web", Schedule(every_seconds=60))
    one, two = (SchedulerLoop(world.database, name, world.clock) for name in ("one", "two"))
    for _ in range(180):
        one.step()
        assert two.step() is None
        world.clock.advance(SECOND)
    one.run(iter([False, True]).__next__)
    world.clock.advance(SECOND)
    assert two.step()
    assert one.lease


def test_a_server_that_lost_the_lease_tries_to_get_it_again(world: World) -> None:
    one, two = (SchedulerLoop(world.database, name, world.clock) for name in ("one", "two"))
    one.step()
    world.clock.advance(HOUR)  # it was suspended
    assert two.step()
    assert one.step() is None
    assert one.lease is None
    world.clock.advance(HOUR)
    assert one.step()


def test_it_goes_on_after_the_database_was_away(world: World, tmp_path: Path) -> None:
    gone = open_database(f"postgresql://nobody@/x?host={tmp_path}")
    loop = SchedulerLoop(gone, "one", world.clock)
    loop.run(iter([False, False, True]).__next__)
    assert loop.lease is None


# Real processes

SERVER = """
import sys
from eventlake.control.database import open_database
from eventlake.control.scheduler_loop import SchedulerLoop
SchedulerLoop(open_database(sys.argv[1]), sys.argv[2]).run(lambda: False)
"""


def test_another_process_takes_over_within_45_seconds(migrated_postgres: str) -> None:
    """Three servers, of which the one that schedules is killed."""
    url = create_database(migrated_postgres, "takeover", "migrated")
    database = open_database(url)
    add_source_of_every_second(database)
    with ExitStack() as stack:
        servers = {}
        for name in ("one", "two", "three"):
            command = [sys.executable, "-c", SERVER, url, name]
            servers[name] = stack.enter_context(Popen(command))
            stack.callback(servers[name].kill)
        wait_for(lambda: len(claims(database)) > 2)
        holder = current_holder(database)
        os.kill(servers[holder].pid, signal.SIGKILL)
        killed = datetime.now(UTC)
        before = max(run.epoch for run in claims(database))
        wait_for(lambda: max(run.epoch for run in claims(database)) > before)
    rows = claims(database)
    database.close()
    taken_over = min(run.created_at for run in rows if run.epoch > before)
    assert taken_over - killed < MAX_TAKEOVER
    slots = [run.slot for run in rows]
    assert slots == sorted(set(slots))
    # Each run stands for all slots since the one before it.
    assert all((b.slot - a.slot) // SECOND == b.coalesced for a, b in pairwise(rows))


def add_source_of_every_second(database: Database) -> None:
    """Slots that a user cannot have so often, so that the test need not wait for minutes."""
    now = datetime.now(UTC)
    world = World(database, SimulatedClock(now))
    world.add("web")
    with database.write() as session:
        session.execute(
            tables.schedules.update().values(rule={"every_seconds": 1}, next_slot=now + SECOND)
        )
        session.execute(tables.leases.delete())


def claims(database: Database) -> list[sa.Row[tuple[int, datetime, datetime, int]]]:
    columns = (tables.runs.c[name] for name in ("epoch", "slot", "created_at", "coalesced"))
    with database.read() as session:
        return list(session.execute(sa.select(*columns).order_by(tables.runs.c.slot)))


def current_holder(database: Database) -> str:
    with database.read() as session:
        return session.execute(sa.select(tables.leases.c.holder)).scalar_one()


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)
