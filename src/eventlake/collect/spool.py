"""The spool: append-only segments on local disk that hold what the archive does not have yet."""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, time

from eventlake.collect.limits import Limits

OPEN = ".open"
SEGMENTS = f"[0-9]*-[0-9]*-*{OPEN}"
LOCK = "lock"
LOOK_BACK = 64 << 10


@dataclass(frozen=True)
class Segment:
    """A part of a spool that is not appended to any more; its name says where it goes."""

    path: Path
    size: int
    """What counts; bytes behind it were never acknowledged."""

    @property
    def day(self) -> str:
        return self.path.name.partition("-")[0]

    @property
    def name(self) -> str:
        """Unique, and the same after every crash: so a segment is archived once."""
        return self.path.name.partition("-")[2].removesuffix(OPEN)

    @property
    def began(self) -> float:
        """Unix seconds of its first event."""
        return int(self.name.partition("-")[0]) / 1000


Taker = Callable[[Segment], None]
"""Who gets a segment that is complete."""


class Spool:
    """Appends lines so that they survive: one thread at a time, one fsync for many requests."""

    def __init__(self, folder: Path, limits: Limits, taker: Taker) -> None:
        self.folder, self.limits, self._taker = folder, limits, taker
        self._file: int | None = None
        self._segment = Segment(folder, 0)
        make_folder(folder)

    @property
    def began(self) -> float | None:
        """Unix seconds of the oldest event that is not in a complete segment."""
        return self._segment.began if self._segment.size else None

    @property
    def size(self) -> int:
        return self._segment.size

    def append(self, day: int, lines: Sequence[bytes]) -> float:
        """Put lines on disk for good and say how long the disk took; OSError, and nothing is in."""
        if self._file is not None and self._segment.day != str(day):
            self.rotate()
        data = b"".join(lines)
        file = self._open(day) if self._file is None else self._file
        with self._undone(file):
            _write(file, data)
        began = perf_counter()
        with self._abandoned(file):
            _sync(file)
        self._segment = Segment(self._segment.path, self._segment.size + len(data))
        took = perf_counter() - began
        if self._segment.size >= self.limits.seal_bytes:
            self.rotate()
        return took

    def rotate(self) -> None:
        """Complete the open segment."""
        if self._file is None:
            return
        file, segment = self._file, self._segment
        self._file, self._segment = None, Segment(self.folder, 0)
        with suppress(OSError):  # what counts has been synced; a bad end must not keep it here
            os.close(file)
        if segment.size:
            self._taker(segment)
        else:
            segment.path.unlink(missing_ok=True)

    def _open(self, day: int) -> int:
        path = self.folder / f"{day}-{int(time() * 1000)}-{secrets.token_hex(6)}{OPEN}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._segment = Segment(path, 0)
        with self._abandoned(self._file):
            sync_folder(self.folder)
        return self._file

    @contextmanager
    def _undone(self, file: int) -> Iterator[None]:
        """Cut away what a failed write left, such as on a full disk."""
        try:
            yield
        except OSError:
            with self._abandoned(file):
                os.ftruncate(file, self._segment.size)
            raise

    @contextmanager
    def _abandoned(self, file: int) -> Iterator[None]:
        """Leave a file whose state is unknown: after a failed fsync a second one proves nothing."""
        try:
            yield
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, self._segment.size)
            self.rotate()
            raise


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync(file: int) -> None:
    getattr(os, "fdatasync", os.fsync)(file)  # not every system has the one that skips the times


def make_folder(folder: Path) -> None:
    """A folder that survives a power cut, with all the folders it is in."""
    folder.mkdir(parents=True, exist_ok=True)
    for above in (folder, *folder.parents):
        with suppress(PermissionError):  # one that we may not even read is not one we made
            sync_folder(above)
        if above.is_mount():
            return


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Home:
    """A collector's own folder below a spool's root, locked while its process lives."""

    def __init__(self, root: Path) -> None:
        make_folder(root)
        with _starting(root):
            self.folder = root / f"collector-{secrets.token_hex(6)}"
            make_folder(self.folder)
            lock = _lock(self.folder / LOCK)
            assert lock is not None
            self._lock = lock
            for dead, handle in _dead(root, self.folder):
                _adopt(dead, self.folder)
                os.close(handle)

    def segments(self, stream: str) -> list[Segment]:
        """What collectors that ended suddenly left behind, oldest first."""
        found = sorted((self.folder / stream).glob(SEGMENTS))
        return [segment for segment in map(_recovered, found) if segment]

    def close(self) -> None:
        """Give the folder up; what is left in it is the next collector's."""
        with _starting(self.folder.parent):  # who starts now must not look at half a folder
            with suppress(OSError):
                _remove(self.folder)
            os.close(self._lock)


@contextmanager
def _starting(root: Path) -> Iterator[None]:
    """One collector at a time looks for what others left."""
    handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _lock(path: Path) -> int | None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _dead(root: Path, own: Path) -> Iterator[tuple[Path, int]]:
    """The folders of collectors that do not live any more, each with its lock."""
    for folder in sorted(root.glob("collector-*")):
        handle = None if folder == own else _lock(folder / LOCK)
        if handle is not None:
            yield folder, handle


def _adopt(dead: Path, own: Path) -> None:
    for segment in sorted(dead.glob(f"*/{SEGMENTS}")):
        target = own / segment.parent.name
        make_folder(target)
        segment.rename(target / segment.name)
        sync_folder(target)
    with suppress(OSError):  # something that is not ours is in it
        _remove(dead)


def _remove(folder: Path) -> None:
    """Remove a collector's folder; OSError when a segment is left in it."""
    for stream in folder.iterdir():
        if stream.is_dir():
            stream.rmdir()
    (folder / LOCK).unlink()
    folder.rmdir()


def _recovered(path: Path) -> Segment | None:
    """A segment up to its last whole line; a torn one was never acknowledged."""
    size = _whole_lines(path)
    if not size:
        path.unlink()
        return None
    os.truncate(path, size)
    return Segment(path, size)


def _whole_lines(path: Path) -> int:
    end = path.stat().st_size
    with path.open("rb") as file:
        while end:
            start = max(0, end - LOOK_BACK)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0
