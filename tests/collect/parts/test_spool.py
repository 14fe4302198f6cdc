"""Segments on disk: what is appended stays, what is torn goes, what is another's is left alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlake.collect.limits import Limits
from eventlake.collect.spool import Home, Segment, Spool

DAY = 1794700800000
NEXT_DAY = DAY + 86_400_000


@pytest.fixture
def complete() -> list[Segment]:
    return []


def spool(folder: Path, complete: list[Segment], **limits: float) -> Spool:
    return Spool(folder, Limits(**limits), complete.append)  # type: ignore[arg-type]


def content(segment: Segment) -> bytes:
    return segment.path.read_bytes()[: segment.size]


def test_lines_are_in_the_file_when_append_returns(tmp_path: Path, complete: list[Segment]) -> None:
    own = spool(tmp_path, complete)
    assert own.append(DAY, [b"a\n", b"b\n"]) > 0
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"a\nb\n"
    assert own.size == 4
    assert not complete


def test_a_segment_is_complete_at_its_size(tmp_path: Path, complete: list[Segment]) -> None:
    own = spool(tmp_path, complete, seal_bytes=4)
    own.append(DAY, [b"a\n"])
    own.append(DAY, [b"b\n"])
    own.append(DAY, [b"c\n"])
    assert [content(one) for one in complete] == [b"a\nb\n"]
    assert own.size == 2


def test_a_segment_is_complete_when_it_is_told(tmp_path: Path, complete: list[Segment]) -> None:
    own = spool(tmp_path, complete)
    own.append(DAY, [b"a\n"])
    assert own.began is not None
    own.rotate()
    assert [content(one) for one in complete] == [b"a\n"]
    assert own.began is None


def test_a_segment_holds_one_day(tmp_path: Path, complete: list[Segment]) -> None:
    own = spool(tmp_path, complete)
    own.append(DAY, [b"a\n"])
    own.append(NEXT_DAY, [b"b\n"])
    own.rotate()
    assert [(one.day, content(one)) for one in complete] == [
        (str(DAY), b"a\n"),
        (str(NEXT_DAY), b"b\n"),
    ]


def test_an_empty_spool_leaves_no_file(tmp_path: Path, complete: list[Segment]) -> None:
    own = spool(tmp_path, complete)
    own.rotate()
    assert not complete
    assert not list(tmp_path.iterdir())


class FullDisk(Spool):
    """A spool whose disk fills up in the middle of a write."""

    def fill(self) -> None:
        assert self._file is not None
        os.close(self._file)
        (path,) = self.folder.iterdir()
        self._file = os.open(path, os.O_RDONLY)  # every write and cut on it fails

    def lose(self) -> None:
        """As if the file could not even be closed."""
        assert self._file is not None
        os.close(self._file)


def test_a_disk_that_fails_costs_only_what_was_not_acknowledged(
    tmp_path: Path, complete: list[Segment]
) -> None:
    own = FullDisk(tmp_path, Limits(), complete.append)
    own.append(DAY, [b"a\n"])
    own.fill()
    with pytest.raises(OSError, match="Errno"):
        own.append(DAY, [b"b\n"])
    own.append(DAY, [b"c\n"])
    own.rotate()
    assert [content(one) for one in complete] == [b"a\n", b"c\n"]


def test_a_segment_that_cannot_be_closed_is_archived_all_the_same(
    tmp_path: Path, complete: list[Segment]
) -> None:
    own = FullDisk(tmp_path, Limits(), complete.append)
    own.append(DAY, [b"a\n"])
    own.lose()
    own.rotate()
    assert [content(one) for one in complete] == [b"a\n"]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, in order, by name."""
    names: list[str] = []

    def recording(sync: Callable[[int], None]) -> Callable[[int], None]:
        def record(handle: int) -> None:
            names.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
            sync(handle)

        return record

    monkeypatch.setattr(os, "fsync", recording(os.fsync))
    monkeypatch.setattr(os, "fdatasync", recording(os.fdatasync))
    return names


def test_a_new_segment_is_synced_with_the_name_it_has(
    tmp_path: Path, complete: list[Segment], synced: list[str]
) -> None:
    own = spool(tmp_path / "new" / "folder", complete)
    above = [str(folder) for folder in (own.folder, *own.folder.parents)]
    assert synced == above[: len(synced)]
    assert len(synced) >= 3  # as far up as this test has made folders, and further
    synced.clear()
    own.append(DAY, [b"a\n"])
    own.append(DAY, [b"b\n"])
    (file,) = own.folder.iterdir()
    assert synced == [str(own.folder), str(file), str(file)]


def test_what_the_dead_left_is_synced_where_it_is_now(tmp_path: Path, synced: list[str]) -> None:
    leave(tmp_path, "events")
    home = Home(tmp_path)
    assert synced[-1] == str(home.folder / "events")
    assert {str(home.folder), str(tmp_path)} <= set(synced)
    home.close()


def test_a_strange_file_in_a_dead_folder_stops_nobody(tmp_path: Path) -> None:
    leave(tmp_path, "events")
    (tmp_path / "collector-dead/events/note.txt").touch()
    (tmp_path / "collector-dead/events/note.open").touch()
    home = Home(tmp_path)
    assert len(home.segments("events")) == 1
    home.close()


def test_lines_count_only_once_they_are_synced(
    tmp_path: Path, complete: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = spool(tmp_path, complete)
    own.append(DAY, [b"a\n"])

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fails)
        with pytest.raises(OSError, match="Input/output"):
            own.append(DAY, [b"b\n"])
    own.append(DAY, [b"c\n"])
    own.rotate()
    assert [content(one) for one in complete] == [b"a\n", b"c\n"]
    # A file whose sync failed once is not written to again.
    assert complete[0].path != complete[1].path


def leave(root: Path, *streams: str, data: bytes = b"a\nb\n") -> None:
    """What a collector that was killed leaves behind."""
    folder = root / "collector-dead"
    for stream in streams:
        (folder / stream).mkdir(parents=True)
        (folder / stream / f"{DAY}-1794736800000-abc.open").write_bytes(data)


def test_what_the_dead_left_is_taken_over(tmp_path: Path) -> None:
    leave(tmp_path, "events", "rejected")
    home = Home(tmp_path)
    assert [content(one) for one in home.segments("events")] == [b"a\nb\n"]
    assert [one.name for one in home.segments("rejected")] == ["1794736800000-abc"]
    assert not (tmp_path / "collector-dead").exists()
    home.close()


@pytest.mark.parametrize(
    ("data", "kept"),
    [(b"a\nb\nto", b"a\nb\n"), (b"a\n" + b"x" * 200_000, b"a\n"), (b"torn", None), (b"", None)],
)
def test_a_torn_last_line_was_never_acknowledged(
    tmp_path: Path, data: bytes, kept: bytes | None
) -> None:
    leave(tmp_path, "events", data=data)
    home = Home(tmp_path)
    found = home.segments("events")
    assert [one.path.read_bytes() for one in found] == ([kept] if kept else [])
    assert len(list((home.folder / "events").iterdir())) == len(found)
    home.close()


def test_the_living_are_left_alone(tmp_path: Path) -> None:
    first = Home(tmp_path)
    spool(first.folder / "events", []).append(DAY, [b"a\n"])
    second = Home(tmp_path)
    assert second.segments("events") == []
    assert len(first.segments("events")) == 1
    second.close()
    first.close()
    third = Home(tmp_path)
    assert len(third.segments("events")) == 1
    third.close()


def test_a_home_that_ends_empty_leaves_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.folder / "events").mkdir()
    home.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
