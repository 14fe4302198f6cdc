"""The servers on one database: who is alive, who leads, since when."""

from datetime import timedelta

from eventlake.control.database import Database
from eventlake.control.leases import TIME_TO_LIVE, take_lease
from eventlake.control.replicas import SHOWN_FOR, Heartbeat, Replica, list_replicas
from eventlake.control.scheduler import LEASE
from tests.clocks import SimulatedClock


def listed(database: Database) -> list[Replica]:
    with database.read() as session:
        return list_replicas(database, session)


def test_of_several_servers_one_leads(database: Database, clock: SimulatedClock) -> None:
    first = Heartbeat(database, "a:1", ("worker", "api"), "1.0", clock)
    first.beat()
    began = clock.now()
    clock.advance(timedelta(minutes=1))
    Heartbeat(database, "b:1", ("collector",), "1.1", clock).beat()
    take_lease(database, LEASE, "a:1")
    first.beat()
    one, other = listed(database)
    assert (one.name, one.parts, one.version) == ("a:1", ("api", "worker"), "1.0")
    assert (one.started_at, one.seen_at, one.is_alive) == (began, clock.now(), True)
    assert (one.leads, other.leads) == ((LEASE,), ())


def test_a_server_that_vanished_is_shown_for_a_day(
    database: Database, clock: SimulatedClock
) -> None:
    Heartbeat(database, "a:1", (), "1", clock).beat()
    take_lease(database, LEASE, "a:1")
    clock.advance(TIME_TO_LIVE + timedelta(seconds=1))
    (gone,) = listed(database)
    assert (gone.is_alive, gone.leads) == (False, ())
    clock.advance(SHOWN_FOR)
    Heartbeat(database, "b:1", (), "1", clock).beat()
    assert [one.name for one in listed(database)] == ["b:1"]


def test_a_new_server_with_the_name_of_a_dead_one_has_its_own_start(
    database: Database, clock: SimulatedClock
) -> None:
    Heartbeat(database, "a:1", (), "1", clock).beat()
    clock.advance(timedelta(minutes=5))
    Heartbeat(database, "a:1", (), "2", clock).beat()
    (one,) = listed(database)
    assert (one.started_at, one.version) == (clock.now(), "2")


def test_a_server_that_ends_removes_itself(database: Database, clock: SimulatedClock) -> None:
    beats = iter((False, False, True))
    Heartbeat(database, "a:1", (), "1", clock).run(lambda: next(beats))
    assert listed(database) == []
