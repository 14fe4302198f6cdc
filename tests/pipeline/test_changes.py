"""Random sequences of everything that changes a lake, with kills: it stays true to its raw logs.

`verify` agrees after them, nothing is left of forgotten users, and a replay of everything makes the
lake equal to one loaded fresh, except that redriven lines have left the quarantine.
`EVENTLAKE_SEQUENCES` sets how many are run.
"""

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from tests import lakes
from tests.lakes import InlineRunner, LakeContents, Place
from tests.stores import WatchedDisk

from eventlake.cli.rows import decode_rows
from eventlake.lake import Lake
from eventlake.ledger import Ledger
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import SourceSettings
from eventlake.services.compact import compact
from eventlake.services.drop import drop
from eventlake.services.forget import forget
from eventlake.services.read import open_lake
from eventlake.services.redrive import RedriveRequest, redrive
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype, retype_request
from eventlake.stores import Disk

SEQUENCES = int(os.environ.get("EVENTLAKE_SEQUENCES", "200"))
STEPS = 5
KILLS = 0.4
"""The share of steps that are killed, or would be if they made more changes."""
MAX_CHANGES = 40
"""About as many changes of the lake as a step makes."""
CONTENT = ("tables", "catalog", "ids", "strays")
EVENTS = ("Order Completed", "Signed Up")
DAYS = (1, 2, 12)
"""The last is more than `dedup_days` after the others."""
VALUES: tuple[Any, ...] = (1, 2.5, "3", "x", True, None, "2024-11-01T00:00:00Z")
MISTAKES: tuple[dict[str, Any], ...] = (
    {"receivedAt": "yesterday"},
    {"receivedAt": None, "event": ""},
    {"event": None},
    {"type": "call"},
    {"messageId": None},
)
CHANGES = ("write", "write_staged", "create", "update", "publish", "delete")


class Killed(BaseException):
    """Ends a run at once: nothing of it may handle this."""


@dataclass
class KillSwitch:
    """Listens to a store, and lets every operation fail from the n-th change on."""

    changes: int

    def __call__(self, operation: str, path: str) -> None:
        if operation in CHANGES:
            self.changes -= 1
        if self.changes < 0:
            raise Killed


