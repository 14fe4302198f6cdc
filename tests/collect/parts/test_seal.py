"""Sealing: segments become files of the archive."""

import gzip
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.archive import find_inputs
from eventlake.collect.seal import Sealer, seal_segment
from eventlake.collect.spool import Segment
from eventlake.errors import Unavailable
from eventlake.stores import Disk, Store


def segment(folder: Path, data: bytes = b"a\nb\n", size: int | None = None) -> Segment:
    path = folder / "1794700800000-1794736800000-abc.open"
    path.write_bytes(data)
    return Segment(path, len(data) if size is None else size)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Disk(str(tmp_path / "lake"))


def test_a_segment_becomes_a_gzip_file_and_is_deleted(tmp_path: Path, store: Store) -> None:
    complete = segment(tmp_path, b"event\n" * 500_000)
    seal_segment(complete, store, "logs/day/x.gz")
    assert gzip.decompress(store.read("logs/day/x.gz")) == b"event\n" * 500_000
    assert not complete.path.exists()


def test_unacknowledged_bytes_are_not_archived(tmp_path: Path, store: Store) -> None:
    seal_segment(segment(tmp_path, b"a\nunsure\n", size=2), store, "logs/day/x.gz")
    assert gzip.decompress(store.read("logs/day/x.gz")) == b"a\n"


def test_sealing_again_after_a_crash_changes_nothing(tmp_path: Path, store: Store) -> None:
    seal_segment(segment(tmp_path), store, "logs/day/x.gz")
    state = (Path(store.root) / "logs/day/x.gz").stat()
    seal_segment(segment(tmp_path), store, "logs/day/x.gz")
    again = (Path(store.root) / "logs/day/x.gz").stat()
    assert (state.st_mtime_ns, state.st_ino) == (again.st_mtime_ns, again.st_ino)


def test_a_failed_write_leaves_no_file_that_a_load_reads(tmp_path: Path, store: Store) -> None:
    unreachable, complete = UnreachableDisk(store.root, [None]), segment(tmp_path)
    with pytest.raises(Unavailable):
        seal_segment(complete, unreachable, "logs/day/x.gz")
    assert not find_inputs([store.root]).inputs
    assert complete.path.exists()
    seal_segment(complete, unreachable, "logs/day/x.gz")
    assert [file.path for file in store.objects("logs")] == ["logs/day/x.gz"]


class RecordingDisk(Disk):
    """A store that records the paths it syncs, and checks that the segment still exists."""

    synced: list[str]
    spool: Path

    def fsync(self, path: str) -> None:
        assert list(self.spool.iterdir()), "the segment was deleted before its copy was durable"
        self.synced.append(path)
        super().fsync(path)


def test_a_segment_is_deleted_only_when_its_copy_is_durable(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    store = RecordingDisk(str(tmp_path / "lake"))
    store.__dict__.update(synced=[], spool=spool)
    seal_segment(segment(spool), store, "logs/day/x.gz")
    assert store.synced == ["logs/day/.x.gz.part", "logs/day/x.gz", "logs/day", "logs", "."]
    assert not list(spool.iterdir())


@dataclass(frozen=True)
class UnreachableDisk(Disk):
    """A store whose first writes fail, one for each item of `failures`."""

    failures: list[None] = field(default_factory=list)

    def publish(self, staged: str, final: str) -> None:
        if self.failures:
            self.failures.pop()
            raise Unavailable("no route to the bucket")
        super().publish(staged, final)


def test_an_unreachable_store_is_retried_until_it_works(tmp_path: Path) -> None:
    store, failures = UnreachableDisk(str(tmp_path / "lake"), [None, None]), []
    sealer = Sealer(store, lambda segment: f"logs/{segment.day}/{segment.name}.gz", failures.append)
    sealer.add(segment(tmp_path))
    assert sealer.backlog_bytes == 4
    assert sealer.oldest_event_time == 1794736800.0
    assert sealer.close(5.0)
    assert store.exists("logs/1794700800000/1794736800000-abc.gz")
    assert len(failures) == 2
    assert (sealer.backlog_bytes, sealer.oldest_event_time, sealer.sealed_files) == (0, None, 1)


def test_a_lake_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    lake, failures = tmp_path / "lake", list[str]()
    (lake / "segment-data").mkdir(parents=True)
    sealer = Sealer(Disk(str(lake)), lambda one: f"logs/{one.day}/{one.name}.gz", failures.append)
    lake.rename(tmp_path / "away")
    complete = segment(tmp_path)
    sealer.add(complete)
    until = time.monotonic() + 20
    while not failures and complete.path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert "is gone or empty: mount its disk" in failures[0]
    assert not lake.exists()
    assert complete.path.exists()
    (tmp_path / "away").rename(lake)
    assert sealer.close(20.0)
    assert len(list(lake.glob("logs/*/*.gz"))) == 1


def test_close_does_not_wait_for_ever(tmp_path: Path) -> None:
    sealer = Sealer(
        UnreachableDisk(str(tmp_path / "lake"), [None] * 99),
        lambda _: "logs/day/x.gz",
        lambda _: None,
    )
    complete = segment(tmp_path)
    sealer.add(complete)
    start = time.monotonic()
    assert not sealer.close(0.3)
    assert time.monotonic() - start < 20
    assert sealer.has_stopped
    assert complete.path.exists()


def test_lines_of_users_who_are_forgotten_meanwhile_are_left_out(
    tmp_path: Path, store: Store
) -> None:
    """The second user is forgotten after the file was written: it is written again."""
    users = (b'"userId":"a"', b'"userId":"b"', b'"anonymousId":"a"', b'"userId":"c"')
    lines = [b"{%s}\n" % user for user in users]
    answers = iter([{"a"}, {"a", "b"}, {"a", "b"}])
    seal_segment(segment(tmp_path, b"".join(lines)), store, "x.gz", lambda _: next(answers))
    assert gzip.decompress(store.read("x.gz")) == lines[3]


def test_a_file_that_was_rewritten_meanwhile_is_not_written_again(
    tmp_path: Path, store: Store
) -> None:
    def forget(_: Segment) -> set[str]:
        store.delete(["x.gz"])
        return {"a"} if next(calls) else {"a", "b"}

    calls = iter([True, False, False])
    complete = segment(tmp_path, b'{"userId":"a"}\n')
    seal_segment(complete, store, "x.gz", forget)
    assert (complete.path.exists(), store.exists("x.gz")) == (False, False)
