"""Two weeks of 200 sources (60 in `make test`) in four zones: kills, clock changes, failures.

The weeks have a clock change of each direction: Berlin's in spring, and Sydney's in autumn. What
the slots are is computed here once more, minute by minute.
"""

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from eventlake.control import tables
from eventlake.control.connections import connect
from eventlake.control.database import Database
from eventlake.control.endings import LOST, end_runs
from eventlake.control.queue import find_lost
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState
from eventlake.control.schedule import Schedule, Timetable
from eventlake.control.scheduler import tick
from eventlake.control.sources import add_source
from eventlake.errors import InvalidSettings, LimitExceeded, Unavailable
from tests.clocks import SimulatedClock
from tests.control.world import Killed, World
from tests.tiers import IS_LONG, sweep

BEGIN = datetime(2026, 3, 25, 0, 0, 20, tzinfo=UTC)
END = BEGIN + timedelta(days=14)
LATER = END + timedelta(days=1)
"""The simulation ends before it, as kills take time."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney")
CRONS = ("30 2 * * *", "0 3 * * *", "0 */6 * * *", "15 * * * *", "0 2 * * 0", "45 23 * * *")
SOURCES, KILLS, STEPS = 200 if IS_LONG else 60, 1000, 24
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def make_schedule(number: int) -> Schedule:
    if number % 2:
        return Schedule(cron=CRONS[number // 2 % 6], zone=ZONES[number // 12 % 4])
    return Schedule(every_seconds=(7200, 7200, 14400, 3600)[number // 2 % 4])


@dataclass
class Fortnight:
    """The simulation. `world.clock` is the server's wall clock; the database has the true time."""

    world: World
    truth: SimulatedClock
    dice: random.Random = field(default_factory=lambda: random.Random(17))
    ends: dict[tuple[int, int], datetime] = field(default_factory=dict)
    starts: Counter[tuple[str, datetime | None, int]] = field(default_factory=Counter)
    kills: int = 0

    def pass_time(self, span: timedelta) -> None:
        self.truth.advance(span)
        self.world.clock.advance(span)

    def run(self) -> None:
        spans = list(self._spans())
        steps = set(range(10, len(spans) - 40, len(spans) // STEPS))
        kills = set(self.dice.sample(range(len(spans)), KILLS))
        for number, span in enumerate(spans):
            self.pass_time(span)
            if number in steps:  # a step of an hour, and later one back
                ahead = self.world.clock.now() - self.truth.now()
                step = -ahead if ahead else self.dice.choice((HOUR, -HOUR))
                self.world.clock.advance(step)
            if number in kills:
                self._be_killed()
            self.world.tick()
            self._work()
        assert self.world.clock.now() == self.truth.now() >= END

    def _spans(self) -> Iterator[timedelta]:
        total = timedelta(0)
        while total < END - BEGIN:
            span = timedelta(seconds=self.dice.randrange(60, 28 * 60))
            total += span
            yield span

    def _be_killed(self) -> None:
        """The scheduler dies at any statement of a tick; another takes over within 45 s."""
        with Killed(self.world.database, self.dice.randrange(9)):
            tick(self.world.database, self.world.clock, self.world.lease)
        self.kills += 1
        self.pass_time(timedelta(seconds=self.dice.randrange(31, 46)))
        self.world.lease = self.world.take_lease(f"server-{self.kills}")

    def _work(self) -> None:
        """End the runs whose time has come, and start others; workers are killed sometimes, too."""
        world, now = self.world, self.truth.now()
        with Killed(world.database, self.dice.randrange(200)), world.database.write() as session:
            due = [key for key, end in self.ends.items() if end <= now]
            outcomes = {key: self._outcome() for key in due}
            lost = find_lost(world.database, session)
            outcomes |= {(run.id, run.attempt): LOST for run in lost}
            end_runs(session, outcomes, world.clock.now())
            for key in due:
                del self.ends[key]
        started = world.start()
        self.starts.update((run.source_id, run.slot, run.attempt) for run in started)
        alive = [run.id for run in started if self._plan_end(run, now)]
        with world.database.write() as session:  # as if they renewed their leases
            session.execute(
                tables.runs.update()
                .where(tables.runs.c.id.in_(alive))
                .values(lease_until=now + 24 * HOUR)
            )

    def _outcome(self) -> Outcome:
        code = self.dice.choice((Unavailable.code, LimitExceeded.code, InvalidSettings.code))
        states = [RunState.FINISHED, RunState.FAILED, RunState.PARTIAL]
        state = self.dice.choices(states, (90, 8, 2))[0]
        return Outcome(state=state, error_code=code if state is RunState.FAILED else "")

    def _plan_end(self, run: Run, now: datetime) -> bool:
        """Plan when a run ends; False if it is lost. Some take longer than their interval."""
        kind = self.dice.random()
        if kind < 0.02:
            return False
        minutes = 300 if kind > 0.99 else self.dice.randrange(1, 30)
        self.ends[run.id, run.attempt] = now + minutes * MINUTE
        return True


@pytest.fixture
def clock() -> SimulatedClock:
    """The database's clock."""
    return SimulatedClock(BEGIN)


@sweep
def test_no_slot_is_lost_or_doubled_in_two_weeks(database: Database, clock: SimulatedClock) -> None:
    world = World(database, SimulatedClock(BEGIN))
    enabled = add_sources(world)
    fortnight = Fortnight(world, clock)
    fortnight.run()
    assert fortnight.kills == KILLS
    assert max(fortnight.starts.values()) == 1
    check_slots(world, enabled)
    states = Counter(run.state for run in world.runs())
    assert {"finished", "failed", "partial", "skipped"} <= states.keys()
    assert states["running"] < SOURCES


def add_sources(world: World) -> dict[str, datetime]:
    """Add sources that are enabled; return when each was."""
    dice, enabled = random.Random(5), {}
    with world.database.write() as session:
        for number in range(SOURCES):
            source = add_source(session, f"source-{number}", BEGIN)
            connect(session, source.slug, "main", {}, BEGIN)
            schedule = make_schedule(number)
            at = BEGIN - timedelta(seconds=dice.randrange(7200))
            enabled[source.id] = at
            session.execute(
                tables.schedules.update()
                .where(tables.schedules.c.source_id == source.id)
                .values(
                    rule=schedule.model_dump(mode="json"),
                    enabled_at=at,
                    considered_to=BEGIN,
                    next_slot=Timetable(schedule, at, source.id).next_slot(BEGIN),
                )
            )
    return enabled


# What must be true


def check_slots(world: World, enabled: dict[str, datetime]) -> None:
    """Every slot has a run, or is counted in the next one; no run has a slot of its own making."""
    rules = {row["source_id"]: Schedule(**row["rule"]) for row in world.read(tables.schedules)}
    claimed: dict[str, list[Run]] = {source_id: [] for source_id in rules}
    for run in world.runs():
        claimed[run.source_id].append(run)
    total = 0
    for source_id, rows in claimed.items():
        slots = expected_slots(rules[source_id], enabled[source_id])
        slots = slots[: bisect_right(slots, world.clock.now())]
        total += len(slots)
        rows.sort(key=lambda run: run.slot or BEGIN)
        number = 0
        for run in rows:
            assert run.slot in slots, (rules[source_id], run)
            until = bisect_right(slots, run.slot)
            assert 0 < until - number <= run.coalesced, (rules[source_id], run)
            number = until
        assert number == len(slots), (rules[source_id], slots[number:])
    assert total > 14 * SOURCES * 7


def expected_slots(schedule: Schedule, enabled_at: datetime) -> list[datetime]:
    if schedule.cron:
        return cron_slots(schedule.cron, schedule.zone)
    every = timedelta(seconds=schedule.every_seconds)
    slots = []
    while enabled_at <= LATER:
        slots += [enabled_at] if enabled_at > BEGIN else []
        enabled_at += every
    return slots


@cache
def local_minutes(zone: str) -> list[datetime]:
    begin, count = BEGIN.replace(second=0), (LATER - BEGIN) // MINUTE + 1
    return [(begin + n * MINUTE).astimezone(ZoneInfo(zone)) for n in range(count)]


@cache
def cron_slots(expression: str, zone: str) -> list[datetime]:
    """Look at the wall clock each minute.

    Fixed hours: the first minute of a day at which the clock shows the time or a later one; others:
    each minute at which it shows it.
    """
    minute, hour, _, _, weekday = expression.split()
    slots, done = [], {local_minutes(zone)[0].date()} if hour.isdecimal() else set()
    if hour.isdecimal() and local_minutes(zone)[0].time().hour < int(hour):
        done.clear()
    for local in local_minutes(zone):
        if weekday != "*" and local.isoweekday() % 7 != int(weekday):
            continue
        if hour.isdecimal():
            is_slot = (local.hour, local.minute) >= (int(hour), int(minute))
            is_slot = is_slot and local.date() not in done
            done |= {local.date()} if is_slot else set()
        else:
            step = 1 if hour == "*" else int(hour.removeprefix("*/"))
            is_slot = local.minute == int(minute) and local.hour % step == 0
        slot = local.astimezone(UTC)
        if is_slot and slot > BEGIN:
            slots.append(slot)
    return slots
