"""Everything that changes a lake, at random: operations, kills, and operations within others.

`World` has a lake and what belongs in it; `OPERATIONS` are what a step of a sequence may do.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import zstandard

from eventlake.cli.rows import decode_rows
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.ledger import Ledger
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.model.tunables import LedgerTunables
from eventlake.services.compact import compact
from eventlake.services.drop import drop
from eventlake.services.forget import forget, plan_forget
from eventlake.services.read import open_lake
from eventlake.services.redrive import RedriveRequest, redrive
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype, retype_request
from eventlake.stores import Disk
from eventlake.suppression import change_suppression_list, read_suppression_list
from tests import lakes
from tests.lakes import InlineRunner, Place
from tests.stores import WatchedDisk

SETTINGS = source_settings(source="shop", source_id="web", database="web")
"""Of a source whose tables have another folder if they are partitioned by slug."""
EVENTS = ("Order Completed", "Signed Up")
DAYS = (1, 2, 12)
"""The last is more than `dedup_days` after the others."""
DAY_FOLDER = "1730419200000"
USERS = [f"u{number}" for number in range(6)]
DEVICES = [f"a{number}" for number in range(4)]
VALUES: tuple[Any, ...] = (1, 2.5, "3", "x", True, None, "2024-11-01T00:00:00Z")
MISTAKES: tuple[dict[str, Any], ...] = (
    {"receivedAt": "yesterday"},
    {"receivedAt": None, "event": ""},
    {"event": None},
    {"type": "call"},
    {"messageId": None},
)
CHANGES = ("write", "write_staged", "create", "update", "publish", "delete")
NEVER = 1 << 62


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
class Interruption:
    """Listens to a store, and does something else before its n-th operation."""

    operations: int
    work: Callable[[], object]

    def __call__(self, operation: str, path: str) -> None:
        self.operations -= 1
        if self.operations == 0:
            self.work()


class LakeWithSnapshots(Lake):
    """A lake whose ledgers have many snapshots and manifests."""

    def ledger(self, folder: str) -> Ledger:
        tunables = LedgerTunables(snapshot_every=2, merge_manifests=2)
        return Ledger(self.store, self.layout, folder, tunables)


@dataclass
class World:
    """A lake, the raw logs that belong in it, and the users that are forgotten."""

    folder: Path
    random: Random
    table_format: Literal["parquet", "delta"] = "parquet"
    is_stable: bool = False
    """Whether events have ids and types of which the order of loads makes no difference."""
    is_archived: bool = False
    """Whether the raw logs are in the lake's archive, for syncs; else in a folder, for loads."""
    is_outdated: bool = False
    """Whether rows may be those of another suppression list, until a replay."""
    messages: int = 0
    """Message ids that were given out, if each is given once."""
    forgotten: set[str] = field(default_factory=set)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def place(self) -> Place:
        return lakes.delta(self.lake) if self.table_format == "delta" else self.lake

    @property
    def archive(self) -> Path:
        """The archive of the lake, which also has the lines that were redriven."""
        return self.lake / "segment-logs" / "web"

    @property
    def raw(self) -> Path:
        """The folder of raw logs: a forget changes the names of those that it rewrites."""
        # Of events with one id and time, the one in the first file is kept, in both lakes.
        return self.archive / DAY_FOLDER if self.is_archived else self.folder / "events"

    @property
    def logs(self) -> list[Path]:
        """The folders with all that a fresh lake is loaded from."""
        folders = [self.archive] if self.is_archived else [self.raw, self.archive]
        return [one for one in folders if one.exists()]

    @property
    def ledger(self) -> Ledger:
        return Ledger(Disk(str(self.lake)), DEFAULT_LAYOUT, "web")

    @property
    def settings(self) -> SourceSettings:
        return self.ledger.read_settings() or SETTINGS

    def suppressed(self) -> list[str]:
        """The suppressed users, also those of whom the lake has only a hash."""
        listed = read_suppression_list(Disk(str(self.lake))).matcher()
        return [user for user in (*USERS, *DEVICES) if user in listed]

    def tables(self) -> dict[str, list[str]]:
        """The columns of each table."""
        tables = self.ledger.read_state().tables
        return {name: sorted(table.types) for name, table in sorted(tables.items())}

    def open(self, listener: Callable[[str, str], None]) -> Lake:
        """The lake, for an operation whose accesses are told to `listener`."""
        lake = WatchedDisk(str(self.lake), listener).lake(self.table_format)
        return LakeWithSnapshots(**vars(lake))

    def bury(self, living: frozenset[str] = frozenset()) -> None:
        """Let the runs that were killed look dead: their process, which is this one, lives on."""
        for path in self.lake.glob("segment-stage/*/lease.json"):
            if path.parent.name not in living:
                path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 0}))

    def list_stages(self) -> frozenset[str]:
        return frozenset(path.name for path in self.lake.glob("segment-stage/*"))


