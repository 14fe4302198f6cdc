"""The spool: append-only segments on local disk with the events that are not archived yet."""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from eventlake.clock import Clock
from eventlake.collect.limits import Limits

EVENTS, REJECTED = "events", "rejected"
"""The streams of a spool, each in a folder of its own."""
SEGMENT_SUFFIX = ".open"
SEGMENT_GLOB = f"[0-9]*-[0-9]*-*{SEGMENT_SUFFIX}"
LOCK_FILE = "lock"
TAIL_BYTES = 64 << 10
"""Read size of the search for the last line end."""


@dataclass(frozen=True)
class Segment:
    """A segment file named `<day>-<start in ms>-<random>.open`."""

    path: Path
    size: int
    """Acknowledged bytes; the file may have more behind them."""

    @property
    def stream(self) -> str:
        """The stream that it belongs to: `EVENTS` or `REJECTED`."""
        return self.path.parent.name

    @property
    def day(self) -> str:
        """The archive's day folder: the start of the UTC day in Unix milliseconds."""
        return self.path.name.partition("-")[0]

    @property
    def name(self) -> str:
        """The archive's file name. It is the same after a crash, so a segment is archived once."""
        return self.path.name.partition("-")[2].removesuffix(SEGMENT_SUFFIX)

    @property
    def start_time(self) -> float:
        """Unix seconds when it was created, just before its first event was written."""
        return int(self.name.partition("-")[0]) / 1000


class Spool:
    """Appends lines durably to the open segment; not thread-safe.

    `on_complete` gets each segment that is not appended to any more.
    """

    def __init__(
        self, folder: Path, limits: Limits, on_complete: Callable[[Segment], None], clock: Clock
    ) -> None:
        self.folder, self.limits, self._on_complete = folder, limits, on_complete
        self._clock = clock
        self._file: int | None = None
        self._segment = Segment(folder, 0)
        make_durable_folder(folder)

    @property
    def start_time(self) -> float | None:
        """Unix seconds of the open segment's first event; None when it has none."""
        return self._segment.start_time if self._segment.size else None

    @property
    def is_due(self) -> bool:
        """Whether the open segment has events and is older than `seal_seconds`."""
        start = self.start_time
        return start is not None and start + self.limits.seal_seconds <= self._clock.time_ns() / 1e9

    @property
    def size(self) -> int:
        """The bytes of the open segment."""
        return self._segment.size

    def append(self, day: int, lines: Sequence[bytes]) -> float:
        """Write and fsync lines; return the seconds that the fsync took.

        Completes the segment when the day changes or it is full. Raises OSError on failure, and
        then none of the lines count.
        """
        if self._file is not None and self._segment.day != str(day):
            self.rotate()
        data = b"".join(lines)
        file = self._open_segment(day) if self._file is None else self._file
        with self._truncate_on_error(file):
            _write_all(file, data)
        start = self._clock.monotonic()
        with self._rotate_on_error(file):
            _sync_data(file)
        self._segment = Segment(self._segment.path, self._segment.size + len(data))
        seconds = self._clock.monotonic() - start
        if self._segment.size >= self.limits.seal_bytes:
            self.rotate()
        return seconds

    def rotate(self) -> None:
        """Complete the open segment, if any, and pass it to `on_complete`; delete an empty one."""
        if self._file is None:
            return
        file, segment, self._file = self._file, self._segment, None
        with suppress(OSError):  # the acknowledged bytes are synced, so archive them in any case
            os.close(file)
        if segment.size:
            self._on_complete(segment)
        # Only now: who waits for the segment's events must find it here or in the sealer's queue.
        self._segment = Segment(self.folder, 0)
        if not segment.size:
            segment.path.unlink(missing_ok=True)

    def _open_segment(self, day: int) -> int:
        """Create a segment, open it as the current one, and return its handle; raises OSError.

        Its name survives a power cut.
        """
        name = f"{day}-{self._clock.time_ns() // 10**6}-{secrets.token_hex(6)}{SEGMENT_SUFFIX}"
        path = self.folder / name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._segment = Segment(path, 0)
        with self._rotate_on_error(self._file):
            sync_folder(self.folder)
        return self._file

    @contextmanager
    def _truncate_on_error(self, file: int) -> Iterator[None]:
        """Remove the bytes of a failed write, such as on a full disk, and raise the error again.

        The segment stays open, unless it cannot be truncated.
        """
        try:
            yield
        except OSError:
            with self._rotate_on_error(file):
                os.ftruncate(file, self._segment.size)
            raise

    @contextmanager
    def _rotate_on_error(self, file: int) -> Iterator[None]:
        """Complete the segment after an OSError, without unacknowledged bytes, and raise it again.

        Nothing more is written to the file: a second fsync would prove nothing.
        """
        try:
            yield
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, self._segment.size)
            self.rotate()
            raise


