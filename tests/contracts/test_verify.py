"""The second opinion, over small lakes made by hand, on disk and in a bucket."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import eventlake.verify
from eventlake.archive import lake_address
from eventlake.errors import InvalidSettings
from eventlake.lakes import open_store
from eventlake.model.commit import Commit, Counts, DataFile, Input, StagedFile, TableCommit
from eventlake.model.layout import DEFAULT_LAYOUT, data_path, partition_path
from eventlake.model.naming import Call
from eventlake.model.schema import new_table
from eventlake.model.settings import SourceSettings
from eventlake.stores import Disk, Store
from eventlake.verify import LakeFiles, TableCheck, Verification, verify
from eventlake.verify.events import InvalidLineError, read_event
from tests import adversary, oracle
from tests.aws.moto import Aws, aws

__all__ = ["aws"]

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TICK = timedelta(microseconds=1)


def line(identity: str, at: datetime = NOON, event: str = "Signed Up", **fields: Any) -> bytes:
    head = {"type": "track", "event": event, "messageId": identity, "receivedAt": at.isoformat()}
    return json.dumps(head | fields).encode()


@dataclass(frozen=True)
class Row:
    """A row as it lies in the lake; `folder` is the moment whose partition it is in."""

    id: str
    at: datetime = NOON
    table: str = "signed_up"
    folder: datetime | None = None


@dataclass
class Lake:
    """A lake that is whatever a test says it is: made on disk, and put into its store."""

    root: Path
    store: Store
    settings: SourceSettings = field(
        default_factory=lambda: SourceSettings(source="web", source_id="src1")
    )
    commits: int = 0
    elsewhere: Callable[[Path], str] | None = None
    """The addresses of an archive that is not in the lake."""
    quarantined: str = ""
    """The quarantine file of the next commit."""

    def archive(self, name: str, content: bytes) -> Path:
        path = self.root / "my logs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def gz(self, *lines: bytes) -> Path:
        return self.archive(f"{self.commits + 1}.gz", gzip.compress(b"\n".join(lines)))

    def address(self, path: Path) -> str:
        if self.elsewhere:
            return self.elsewhere(path)
        return lake_address(path.relative_to(self.root).as_posix())

    def commit(self, paths: Path | list[Path], rows: Iterable[Row], **counts: int) -> Commit:
        """Write rows and the commit that says so; what landed is counted, the rest is told."""
        self.commits += 1
        tables = self._write(list(rows))
        landed = sum(file.rows for files in tables.values() for file in files)
        books = {"landed": landed, "rescued": 0} | counts
        books = {"received": sum(books.values()) - books["rescued"]} | books
        inputs = [paths] if isinstance(paths, Path) else paths
        made = Commit(
            run_id=self.run,
            settings=self.settings,
            inputs=tuple(Input(uri=self.address(p), fingerprint="f", size=1) for p in inputs),
            counts=Counts(**books),
            tables=tuple(self._table(name, files) for name, files in tables.items()),
            quarantine=StagedFile(staged="", path=self.quarantined) if self.quarantined else None,
        )
        self.quarantined = ""
        self.ledger.mkdir(parents=True, exist_ok=True)
        (self.ledger / f"{self.commits:012d}.json").write_bytes(made.to_json())
        return made

    @property
    def run(self) -> str:
        return str(1_793_534_400_000_000_000 + self.commits)

    @property
    def ledger(self) -> Path:
        return self.root / "segment-data/ledger" / self.settings.folder

    def _write(self, rows: list[Row]) -> dict[str, list[DataFile]]:
        groups = defaultdict(list)
        for row in rows:
            partition = self.settings.date_partition.values(micros(row.folder or row.at))
            groups[row.table, tuple(partition.items())].append(row)
        tables = defaultdict(list)
        for (table, partition), group in groups.items():
            home = f"{DEFAULT_LAYOUT.data}/{self.settings.folder}/segment_type={table}"
            path = data_path(home, dict(partition), self.run, 1)
            self.write(path, group)
            size = (self.root / path).stat().st_size
            file = DataFile(path=path, rows=len(group), bytes=size, partition=dict(partition))
            tables[table].append(file)
        return tables

    def write(self, path: str, rows: list[Row]) -> None:
        native = self.settings.naming == "native"
        ids = pa.array([row.id for row in rows], pa.string())
        times = pa.array([micros(row.at) for row in rows], pa.int64())
        columns = {
            "message_id" if native else "id": ids,
            "received_at": times.cast(pa.timestamp("us", tz="UTC")),
        }
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), self.root / path)

    def _table(self, name: str, files: list[DataFile]) -> TableCommit:
        rows = sum(file.rows for file in files)
        return TableCommit(
            table=new_table(name, Call.TRACK, self.settings.naming),
            counts=Counts(received=rows, landed=rows),
            adds=tuple(files),
        )

    def quarantine(self, *reasons: str) -> None:
        """What the next commit's run kept of lines that are no events."""
        run = str(int(self.run) + 1)
        self.quarantined = DEFAULT_LAYOUT.quarantine_path(self.settings.folder, run)
        path = self.root / self.quarantined
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"reason": reasons, "run_id": [run] * len(reasons)}), path)

    @property
    def place(self) -> LakeFiles:
        if not isinstance(self.store, Disk):
            for file in filter(Path.is_file, self.root.rglob("*")):
                self.store.write(file.relative_to(self.root).as_posix(), file.read_bytes())
        return LakeFiles(*self.store.filesystem())

    def verify(self) -> Verification:
        return verify(self.place, "web")