# The operations: each takes the world, and the lake, in which it may be killed


def load_new(world: World, lake: Lake) -> None:
    """Load a new file, with ids that may have landed, before or after the others."""
    world.raw.mkdir(exist_ok=True, parents=True)
    pack = world.random.choice((gzip.compress, zstandard.compress, bytes))
    suffix = {gzip.compress: ".gz", zstandard.compress: ".zst", bytes: ".json"}[pack]
    name = f"{world.random.randrange(1000):03}-{len([*world.raw.iterdir()])}{suffix}"
    lines = [make_line(world) for _ in range(world.random.randrange(1, 10))]
    (world.raw / name).write_bytes(pack("\n".join(lines).encode()))
    load_all(world, lake)


def load_all(world: World, lake: Lake) -> None:
    """Load what is new, or new again after a drop: raw logs, and lines that were redriven."""
    if not world.is_archived and world.raw.exists():
        result = lakes.load([world.raw], lake, settings=SETTINGS)
        assert result.status in ("finished", "nothing"), result.message
    if world.archive.exists():
        assert lakes.sync(lake, "shop", changes=SETTINGS.given).status in ("finished", "nothing")


def make_line(world: World) -> str:
    random = world.random
    if random.random() < 0.1:
        return random.choice(("{", "[]", "1"))
    world.messages += 1
    event = {
        "type": "track",
        "event": random.choice(EVENTS),
        "messageId": f"m{world.messages if world.is_stable else random.randrange(25)}",
        "userId": random.choice(USERS),
        "anonymousId": random.choice(DEVICES),
        "receivedAt": f"2024-11-{random.choice(DAYS):02}T{random.randrange(2):02}:00:00Z",
        "properties": {"n": 1 if world.is_stable else random.choice(VALUES)},
    }
    if random.random() < 0.1:
        event |= {"type": "identify", "traits": {"email": f"{event['userId']}@example.com"}}
    if random.random() < 0.05:
        event |= {"type": "alias", "previousId": random.choice(DEVICES)}
    mistake = random.choice(MISTAKES) if random.random() < 0.2 else {}
    return json.dumps(event | mistake)


def replay_window(world: World, lake: Lake) -> None:
    first, days = world.random.choice(DAYS), world.random.choice((0, 1, 10))
    since, until = f"2024-11-{first:02}T01:00:00Z", f"2024-11-{first + days:02}T02:00:00Z"
    tables = list(world.tables())
    events = world.random.choice(((), (), tables[:1]))
    infer = not world.is_stable and world.random.random() < 0.5
    run_replay(lake, since=since, until=until, events=events, infer=infer)


