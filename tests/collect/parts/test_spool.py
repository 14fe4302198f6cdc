"""Segments on disk: durable appends, recovery after a crash, locks between collectors."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.collect.limits import Limits
from eventlake.collect.spool import Segment, Spool, SpoolDirectory

DAY = 1794700800000
NEXT_DAY = DAY + 86_400_000


@pytest.fixture
def complete() -> list[Segment]:
    return []


def open_spool(folder: Path, complete: list[Segment], **limits: float) -> Spool:
    return Spool(folder, Limits(**limits), complete.append, SYSTEM_CLOCK)  # type: ignore[arg-type]


def content(segment: Segment) -> bytes:
    return segment.path.read_bytes()[: segment.size]


def test_lines_are_in_the_file_when_append_returns(tmp_path: Path, complete: list[Segment]) -> None:
    spool = open_spool(tmp_path, complete)
    assert spool.append(DAY, [b"a\n", b"b\n"]) > 0
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"a\nb\n"
    assert spool.size == 4
    assert not complete


def test_a_full_segment_is_completed(tmp_path: Path, complete: list[Segment]) -> None:
    spool = open_spool(tmp_path, complete, seal_bytes=4)
    spool.append(DAY, [b"a\n"])
    spool.append(DAY, [b"b\n"])
    spool.append(DAY, [b"c\n"])
    assert [content(one) for one in complete] == [b"a\nb\n"]
    assert spool.size == 2


def test_rotate_completes_the_segment(tmp_path: Path, complete: list[Segment]) -> None:
    spool = open_spool(tmp_path, complete)
    spool.append(DAY, [b"a\n"])
    assert spool.start_time is not None
    spool.rotate()
    assert [content(one) for one in complete] == [b"a\n"]
    assert spool.start_time is None


def test_a_segment_contains_one_day(tmp_path: Path, complete: list[Segment]) -> None:
    spool = open_spool(tmp_path, complete)
    spool.append(DAY, [b"a\n"])
    spool.append(NEXT_DAY, [b"b\n"])
    spool.rotate()
    assert [(one.day, content(one)) for one in complete] == [
        (str(DAY), b"a\n"),
        (str(NEXT_DAY), b"b\n"),
    ]


def test_an_empty_spool_has_no_file(tmp_path: Path, complete: list[Segment]) -> None:
    spool = open_spool(tmp_path, complete)
    spool.rotate()
    assert not complete
    assert not list(tmp_path.iterdir())


class FullDisk(Spool):
    """A spool whose disk x up in the middle of a write."""

    def fill(self) -> None:
        assert self._file is not None
        os.close(self._file)
        (path,) = self.folder.iterdir()
        self._file = os.open(path, os.O_RDONLY)  # every write and cut on it fail

    def lose(self) -> None:
        """Make the file impossible to close."""
        assert self._file is not None
        os.close(self._file)


def test_a_disk_error_loses_only_unacknowledged_lines(
    tmp_path: Path, complete: list[Segment]
) -> None:
    spool = FullDisk(tmp_path, Limits(), complete.append, SYSTEM_CLOCK)
    spool.append(DAY, [b"a\n"])
    spool.fill()
    with pytest.raises(OSError, match="Errno"):
        spool.append(DAY, [b"b\n"])
    spool.append(DAY, [b"c\n"])
    spool.rotate()
    assert [content(one) for one in complete] == [b"a\n", b"c\n"]


def test_a_segment_that_cannot_be_closed_is_completed_anyway(
    tmp_path: Path, complete: list[Segment]
) -> None:
    spool = FullDisk(tmp_path, Limits(), complete.append, SYSTEM_CLOCK)
    spool.append(DAY, [b"a\n"])
    spool.lose()
    spool.rotate()
    assert [content(one) for one in complete] == [b"a\n"]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are synced, in order."""
    names: list[str] = []

    def recording(sync: Callable[[int], None]) -> Callable[[int], None]:
        def record(handle: int) -> None:
            names.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
            sync(handle)

        return record

    monkeypatch.setattr(os, "fsync", recording(os.fsync))
    monkeypatch.setattr(os, "fdatasync", recording(os.fdatasync))
    return names