@dataclass
class World:
    """A lake, the raw logs that belong in it, and the users that are suppressed."""

    folder: Path
    random: Random
    table_format: Literal["parquet", "delta"] = "parquet"
    suppressed: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def place(self) -> Place:
        return lakes.delta(self.lake) if self.table_format == "delta" else self.lake

    @property
    def raw(self) -> Path:
        """The folder of raw logs: a forget changes the names of those that it rewrites."""
        return self.folder / "raw"

    @property
    def redriven(self) -> Path:
        """The folder of the lake with the lines that were redriven."""
        return self.lake / "segment-logs" / "web"

    @property
    def ledger(self) -> Ledger:
        return Ledger(Disk(str(self.lake)), DEFAULT_LAYOUT, "web")

    @property
    def settings(self) -> SourceSettings:
        return self.ledger.read_settings() or SourceSettings(source="web")

    def tables(self) -> dict[str, list[str]]:
        """The columns of each table."""
        tables = self.ledger.read_state().tables
        return {name: sorted(table.types) for name, table in sorted(tables.items())}

    def open(self, changes: int) -> Lake:
        """The lake, for a run that is killed after so many changes."""
        return WatchedDisk(str(self.lake), KillSwitch(changes)).lake(self.table_format)

    def bury(self) -> None:
        """Let the runs that were killed look dead: their process, which is this one, lives on."""
        for path in self.lake.glob("segment-stage/*/lease.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 0}))


# The operations: each takes the world, and the lake, in which it may be killed


def load_new(world: World, lake: Lake) -> None:
    """Load a new file, with ids that may have landed, before or after the others."""
    world.raw.mkdir(exist_ok=True)
    number = len([*world.raw.iterdir()])
    path = world.raw / f"{world.random.randrange(1000):03}-{number}.gz"
    lines = [make_line(world.random) for _ in range(world.random.randrange(1, 10))]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    load_all(world, lake)


def load_all(world: World, lake: Lake) -> None:
    """Load what is new, or new again after a drop: raw logs, and lines that were redriven."""
    result = lakes.load([world.raw], lake, suppressed=sorted(world.suppressed))
    assert result.status in ("finished", "nothing"), result.message
    if world.redriven.exists():
        assert lakes.sync(lake).status in ("finished", "nothing")


def make_line(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(("{", "[]", "1"))
    received = f"2024-11-{random.choice(DAYS):02}T{random.randrange(2):02}:00:00Z"
    event = {
        "type": "track",
        "event": random.choice(EVENTS),
        "messageId": f"m{random.randrange(25)}",
        "userId": f"u{random.randrange(6)}",
        "receivedAt": received,
        "properties": {"n": random.choice(VALUES)},
    }
    mistake = random.choice(MISTAKES) if random.random() < 0.2 else {}
    return json.dumps(event | mistake)


def replay_window(world: World, lake: Lake) -> None:
    first, days = world.random.choice(DAYS), world.random.choice((0, 1, 10))
    since, until = f"2024-11-{first:02}T01:00:00Z", f"2024-11-{first + days:02}T02:00:00Z"
    tables = list(world.tables())
    events = world.random.choice(((), (), tables[:1]))
    infer = world.random.random() < 0.5
    run_replay(world, lake, since=since, until=until, events=events, infer=infer)


def replay_all(world: World, lake: Lake) -> None:
    """Build the source again, with settings that are fixed otherwise."""
    partition = world.random.choice(("day", "day/hour", "year/month/day"))
    naming = world.random.choice(("segment", "native", "segment"))
    changes = {"date_partition": partition, "naming": naming}
    if world.table_format == "delta":  # the partition columns of a Delta table cannot change
        changes.pop("date_partition")
    run_replay(world, lake, all_time=True, changes=changes)


def run_replay(world: World, lake: Lake, **fields: Any) -> None:
    request, users = ReplayRequest("web", **fields), sorted(world.suppressed)
    result = replay(request, lake=lake, where=InlineRunner(), suppressed=users)
    assert result.status in ("finished", "nothing"), result.message


def suppress_user(world: World, lake: Lake) -> None:
    world.suppressed.add(f"u{world.random.randrange(6)}")
    replay_window(world, lake)


def retype_column(world: World, lake: Lake) -> None:
    column = "properties_n" if world.settings.naming == "native" else "n"
    tables = [name for name, columns in world.tables().items() if column in columns]
    if tables:
        kind = world.random.choice(("string", "decimal", "bigint", "boolean"))
        table = f"web.{world.random.choice(tables)}"
        if world.table_format == "delta":
            request = retype_request(table, {column: kind}, lake=lake)
            replay(request, lake=lake, where=InlineRunner(), suppressed=sorted(world.suppressed))
            return
        result = retype(table, {column: kind}, lake=lake)
        assert result.status == "finished", result.message


def drop_source(world: World, lake: Lake) -> None:
    assert drop("web", lake=lake).status in ("finished", "nothing")
    load_all(world, lake)


def compact_source(world: World, lake: Lake) -> None:
    for result in compact(lake=lake, where=InlineRunner(), older_than="0s"):
        assert result.status in ("finished", "nothing"), result.message


def forget_user(world: World, lake: Lake) -> None:
    user = f"u{world.random.randrange(6)}"
    world.suppressed.add(user)
    world.forgotten.add(user)
    assert forget(user, lake=lake).status in ("finished", "nothing")


def redrive_lines(world: World, lake: Lake) -> None:
    """Correct lines of the quarantine, with fields or one by one."""
    day = world.random.randrange(1, 8)
    reasons, fields = world.random.choice(
        (
            (["no_received_at"], [f"receivedAt=2024-11-{day:02}T01:00:00Z"]),
            ([], ["event=Signed Up", "properties.n=7"]),
            (["bad_type", "no_event_name"], ["type=page"]),
            (None, ()),
        )
    )
    if not world.ledger.list_quarantine():
        return
    if reasons is None:
        request = RedriveRequest("web", corrected=correct_lines(world))
    else:
        request = RedriveRequest("web", reasons, fields=fields)
    result = redrive(request, lake=lake, where=InlineRunner())
    # It fails if none of the selected lines can be corrected.
    assert result.status in ("finished", "nothing") or result.left, result.message


def correct_lines(world: World) -> Path:
    """Write the quarantine with valid lines for some of the invalid ones."""
    rows = decode_rows(open_lake(world.place).quarantine("web"))
    for row in rows:
        if world.random.random() < 0.5:
            row["raw"] = make_line(world.random)
    path = world.folder / "corrected.json"
    path.write_text(json.dumps(rows))
    return path


OPERATIONS: Mapping[Callable[[World, Lake], None], int] = {
    load_new: 5,
    replay_window: 3,
    compact_source: 3,
    redrive_lines: 3,
    forget_user: 2,
    replay_all: 1,
    suppress_user: 1,
    retype_column: 1,
    drop_source: 1,
}
"""Everything that changes a lake, and how often it is chosen."""


def run_step(world: World, operation: Callable[[World, Lake], None]) -> str:
    """Run an operation, which may be killed; return its name."""
    is_killed = world.random.random() < KILLS and world.lake.exists()
    changes = world.random.randrange(MAX_CHANGES) if is_killed else 1 << 62
    try:
        operation(world, world.open(changes))
    except Killed:
        world.bury()
        return f"{operation.__name__}, killed at change {changes}"
    return operation.__name__


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_random_sequence_ends_as_a_fresh_load(tmp_path: Path, seed: int) -> None:
    check_sequence(World(tmp_path, Random(seed)))


@pytest.mark.parametrize("seed", range(SEQUENCES // 25))
def test_a_random_sequence_of_a_lake_with_delta_tables(tmp_path: Path, seed: int) -> None:
    check_sequence(World(tmp_path, Random(seed), "delta"))


def check_sequence(world: World) -> None:
    operations, weights = list(OPERATIONS), list(OPERATIONS.values())
    steps = [run_step(world, load_new)]
    for operation in world.random.choices(operations, weights, k=STEPS):
        steps.append(run_step(world, operation))
    untouched = world.open(1 << 62)
    load_all(world, untouched)
    for user in sorted(world.forgotten):  # those whose forget was killed before it was recorded
        forget(user, lake=untouched)
    assert open_lake(world.place).verify("web").problems == (), steps
    assert_forgotten(world)
    if world.ledger.read_state().pinned:  # types that are set outlive all but a drop
        drop_source(world, untouched)
    run_replay(world, untouched, all_time=True, infer=True)
    fresh, users = world.folder / "fresh", sorted(world.suppressed)
    logs = [one for one in (world.raw, world.redriven) if one.exists()]
    place = lakes.delta(fresh) if world.table_format == "delta" else fresh
    lakes.load(logs, place, settings=world.settings, suppressed=users)
    ours, theirs = lakes.read_folder(world.lake), lakes.read_folder(fresh)
    lakes.assert_same(ours, theirs, CONTENT)
    assert_quarantined(world, count_quarantine(ours), count_quarantine(theirs))


def assert_forgotten(world: World) -> None:
    """Assert that no file of the lake and no raw log has the id of a forgotten user."""
    files = [path for root in (world.lake, world.raw) for path in root.rglob("*") if path.is_file()]
    for path in files:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        for user in world.forgotten:
            assert f'"{user}"'.encode() not in text, path


def count_quarantine(contents: LakeContents) -> "Counter[Any]":
    """Count the rows of a quarantine; raw logs are named as before a forget rewrote them."""
    rows: Counter[Any] = Counter()
    for (reason, detail, raw, file, line), count in contents.quarantine.items():
        rows[reason, detail, raw, re.sub(r"-r\d{19}", "", file), line] += count
    return rows


def assert_quarantined(world: World, ours: "Counter[Any]", fresh: "Counter[Any]") -> None:
    """Assert that the quarantine has all lines that are no events but those that were redriven."""
    commits = lakes.read_commits(world.lake)
    drops = [number for number, one in enumerate(commits) if one.get("kind") == "drop"]
    redriven: Counter[str] = Counter()
    for commit in commits[max(drops, default=0) :]:
        for by_reason in commit.get("unquarantined", {}).values():
            redriven.update(by_reason)
    missing = Counter(reason for reason, *_ in (fresh - ours).elements())
    assert not ours - fresh
    assert missing <= redriven if world.forgotten else missing == redriven