def _write_all(file: int, data: bytes) -> None:
    """Write all bytes, in several calls if needed; raises OSError, with a part written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_data(file: int) -> None:
    """Fsync a file's data, with fdatasync where there is one."""
    getattr(os, "fdatasync", os.fsync)(file)  # not every system has fdatasync


def make_durable_folder(folder: Path) -> None:
    """Create a folder and fsync it and its parents, so that it survives a power cut."""
    folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder, *folder.parents):
        with suppress(PermissionError):  # a folder that we may not read was not created by us
            sync_folder(parent)
        if parent.is_mount():
            return


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that new names in it survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SpoolDirectory:
    """A new folder below the spool's root for one collector, locked while its process lives.

    Moves the segments of collectors that are not running any more into it.
    """

    def __init__(self, root: Path) -> None:
        make_durable_folder(root)
        with _lock_root(root):
            self.folder = root / f"collector-{secrets.token_hex(6)}"
            make_durable_folder(self.folder)
            lock = _try_lock(self.folder / LOCK_FILE)
            assert lock is not None
            self._lock = lock
            for folder, handle in _lock_abandoned_folders(root, self.folder):
                _move_segments(folder, self.folder)
                os.close(handle)

    def recover_segments(self, stream: str) -> list[Segment]:
        """Return the segments of a stream's folder, oldest first, truncated to complete lines.

        Deletes those without a complete line.
        """
        paths = sorted((self.folder / stream).glob(SEGMENT_GLOB))
        return [segment for segment in map(_recover_segment, paths) if segment]

    def close(self) -> None:
        """Unlock the folder and delete it if it is empty; the next collector gets the rest."""
        with _lock_root(self.folder.parent):  # a collector that starts must not see it half deleted
            with suppress(OSError):
                _remove_folder(self.folder)
            os.close(self._lock)


@contextmanager
def _lock_root(root: Path) -> Iterator[None]:
    """Let one collector at a time change the folders below the root; waits for the others."""
    handle = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _try_lock(path: Path) -> int | None:
    """Return a handle that holds the lock until it is closed; None if another process has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _lock_abandoned_folders(root: Path, own: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folders of collectors that are not running, each with the handle of its lock.

    The caller closes the handle, which unlocks the folder.
    """
    for folder in sorted(root.glob("collector-*")):
        handle = None if folder == own else _try_lock(folder / LOCK_FILE)
        if handle is not None:
            yield folder, handle


def _move_segments(source: Path, target: Path) -> None:
    """Move all segments to the target's folders of the same streams, each move durable.

    Then deletes the source folder, unless it has other files.
    """
    for segment in sorted(source.glob(f"*/{SEGMENT_GLOB}")):
        folder = target / segment.parent.name
        make_durable_folder(folder)
        segment.rename(folder / segment.name)
        sync_folder(folder)
    with suppress(OSError):  # it has files that are not ours
        _remove_folder(source)


def _remove_folder(folder: Path) -> None:
    """Delete a collector's folder; raises OSError when a stream still has files."""
    for stream in folder.iterdir():
        if stream.is_dir():
            stream.rmdir()
    (folder / LOCK_FILE).unlink()
    folder.rmdir()


def _recover_segment(path: Path) -> Segment | None:
    """Truncate a segment to its complete lines, as others were never acknowledged.

    Deletes it and returns None if it has no complete line.
    """
    size = _find_end_of_lines(path)
    if not size:
        path.unlink()
        return None
    os.truncate(path, size)
    return Segment(path, size)


def _find_end_of_lines(path: Path) -> int:
    """Return the offset behind the last line end, 0 if there is none."""
    end = path.stat().st_size
    with path.open("rb") as file:
        while end:
            start = max(0, end - TAIL_BYTES)
            file.seek(start)
            position = file.read(end - start).rfind(b"\n")
            if position >= 0:
                return start + position + 1
            end = start
    return 0