def test_a_new_segment_and_its_folders_are_synced(
    tmp_path: Path, complete: list[Segment], synced: list[str]
) -> None:
    spool = open_spool(tmp_path / "new" / "folder", complete)
    above = [str(folder) for folder in (spool.folder, *spool.folder.parents)]
    assert synced == above[: len(synced)]
    assert len(synced) >= 3  # as far up as this test has made folders, and further
    synced.clear()
    spool.append(DAY, [b"a\n"])
    spool.append(DAY, [b"b\n"])
    (file,) = spool.folder.iterdir()
    assert synced == [str(spool.folder), str(file), str(file)]


def test_moved_segments_are_synced(tmp_path: Path, synced: list[str]) -> None:
    abandon_segments(tmp_path, "events")
    directory = SpoolDirectory(tmp_path)
    assert synced[-1] == str(directory.folder / "events")
    assert {str(directory.folder), str(tmp_path)} <= set(synced)
    directory.close()


def test_unknown_files_in_an_abandoned_folder_are_ignored(tmp_path: Path) -> None:
    abandon_segments(tmp_path, "events")
    (tmp_path / "collector-dead/events/note.txt").touch()
    (tmp_path / "collector-dead/events/note.open").touch()
    directory = SpoolDirectory(tmp_path)
    assert len(directory.recover_segments("events")) == 1
    directory.close()


def test_lines_are_stored_only_if_they_are_synced(
    tmp_path: Path, complete: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path, complete)
    spool.append(DAY, [b"a\n"])

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            spool.append(DAY, [b"b\n"])
    spool.append(DAY, [b"c\n"])
    spool.rotate()
    assert [content(one) for one in complete] == [b"a\n", b"c\n"]
    # A file whose sync failed once is not written to again.
    assert complete[0].path != complete[1].path


def abandon_segments(root: Path, *streams: str, data: bytes = b"a\nb\n") -> None:
    """Create the folder of a killed collector."""
    folder = root / "collector-dead"
    for stream in streams:
        (folder / stream).mkdir(parents=True)
        (folder / stream / f"{DAY}-1794736800000-abc.open").write_bytes(data)


def test_segments_of_dead_collectors_are_recovered(tmp_path: Path) -> None:
    abandon_segments(tmp_path, "events", "rejected")
    directory = SpoolDirectory(tmp_path)
    assert [content(one) for one in directory.recover_segments("events")] == [b"a\nb\n"]
    assert [one.name for one in directory.recover_segments("rejected")] == ["1794736800000-abc"]
    assert not (tmp_path / "collector-dead").exists()
    directory.close()


@pytest.mark.parametrize(
    ("data", "recovered"),
    [(b"a\nb\nto", b"a\nb\n"), (b"a\n" + b"x" * 200_000, b"a\n"), (b"torn", None), (b"", None)],
)
def test_an_incomplete_last_line_is_removed(
    tmp_path: Path, data: bytes, recovered: bytes | None
) -> None:
    abandon_segments(tmp_path, "events", data=data)
    directory = SpoolDirectory(tmp_path)
    segments = directory.recover_segments("events")
    assert [one.path.read_bytes() for one in segments] == ([recovered] if recovered else [])
    assert len(list((directory.folder / "events").iterdir())) == len(segments)
    directory.close()


def test_folders_of_running_collectors_are_not_touched(tmp_path: Path) -> None:
    first = SpoolDirectory(tmp_path)
    open_spool(first.folder / "events", []).append(DAY, [b"a\n"])
    second = SpoolDirectory(tmp_path)
    assert second.recover_segments("events") == []
    assert len(first.recover_segments("events")) == 1
    second.close()
    first.close()
    third = SpoolDirectory(tmp_path)
    assert len(third.recover_segments("events")) == 1
    third.close()


def test_an_empty_directory_is_deleted_on_close(tmp_path: Path) -> None:
    directory = SpoolDirectory(tmp_path)
    (directory.folder / "events").mkdir()
    directory.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