def micros(at: datetime) -> int:
    return (at - EPOCH) // TICK


@pytest.fixture(params=["disk", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "disk":
        return Lake(tmp_path, Disk(str(tmp_path)))
    here: Aws = request.getfixturevalue("aws")
    return Lake(tmp_path, open_store(here.settings()))


def only(found: Verification) -> TableCheck:
    (table,) = found.tables
    return table


def problem(found: Verification) -> str:
    (sentence,) = found.problems
    assert not found.ok
    return sentence


# A lake that is as it should be


def test_a_good_lake(lake: Lake) -> None:
    identify = line("b", NOON + HOUR, type="identify")
    lake.commit(lake.gz(line("a"), b" ", identify), [Row("a"), Row("b", NOON + HOUR, "identify")])
    lake.commit(lake.gz(line("c")), [Row("c")])
    found = lake.verify()
    assert found == Verification(
        source="web",
        files_read=2,
        lines=3,
        events=3,
        landed=3,
        expected=3,
        tables=(
            TableCheck(table="identify", expected=1, found=1),
            TableCheck(table="signed_up", expected=2, found=2),
        ),
        problems=(),
    )
    assert found.ok


def test_it_tells_how_far_it_is(lake: Lake) -> None:
    path = lake.gz(line("a"))
    lake.commit(path, [Row("a")])
    said: list[str] = []
    verify(lake.place, "web", said.append)
    assert said == ["reading the tables", f"reading {path.relative_to(lake.root)}", "comparing"]


def test_other_settings(lake: Lake) -> None:
    lake.settings = SourceSettings(
        source="web",
        naming="native",
        table_prefix="px",
        date_partition="year/month/day/hour",
    )
    lines = line("a"), line("b", type="page"), line("c", event="注文")
    tables = "track_signed_up", "page", "track_event_662dbb2d"
    lake.commit(lake.gz(*lines), [Row(i, table=t) for i, t in zip("abc", tables, strict=True)])
    assert lake.verify().ok


def test_plain_and_zstd_files(lake: Lake) -> None:
    plain = lake.archive("a.json", line("a") + b"\n")
    frames = [zstandard.compress(line(i) + b"\n") for i in "bc"]
    lake.commit([plain, lake.archive("b.zst", b"".join(frames))], map(Row, "abc"))
    assert lake.verify().ok


def test_a_zstd_file_that_begins_with_a_frame_to_skip(lake: Lake) -> None:
    """As pzstd writes them: before each frame one that says how long it is."""
    frames = [zstandard.compress(line(i) + b"\n") for i in "ab"]
    packed = b"".join(
        (0x184D2A50).to_bytes(4, "little")
        + (4).to_bytes(4, "little")
        + len(frame).to_bytes(4, "little")
        + frame
        for frame in frames
    )
    lake.commit(lake.archive("1.zst", packed), map(Row, "ab"))
    assert lake.verify().ok


def test_a_source_is_known_by_its_slug_or_its_id(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a")])
    assert verify(lake.place, "src1").ok
    with pytest.raises(InvalidSettings, match=r"'shop'.*web \(id src1\)"):
        verify(lake.place, "shop")


# Rows that are wrong


def test_a_missing_row(lake: Lake) -> None:
    lake.commit(lake.gz(line("a"), line("b")), [Row("a")], landed=2)
    found = lake.verify()
    assert only(found) == TableCheck(table="signed_up", expected=2, found=1, missing=1)
    assert problem(found) == "table signed_up: 1 events of the archive are missing: b"


def test_an_extra_row(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a"), Row("b")], landed=1)
    found = lake.verify()
    assert only(found) == TableCheck(table="signed_up", expected=1, found=2, extra=1)
    assert problem(found) == "table signed_up: 1 rows are not from the archive: b"


def test_a_doubled_row(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a"), Row("a")], landed=1)
    found = lake.verify()
    assert only(found) == TableCheck(table="signed_up", expected=1, found=2, doubled=1)
    assert problem(found) == "table signed_up: 1 rows are duplicates: a"


def test_an_id_twice_in_two_tables(lake: Lake) -> None:
    again = line("a", NOON + DAY, event="Other")
    lake.commit(lake.gz(line("a"), again), [Row("a"), Row("a", NOON + DAY, "other")])
    found = lake.verify()
    other, signed_up = found.tables
    assert (other.doubled, other.extra, signed_up.doubled) == (1, 0, 0)
    assert "landed 2, not 1" in found.problems[1]
    assert "duplicates 0, not 1" in found.problems[1]


def test_a_row_in_the_wrong_table(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a", table="other")])
    other, signed_up = lake.verify().tables
    assert (other.extra, signed_up.missing) == (1, 1)


def test_a_row_in_the_wrong_hour(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a", folder=NOON + HOUR)])
    found = lake.verify()
    assert only(found) == TableCheck(table="signed_up", expected=1, found=1, misplaced=1)
    assert problem(found) == "table signed_up: 1 rows are in the wrong partition: a"


def test_a_row_without_an_id(lake: Lake) -> None:
    path = lake.gz(line("a"))
    done = lake.commit(path, [Row("a")])
    lake.write(done.tables[0].adds[0].path, [Row("a"), Row(None)])  # type: ignore[arg-type]
    assert only(lake.verify()).extra == 1


# Files that are wrong


def stray(lake: Lake) -> str:
    partition = partition_path(lake.settings.date_partition.values(micros(NOON)))
    return f"{DEFAULT_LAYOUT.data}/src1/segment_type=signed_up/{partition}/stray.parquet"


def test_a_file_that_no_commit_names(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a")])
    lake.write(stray(lake), [Row("x")])
    found = lake.verify()
    assert found.problems[0] == f"Parquet files that no commit names: {stray(lake)}"
    assert only(found).extra == 1


def test_a_file_that_is_gone(lake: Lake) -> None:
    done = lake.commit(lake.gz(line("a")), [Row("a")])
    path = done.tables[0].adds[0].path
    (lake.root / path).unlink()
    found = lake.verify()
    assert found.problems[0] == f"Parquet files of commits that are gone: {path}"
    assert only(found).missing == 1


def test_a_file_that_cannot_be_read(lake: Lake) -> None:
    done = lake.commit(
        lake.gz(line("a"), line("b", NOON + HOUR)), [Row("a"), Row("b", NOON + HOUR)]
    )
    path = done.tables[0].adds[0].path
    (lake.root / path).write_bytes(b"nonsense")
    found = lake.verify()
    assert found.problems[0].startswith(f"{path} cannot be read: ")
    assert (found.landed, only(found).missing) == (1, 1)


def test_a_file_that_is_damaged_inside(lake: Lake) -> None:
    """Its footer is whole, so that it is met only when its rows are read."""
    hours = [NOON + n * HOUR for n in range(5)]
    done = lake.commit(
        lake.gz(*(line(f"m{at.hour}", at) for at in hours)),
        [Row(f"m{at.hour}", at) for at in hours],
    )
    path = done.tables[0].adds[2].path
    content = (lake.root / path).read_bytes()
    (lake.root / path).write_bytes(b"PAR1" + bytes(20) + content[24:])
    found = lake.verify()
    assert found.problems[0].startswith(f"{path} cannot be read: ")
    assert found.problems[1] == "table signed_up: 1 events of the archive are missing: m14"
    assert (len(found.problems), found.landed) == (2, 4)


def test_a_file_without_ids(lake: Lake) -> None:
    done = lake.commit(lake.gz(line("a")), [Row("a")])
    path = done.tables[0].adds[0].path
    pq.write_table(pa.table({"received_at": [NOON]}), lake.root / path)
    found = lake.verify()
    assert found.problems[0] == f"{path} cannot be read: it has no column id"
    assert (found.landed, only(found).missing) == (0, 1)


def test_a_quarantine_that_cannot_be_read(lake: Lake) -> None:
    lake.quarantine("not_json")
    (path,) = lake.root.glob("segment-data/quarantine/**/*.parquet")
    path.write_bytes(b"PAR1")
    lake.commit(lake.gz(b"{"), [], quarantined=1)
    name = path.relative_to(lake.root).as_posix()
    assert lake.verify().problems[0].startswith(f"{name} cannot be read: ")


def test_more_files_than_are_open_at_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Disk(str(tmp_path)))
    hours = [NOON + n * HOUR for n in range(103)]
    rows = [Row(f"m{n}", at) for n, at in enumerate(hours)]
    done = lake.commit(lake.gz(*(line(row.id, row.at) for row in rows)), rows)
    (lake.root / done.tables[0].adds[-1].path).write_bytes(b"nonsense")
    found = lake.verify()
    assert only(found) == TableCheck(table="signed_up", expected=103, found=102, missing=1)


def test_a_file_with_more_rows_than_are_read_at_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Disk(str(tmp_path)))
    lake.commit(lake.gz(line("a")), [Row("a")])
    lake.write(stray(lake), [Row(f"x{n}") for n in range(140_000)])
    assert only(lake.verify()).extra == 140_000


def test_an_archive_file_that_is_gone(lake: Lake) -> None:
    gone = lake.archive("gone.gz", gzip.compress(line("a")))
    lake.commit([gone, lake.gz(line("b"))], [Row("a"), Row("b")])
    lake.commit(lake.gz(line("a", NOON + DAY)), [], duplicates=1)
    gone.unlink()
    found = lake.verify()
    assert (
        problem(found)
        == f"{gone.relative_to(lake.root)} cannot be read again: No such file or directory"
    )
    assert (found.files_read, found.lines) == (2, 2)


def test_at_most_twenty_examples(lake: Lake) -> None:
    lake.commit(lake.gz(*(line(f"m{n:02}") for n in range(30))), [], landed=30, received=30)
    said = problem(lake.verify())
    assert said.startswith("table signed_up: 30 events of the archive are missing: m00, m01,")
    assert said.endswith("m19, …")


# Duplicates


APART = {
    DAY: 1,
    7 * DAY: 1,
    7 * DAY + TICK: 2,
    -7 * DAY: 1,
    -8 * DAY: 2,
}
"""How far a second event of an id is from the first, and how many of the two are kept."""


def test_duplicates_within_a_commit(lake: Lake) -> None:
    lines, rows = [], []
    for identity, (apart, kept) in enumerate(APART.items()):
        lines += [line(f"m{identity}", NOON + apart), line(f"m{identity}")]
        rows += [Row(f"m{identity}", at) for at in sorted((NOON, NOON + apart))[:kept]]
    lake.commit(lake.gz(*lines), rows, duplicates=3)
    assert lake.verify().problems == ()


def test_duplicates_of_an_earlier_commit(lake: Lake) -> None:
    ids = {apart: f"m{number}" for number, apart in enumerate(APART)}
    lake.commit(lake.gz(*map(line, ids.values())), map(Row, ids.values()))
    later = [Row(ids[apart], NOON + apart) for apart, kept in APART.items() if kept == 2]
    lake.commit(
        lake.gz(*(line(one, NOON + apart) for apart, one in ids.items())), later, duplicates=3
    )
    assert lake.verify().problems == ()


def test_of_two_at_once_the_first_line_of_the_first_file_is_kept(lake: Lake) -> None:
    one = lake.archive(
        "1.gz", gzip.compress(line("a", event="One") + b"\n" + line("a", event="Two"))
    )
    other = lake.archive("0.gz", gzip.compress(line("b", event="Zero")))
    lake.commit(
        [one, lake.archive("2.gz", gzip.compress(line("b", event="Three"))), other],
        [Row("a", table="one"), Row("b", table="zero")],
        duplicates=2,
    )
    assert lake.verify().problems == ()


def test_the_window_begins_again_after_it_ends(lake: Lake) -> None:
    days = 0, 5, 8, 14, 16
    kept = [Row("a", NOON + day * DAY) for day in (0, 8, 16)]
    lake.commit(lake.gz(*(line("a", NOON + day * DAY) for day in days)), kept, duplicates=2)
    assert lake.verify().problems == ()


# Lines that are no events, and events that are not kept

BAD = {
    "not_json": b"{",
    "not_object": b"[1]",
    "bad_type": line("a", type="x"),
    "no_message_id": line(""),
    "no_event_name": line("a", event=""),
    "no_received_at": line("a", receivedAt="2026-11-01"),
    "too_large": line("a", x="x" * (1 << 20)),
    "too_deep": b'{"a":' * 101 + b"1" + b"}" * 101,
}


def test_quarantined_lines(lake: Lake) -> None:
    lake.quarantine(*BAD)
    lake.commit(lake.gz(line("a"), *BAD.values()), [Row("a")], quarantined=len(BAD))
    found = lake.verify()
    assert found.problems == ()
    assert (found.lines, found.events) == (9, 1)


def test_a_quarantine_that_lost_a_line(lake: Lake) -> None:
    lake.quarantine("not_json")
    lake.commit(lake.gz(b"{", b"[]"), [], quarantined=2)
    assert lake.verify().problems == (
        "commit 1, compared with its quarantine: quarantined 2, not 1",
        "quarantine of commit 1, compared with the archive: not_object 0, not 1",
    )


def test_a_quarantine_of_no_commit(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a")])
    lake.quarantine("not_json")
    found = lake.verify()
    assert problem(found) == f"quarantine files that no commit names: {lake.quarantined}"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_what_can_be_read_of_a_damaged_file(lake: Lake, pack: Any) -> None:
    lake.quarantine("damaged_file")
    damaged = lake.archive("1.gz", pack(line("a") + b"\n") + b"damage")
    lake.commit(damaged, [Row("a")], quarantined=1)
    assert lake.verify().problems == ()


def test_all_before_a_wrong_checksum(lake: Lake) -> None:
    packed = bytearray(gzip.compress(line("a")))
    packed[-5] ^= 1
    lake.quarantine("damaged_file")
    lake.commit(lake.archive("1.gz", bytes(packed)), [Row("a")], quarantined=1)
    assert lake.verify().problems == ()


def test_a_file_cut_short_in_a_line(lake: Lake) -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    start = packer.compress(line("a") + b"\n" + line("b")[:20])
    start += packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    lake.quarantine("not_json", "damaged_file")
    lake.commit(lake.archive("1.zst", start), [Row("a")], quarantined=2)
    assert lake.verify().problems == ()


def test_zeros_after_a_frame_are_no_damage(lake: Lake) -> None:
    lake.commit(lake.archive("1.gz", gzip.compress(line("a")) + bytes(512)), [Row("a")])
    assert lake.verify().problems == ()


@pytest.mark.parametrize("skip", ["Signed Up", "signed_up"])
def test_skipped_events(lake: Lake, skip: str) -> None:
    lake.settings = lake.settings.model_copy(update={"skip_events": (skip,)})
    page = line("b", type="page", event="Signed Up")
    lake.commit(lake.gz(line("a"), page), [Row("b", table="page")], skipped=1)
    assert lake.verify().problems == ()


def test_suppressed_events(lake: Lake) -> None:
    lines = line("a", userId="u1"), line("b", userId="u2"), line("c")
    lake.commit(lake.gz(*lines), [Row("b"), Row("c")], suppressed=1)
    found = lake.verify()
    assert found.problems == ()
    assert (found.events, found.expected) == (3, 2)


@pytest.mark.parametrize("suppressed", [0, 1])
def test_more_events_are_nowhere_than_were_suppressed(lake: Lake, suppressed: int) -> None:
    lines = [line(identity, userId="u1") for identity in "abc"]
    lake.commit(
        lake.gz(*lines), [Row("c")], suppressed=suppressed, landed=3 - suppressed, received=3
    )
    found = lake.verify()
    assert only(found).missing == 2 - suppressed
    assert problem(found).startswith("table signed_up: ")


def test_fewer_events_are_nowhere_than_were_suppressed(lake: Lake) -> None:
    lake.commit(lake.gz(line("a", userId="u1"), line("b")), [Row("b")], suppressed=2)
    assert "suppressed 2, not 1" in problem(lake.verify())


def test_an_event_of_nobody_cannot_be_suppressed(lake: Lake) -> None:
    lines = line("a"), line("b", userId="u1")
    lake.commit(lake.gz(*lines), [Row("b")], suppressed=1)
    found = lake.verify()
    assert only(found).missing == 1
    assert "landed 1, not 2" in found.problems[1]


def test_a_suppressed_event_does_not_make_another_a_duplicate(lake: Lake) -> None:
    later = NOON + HOUR
    lines = line("a", userId="u1"), line("a", later, userId="u2")
    lake.commit(lake.gz(*lines), [Row("a", later)], suppressed=1)
    assert lake.verify().problems == ()


def test_a_suppressed_event_may_look_like_a_duplicate(lake: Lake) -> None:
    lake.commit(lake.gz(line("a", userId="u1")), [Row("a")])
    lake.commit(lake.gz(line("a", NOON + HOUR, userId="u1")), [], suppressed=1)
    assert lake.verify().problems == ()


def test_a_suppressed_event_may_equal_one_that_landed(lake: Lake) -> None:
    lines = line("a", userId="u1"), line("a", userId="u2"), line("b", userId="u1")
    lake.commit(lake.gz(*lines), [Row("a")], suppressed=2)
    lake.commit(lake.gz(line("b", userId="u2")), [Row("b")])
    assert lake.verify().problems == ()


def test_a_suppressed_event_of_a_skipped_table(lake: Lake) -> None:
    lake.settings = lake.settings.model_copy(update={"skip_events": ("signed_up",)})
    lake.commit(lake.gz(line("a", userId="u1"), line("b")), [], suppressed=1, skipped=1)
    assert lake.verify().problems == ()


def test_books_that_do_not_balance(lake: Lake) -> None:
    lake.commit(lake.gz(line("a")), [Row("a")], received=2)
    assert lake.verify().problems == (
        "commit 1: the counts do not add up: all",
        "commit 1, compared with the archive: received 2, not 1",
    )


# Against the oracle


def test_every_line_is_judged_as_the_oracle_judges_it() -> None:
    for raw in adversary.lines(1, 250):
        if raw.strip(b" \t\r") and len(raw) < 100_000:
            assert reason(raw) == oracle.reason_against(raw), raw[:200]


def reason(raw: bytes) -> str | None:
    try:
        read_event(raw)
    except InvalidLineError as refused:
        return str(refused)
    return None


def test_a_lake_that_the_oracle_made(lake: Lake) -> None:
    right = oracle.Oracle(oracle.Settings(suppressed=frozenset({"u1"}), skip_events=("page",)))
    lake.settings = lake.settings.model_copy(update={"skip_events": ("page",)})
    seen: dict[str, int] = {}
    for seed in (3, 4):
        lines = [raw for raw in adversary.lines(seed, 70) if len(raw) < 100_000]
        path = lake.gz(*lines)
        books = right.load({lake.address(path): lines})
        rows = []
        for table, state in right.tables.items():
            rows += [
                Row(r["id"], r["received_at"], table) for r in state.rows[seen.get(table, 0) :]
            ]
            seen[table] = len(state.rows)
        lake.quarantine(*(why for why, *_ in books.quarantine))
        counts = {name: n for name, n in asdict(books).items() if isinstance(n, int)}
        lake.commit(path, rows, **counts)
    found = lake.verify()
    assert found.problems == ()
    assert found.expected == found.landed == sum(seen.values())


def test_it_shares_no_rule_with_what_it_checks() -> None:
    modules = Path(eventlake.verify.__file__).parent.glob("*.py")
    code = "".join(module.read_text() for module in modules)
    used = set(re.findall(r"eventlake\.[\w.]+(?= import)", code))
    assert {name for name in used if not name.startswith("eventlake.verify.")} == {
        "eventlake.errors",
        "eventlake.model.values",
    }
