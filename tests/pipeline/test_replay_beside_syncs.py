"""A replay of a week beside a sync every second: nothing is lost or doubled, and nobody waits."""

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tests import lakes
from tests.clocks import SimulatedClock
from tests.lakes import InlineRunner, Recorder
from tests.stores import WatchedDisk

from eventlake.lake import Lake
from eventlake.services.load import sync
from eventlake.services.replay import ReplayRequest, replay

START = datetime(2024, 11, 1, tzinfo=UTC)
WEEK = ReplayRequest("web", "2024-11-01", "2024-11-08")
FILES_PER_DAY = 12
OPERATIONS_PER_SYNC = 30
"""Operations of the replay's store in a second."""
SUPPRESSED = 3


class TickingClock(SimulatedClock):
    """Goes on by a microsecond whenever it is asked, so that no two runs have the same id."""

    def time_ns(self) -> int:
        self.advance(timedelta(microseconds=1))
        return super().time_ns()


def event(number: int, received: datetime, **fields: Any) -> dict[str, Any]:
    return {
        "type": "track",
        "event": f"Event {number % 3}",
        "messageId": f"m{number}",
        "receivedAt": f"{received:%Y-%m-%dT%H:%M:%S}Z",
        "userId": f"u{number % 10}",
        **fields,
    }


@dataclass
class Beside:
    """Syncs a source with a new file every second, whatever the replay is doing."""

    folder: Path
    clock: SimulatedClock
    numbers: Any = field(default_factory=lambda: count(1000))
    operations: int = 0
    is_syncing: bool = False
    syncs: int = 0

    def open(self) -> Lake:
        return replace(WatchedDisk(str(self.folder)).lake(), clock=self.clock)

    def archive(self, name: str, events: list[dict[str, Any]]) -> None:
        path = self.folder / f"segment-logs/web/2024-11-01/{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, events)).encode()))

    def __call__(self, operation: str, path: str) -> None:
        """Listen to the replay's store."""
        self.operations += 1
        if self.operations % OPERATIONS_PER_SYNC == 0 and not self.is_syncing:
            self.is_syncing = True
            self.sync()
            self.is_syncing = False

    def sync(self) -> None:
        """Land an event of now and a late one. A third repeats one of the week, which stays.

        The event of the first sync repeats one that the replay drops: of all these syncs, only this
        one depends on the replay.
        """
        self.clock.advance(timedelta(seconds=1))
        number = next(self.numbers)
        late = START + timedelta(minutes=number % 10_000)
        again = 10 * (number % 8) + (SUPPRESSED if number == 1000 else 4)
        events = [
            event(2 * number, self.clock.now(), userId="new", properties={f"p{number % 5}": 1}),
            event(2 * number + 1, late, userId="late"),
            event(again, START + timedelta(hours=2 * again), userId="again"),
        ]
        self.archive(f"sync-{number}", events)
        result = sync("web", lake=self.open(), where=InlineRunner())
        assert (result.status, result.counts.landed) == ("finished", 2), result.message
        self.syncs += 1


def test_a_week_is_replayed_beside_a_sync_every_second(tmp_path: Path) -> None:
    beside = Beside(tmp_path / "lake", TickingClock(START + timedelta(days=8)))
    for number in range(7 * FILES_PER_DAY):
        beside.archive(f"{number:03}", [event(number, START + timedelta(hours=2 * number))])
    assert sync("web", lake=beside.open(), where=InlineRunner()).counts.landed == 84
    steps = Recorder()
    busy = replace(WatchedDisk(str(beside.folder), beside).lake(), clock=beside.clock)
    user = f"u{SUPPRESSED}"
    result = replay(WEEK, lake=busy, where=InlineRunner(), suppressed=[user], progress=steps)
    assert result.status == "finished", result.message
    assert beside.syncs >= 20
    assert [stage for stage, _ in steps.steps].count("commit") == 2
    contents = lakes.assert_complete(beside.folder)
    rows = [dict_of(row) for rows in contents.tables.values() for row in rows.elements()]
    users = Counter(row["user_id"] for row in rows)
    assert users["new"] == users["late"] == beside.syncs
    assert (users[user], users["again"]) == (0, 1)
    assert users.total() == 84 - 8 + 2 * beside.syncs
    assert max(Counter(row["id"] for row in rows).values()) == 1


def dict_of(row: Any) -> dict[str, Any]:
    return {cell[0]: cell[-1] for cell in row}
