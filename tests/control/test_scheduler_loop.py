"""The scheduler of a server: when it ticks, and several servers of which some are killed."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from eventlake.control.database import Database, open_database
from eventlake.control.schedule import Schedule
from eventlake.control.scheduler_loop import SchedulerLoop
from tests.clocks import SimulatedClock
from tests.control.world import World

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
