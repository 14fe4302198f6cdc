"""Segments on their way to the archive."""

import gzip
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.archive import find_inputs
from eventlake.collect.seal import Sealer, seal
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


def test_a_segment_becomes_a_gzip_file_and_goes(tmp_path: Path, store: Store) -> None:
    one = segment(tmp_path, b"event\n" * 500_000)
    seal(one, store, "logs/day/x.gz")
    assert gzip.decompress(store.read("logs/day/x.gz")) == b"event\n" * 500_000
    assert not one.path.exists()


def test_what_was_not_acknowledged_is_not_archived(tmp_path: Path, store: Store) -> None:
    seal(segment(tmp_path, b"a\nunsure\n", size=2), store, "logs/day/x.gz")
    assert gzip.decompress(store.read("logs/day/x.gz")) == b"a\n"


def test_sealing_again_after_a_crash_changes_nothing(tmp_path: Path, store: Store) -> None:
    seal(segment(tmp_path), store, "logs/day/x.gz")
    state = (Path(store.root) / "logs/day/x.gz").stat()
    seal(segment(tmp_path), store, "logs/day/x.gz")
    again = (Path(store.root) / "logs/day/x.gz").stat()
    assert (state.st_mtime_ns, state.st_ino) == (again.st_mtime_ns, again.st_ino)


def test_a_crash_in_the_middle_leaves_nothing_that_a_load_takes(
    tmp_path: Path, store: Store
) -> None:
    flaky, one = Flaky(store.root, [None]), segment(tmp_path)
    with pytest.raises(Unavailable):
        seal(one, flaky, "logs/day/x.gz")
    assert not find_inputs([store.root]).inputs
    assert one.path.exists()
    seal(one, flaky, "logs/day/x.gz")
    assert [found.path for found in store.objects("logs")] == ["logs/day/x.gz"]


class Telling(Disk):
    """A store that tells what was settled while the segment was still in the spool."""

    told: list[str]
    spool: Path

    def settle(self, path: str) -> None:
        assert list(self.spool.iterdir()), "the segment went before its copy was durable"
        self.told.append(path)
        super().settle(path)


def test_a_segment_goes_only_when_its_copy_is_durable(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    store = Telling(str(tmp_path / "lake"))
    store.__dict__.update(told=[], spool=spool)
    seal(segment(spool), store, "logs/day/x.gz")
    assert store.told == ["logs/day/.x.gz.part", "logs/day/x.gz", "logs/day", "logs", "."]
    assert not list(spool.iterdir())


@dataclass(frozen=True)
class Flaky(Disk):
    """A store that is unreachable for some time."""

    failures: list[None] = field(default_factory=list)

    def publish(self, staged: str, final: str) -> None:
        if self.failures:
            self.failures.pop()
            raise Unavailable("no route to the bucket")
        super().publish(staged, final)


def test_an_unreachable_store_is_tried_until_it_answers(tmp_path: Path) -> None:
    store, said = Flaky(str(tmp_path / "lake"), [None, None]), []
    sealer = Sealer(store, lambda one: f"logs/{one.day}/{one.name}.gz", said.append)
    sealer.take(segment(tmp_path))
    assert sealer.backlog == 4
    assert sealer.began == 1794736800.0
    assert sealer.close(5.0)
    assert store.exists("logs/1794700800000/1794736800000-abc.gz")
    assert len(said) == 2
    assert (sealer.backlog, sealer.began, sealer.sealed) == (0, None, 1)


def test_a_stopping_collector_does_not_wait_for_ever(tmp_path: Path) -> None:
    sealer = Sealer(
        Flaky(str(tmp_path / "lake"), [None] * 99), lambda _: "logs/day/x.gz", lambda _: None
    )
    one = segment(tmp_path)
    sealer.take(one)
    began = time.monotonic()
    assert not sealer.close(0.3)
    assert time.monotonic() - began < 2
    assert sealer.ended
    assert one.path.exists()
