"""Random sequences of loads, late files, replays, retypes and drops: verify agrees after each.

In the end a replay of everything makes the lake equal to one loaded fresh from the raw logs.
"""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests import lakes
from tests.lakes import InlineRunner

from eventlake.model.settings import SourceSettings, source_settings
from eventlake.services.drop import drop
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype

SEQUENCES = 12
STEPS = 7
CONTENT = ("tables", "catalog", "quarantine", "ids", "strays", "problems")
EVENTS = ("Order Completed", "Signed Up")
VALUES: tuple[Any, ...] = (1, 2.5, "3", "x", True, None, "2026-11-01T00:00:00Z")


class Sequence:
    """A lake, the raw logs that it has loaded, and the users that are suppressed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random, self.lake = folder, Random(seed), folder / "lake"
        self.files: list[Path] = []
        self.settings = source_settings(source="web")
        self.suppressed: set[str] = set()
        self.is_dropped = False

    def load(self) -> None:
        """Land a new file, with ids that may have landed, before or after the others."""
        path = self.folder / f"{self.random.randrange(1000):03}-{len(self.files)}.gz"
        lines = [self._line() for _ in range(self.random.randrange(1, 12))]
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
        self.files.append(path)
        self._load_all()

    def _load_all(self) -> None:
        lakes.load(
            self.files, self.lake, settings=self.settings, suppressed=sorted(self.suppressed)
        )

    def _line(self) -> str:
        if self.random.random() < 0.1:
            return "{"
        hour, day = self.random.randrange(24), self.random.randrange(1, 20)
        event = {
            "type": "track",
            "event": self.random.choice(EVENTS),
            "messageId": f"m{self.random.randrange(25)}",
            "userId": f"u{self.random.randrange(6)}",
            "receivedAt": f"2026-11-{day:02}T{hour:02}:00:00Z",
            "properties": {"n": self.random.choice(VALUES)},
        }
        return json.dumps(event)

    def replay_window(self) -> None:
        first = self.random.randrange(1, 20)
        since, until = f"2026-11-{first:02}T05:00:00Z", f"2026-11-{first + 8:02}T07:00:00Z"
        names = self.random.choice(((), (), EVENTS[:1]))
        known = {table for commit in lakes.read_commits(self.lake) for table in _tables(commit)}
        events = [name for name in names if name.lower().replace(" ", "_") in known]
        self._replay(since=since, until=until, events=events, infer=self.random.random() < 0.5)

    def replay_all(self) -> None:
        partition = self.random.choice(("day", "day/hour", "year/month/day"))
        naming = self.random.choice(("segment", "native", "segment"))
        changes = {"date_partition": partition, "naming": naming}
        self._replay(all_time=True, changes=changes)
        self.settings = SourceSettings(source="web", **changes)

    def suppress(self) -> None:
        self.suppressed.add(f"u{self.random.randrange(6)}")
        self.replay_window()

    def retype(self) -> None:
        column = "properties_n" if self.settings.naming == "native" else "n"
        contents = lakes.read_contents(self.lake).catalog
        tables = [name for name, (columns, *_) in contents.items() if column in _names(columns)]
        if tables:
            kind = self.random.choice(("string", "decimal", "bigint", "boolean"))
            retype(f"web.{self.random.choice(tables)}", {column: kind}, lake=self.lake)

    def drop(self) -> None:
        drop("web", lake=self.lake)
        self._load_all()

    def _replay(self, **fields: Any) -> None:
        request = ReplayRequest("web", **fields)
        options = {"suppressed": sorted(self.suppressed), "where": InlineRunner()}
        assert replay(request, lake=self.lake, **options).status in ("finished", "nothing")


def _names(columns: Any) -> list[str]:
    return [one["name"] for one in columns]


def _tables(commit: Any) -> list[str]:
    return [one["table"]["name"] for one in commit.get("tables", ())]


STEP_WEIGHTS = {
    "load": 4,
    "replay_window": 3,
    "replay_all": 1,
    "suppress": 1,
    "retype": 1,
    "drop": 1,
}


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_random_sequence_ends_as_a_fresh_load(tmp_path: Path, seed: int) -> None:
    sequence = Sequence(tmp_path, seed)
    sequence.load()
    names = [name for name, weight in STEP_WEIGHTS.items() for _ in range(weight)]
    steps = [sequence.random.choice(names) for _ in range(STEPS)]
    for number, step in enumerate(steps):
        getattr(sequence, step)()
        problems = lakes.read_contents(sequence.lake).problems
        assert problems == (), (steps[: number + 1], problems)
    drop_pins(sequence)
    lakes.load(
        sequence.files,
        tmp_path / "fresh",
        settings=sequence.settings,
        suppressed=sorted(sequence.suppressed),
    )
    fresh = lakes.read_contents(tmp_path / "fresh")
    lakes.assert_same(lakes.read_contents(sequence.lake), fresh, CONTENT)


def drop_pins(sequence: Sequence) -> None:
    """Replay everything with inferred types; where types were set, drop first."""
    if "pins" in str([commit.keys() for commit in lakes.read_commits(sequence.lake)]):
        sequence.drop()
    sequence._replay(all_time=True, infer=True)
