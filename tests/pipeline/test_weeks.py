"""Weeks of collecting and syncing, with a clock that the test sets."""

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.clocks import SimulatedClock
from tests.collect.parts.test_app import ask, basic
from tests.lakes import InlineRunner, assert_complete

from eventlake.collect.limits import Limits
from eventlake.collect.server import Collector
from eventlake.collect.settings import CollectorSettings, ServedSource
from eventlake.ledger import DEAD_AFTER, Lease, Ledger, lease_path, list_staged_runs
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import source_settings
from eventlake.services.load import LoadResult, sync
from eventlake.services.read import open_lake
from eventlake.stores import Disk

START = datetime(2027, 3, 1, 0, 30, tzinfo=UTC)
WEB = ServedSource(source_settings(source="web"), ("the-key",))


@dataclass
class World:
    """A collector and a lake under one clock."""

    root: Path
    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(START))

    @property
    def store(self) -> Disk:
        return Disk(str(self.root))

    def send(self, *ids: str) -> None:
        """Send an event for each message id; they are in the archive afterwards."""
        asyncio.run(self._send(ids))

    async def _send(self, ids: tuple[str, ...]) -> None:
        settings = CollectorSettings(self.store, limits=Limits(), clock=self.clock)
        collector = Collector(settings, [WEB])
        batch = [{"type": "page", "userId": "u", "messageId": one} for one in ids]
        answer = await ask(collector.app, "POST", "/v1/batch", {"batch": batch}, basic())
        assert answer.status == 200
        await collector.close()

    def sync(self) -> LoadResult:
        return sync("web", lake=self.root, where=InlineRunner(), clock=self.clock)


def test_three_weeks_of_syncs(tmp_path: Path) -> None:
    """Every id is sent again six days later, a duplicate, and after eight days, when it lands."""
    world = World(tmp_path / "lake")
    steps, day = 21 * 2, 2
    landed = duplicates = 0
    for number in range(steps):
        early, late = number - 6 * day, number - 8 * day
        world.send(str(number), *(str(one) for one in (early, late) if one >= 0))
        counts = world.sync().counts
        assert counts.received == 1 + (early >= 0) + (late >= 0)
        assert counts.duplicates == (early >= 0), "six days are within the window"
        assert counts.landed == 1 + (late >= 0), "eight days are not"
        landed, duplicates = landed + counts.landed, duplicates + counts.duplicates
        world.clock.advance(timedelta(hours=12))
    assert (landed, duplicates) == (steps + steps - 8 * day, steps - 6 * day)
    assert assert_complete(world.root).rows == landed
    days = [f"{START + timedelta(days=n):%Y-%m-%d}" for n in range(21)]
    lake = open_lake(world.root)
    rows = lake.query("select day, count(*) as n from web.page group by day order by day")
    assert rows["day"].to_pylist() == days
    assert rows["n"].to_pylist() == [2] * 8 + [4] * 13
    reports = sorted((world.root / "segment-data/reports").iterdir())
    assert [one.name for one in reports] == [f"day={one}" for one in days]
    assert all(len(list(one.glob("*/*/report.json"))) == 2 for one in reports)
    check_index(world)


def check_index(world: World) -> None:
    """Merged files of the id index are deleted after a day, by the clock of the runs."""
    state = Ledger(world.store, DEFAULT_LAYOUT, "web").read_state()
    files = {one.path for one in world.store.objects("segment-data/ledger/web/ids")}
    assert files == {one.path for one in state.ids} | state.retired.keys()
    ages = [world.clock.time_ns() - int(run) for run in state.retired.values()]
    assert all(age <= 48 * 3600 * 10**9 for age in ages)
    assert len(state.ids) < 42


def test_a_lease_expires_by_the_clock(tmp_path: Path) -> None:
    """A run on another machine has stopped renewing its lease."""
    world = World(tmp_path / "lake")
    run_id = f"{world.clock.time_ns():019d}"
    lease = Lease(folder="web", host="elsewhere", pid=1)
    world.store.write(lease_path(DEFAULT_LAYOUT, run_id), lease.to_json())
    renewed = world.clock.now().timestamp()
    os.utime(world.root / lease_path(DEFAULT_LAYOUT, run_id), (renewed, renewed))
    for wait, staged in ((DEAD_AFTER, [run_id]), (timedelta(seconds=1), [])):
        world.clock.advance(wait)
        world.send(f"after {wait}")
        assert world.sync().status == "finished"
        assert list_staged_runs(Ledger(world.store, DEFAULT_LAYOUT, "web")) == staged
    abandoned = Ledger(world.store, DEFAULT_LAYOUT, "web").read_commit(2).abandons
    assert abandoned == (run_id,)