def replay_all(world: World, lake: Lake) -> None:
    """Build the source again, with settings that are fixed otherwise."""
    partition = world.random.choice(("day", "day/hour", "year/month/day"))
    naming = world.random.choice(("segment", "native", "segment"))
    changes = {"date_partition": partition, "naming": naming}
    changes["partition_by_slug"] = world.random.choice(("true", "false"))
    if world.table_format == "delta":  # a Delta table keeps its partition columns and its folder
        changes = {"naming": naming}
    run_replay(lake, all_time=True, changes=changes)


def run_replay(lake: Lake, **fields: Any) -> None:
    result = replay(ReplayRequest("web", **fields), lake=lake, where=InlineRunner())
    assert result.status in ("finished", "nothing"), result.message


def suppress_user(world: World, lake: Lake) -> None:
    """Suppress a user, or no longer, and replay."""
    world.is_outdated = True
    listed, user = read_suppression_list(lake.store).users, world.random.choice(USERS)
    if listed and world.random.random() < 0.5:
        change_suppression_list(lake.store, lambda users: users.remove(listed[:1]))
    else:
        change_suppression_list(lake.store, lambda users: users.add([user]))
    replay_window(world, lake)


def retype_column(world: World, lake: Lake) -> None:
    column = "properties_n" if world.settings.naming == "native" else "n"
    tables = [name for name, columns in world.tables().items() if column in columns]
    if not tables or world.is_stable:
        return
    kind = world.random.choice(("string", "decimal", "bigint", "boolean"))
    table, types = f"web.{world.random.choice(tables)}", {column: kind}
    if world.table_format == "delta" or world.random.random() < 0.5:
        request = retype_request(table, types, lake=lake)
        assert replay(request, lake=lake, where=InlineRunner()).status in ("finished", "nothing")
    else:
        assert retype(table, types, lake=lake).status == "finished"


def drop_source(world: World, lake: Lake) -> None:
    assert drop("web", lake=lake).status in ("finished", "nothing")
    load_all(world, lake)


def compact_source(world: World, lake: Lake) -> None:
    for result in compact(lake=lake, where=InlineRunner(), older_than="0s"):
        assert result.status in ("finished", "nothing"), result.message


def forget_user(world: World, lake: Lake) -> None:
    user, also = world.random.choice(USERS), world.random.random() < 0.3
    planned = plan_forget(user, lake=lake, also_anonymous=also)
    world.forgotten.add(user)
    result = forget(user, lake=lake, also_anonymous=also)
    assert result.status in ("finished", "nothing"), result
    assert {*planned.ids} <= {*result.ids}


def redrive_lines(world: World, lake: Lake) -> None:
    """Correct lines of the quarantine, with fields or one by one."""
    day = world.random.randrange(1, 8)
    number = 1 if world.is_stable else 7
    reasons, fields = world.random.choice(
        (
            (["no_received_at"], [f"receivedAt=2024-11-{day:02}T01:00:00Z"]),
            ([], ["event=Signed Up", f"properties.n={number}"]),
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
    try:
        result = redrive(request, lake=lake, where=InlineRunner())
    except InvalidSettings:
        # An operation within this one has replaced the lines that the file names.
        assert request.corrected
        assert not name_lines(json.loads(request.corrected.read_text())) <= name_lines(
            decode_rows(open_lake(world.place).quarantine("web"))
        )
        return
    # It fails if none of the selected lines can be corrected.
    assert result.status in ("finished", "nothing") or result.left, result.message


def name_lines(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["run_id"], row["file"], row["line"]) for row in rows}


def correct_lines(world: World) -> Path:
    """Write the quarantine with valid lines for some of the invalid ones."""
    rows = decode_rows(open_lake(world.place).quarantine("web"))
    for row in rows:
        if world.random.random() < 0.5:
            row["raw"] = make_line(world)
    path = world.folder / "corrected.json"
    path.write_text(json.dumps(rows))
    return path


Operation = Callable[[World, Lake], None]

OPERATIONS: Mapping[Operation, int] = {
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


def choose_operation(random: Random) -> Operation:
    return random.choices([*OPERATIONS], [*OPERATIONS.values()])[0]
