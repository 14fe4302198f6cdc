"""Moves complete segments, compressed, from the spool into the archive."""

import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator

from isal import isal_zlib

from eventlake.collect.spool import REJECTED, Segment
from eventlake.kernels.line_ids import list_ids, list_rejected_ids
from eventlake.stores import Store

READ_BYTES = 1 << 20
GZIP_WBITS = 31
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 15.0

FindForgotten = Callable[[Segment], Container[str] | None]
"""Returns the ids of forgotten users that a segment may have lines of; None if there are none."""


class Sealer:
    """A thread that moves segments into the lake's store as queued, and retries for ever."""

    def __init__(
        self,
        store: Store,
        archive_path: Callable[[Segment], str],
        report_failure: Callable[[str], None],
        find_forgotten: FindForgotten = lambda _: None,
    ) -> None:
        self._store, self._archive_path = store, archive_path
        self._find_forgotten = find_forgotten
        self._report_failure = report_failure
        self._was_there = store.is_there
        self._queue: deque[Segment] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self.backlog_bytes = 0
        """Size of the segments that are not in the archive yet."""
        self.sealed_files = 0
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self._thread.start()

    def add(self, segment: Segment) -> None:
        """Queue a complete segment."""
        with self._changed:
            self._queue.append(segment)
            self.backlog_bytes += segment.size
            self._changed.notify_all()

    @property
    def oldest_event_time(self) -> float | None:
        """Unix seconds of the oldest event in any queued segment, not only the first; else None."""
        return min((segment.start_time for segment in tuple(self._queue)), default=None)

    @property
    def has_stopped(self) -> bool:
        """Whether the thread has ended and no segment is in use."""
        return not self._thread.is_alive()

    def close(self, seconds: float) -> bool:
        """Wait up to `seconds` for the queue to empty, and return whether it is empty.

        Tells the thread to stop, which may take longer than this call: see `has_stopped`.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._queue, seconds)
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(1.0)
        return not self._queue

    def _run(self) -> None:
        """Move the first segment of the queue to the store, one after the other, until stopped.

        A failure is reported and tried again after a pause that doubles, up to `MAX_RETRY_SECONDS`;
        the segments behind it wait.
        """
        retry_seconds = MIN_RETRY_SECONDS
        while (segment := self._wait_for_segment()) is not None:
            try:
                if self._was_there:
                    self._store.check_not_gone()
                path = self._archive_path(segment)
                seal_segment(segment, self._store, path, self._find_forgotten)
            except Exception as problem:  # any failure may be temporary
                self._report_failure(f"could not archive {segment.path.name}: {problem}")
                self._pause(retry_seconds)
                retry_seconds = min(retry_seconds * 2, MAX_RETRY_SECONDS)
            else:
                retry_seconds, self._was_there = MIN_RETRY_SECONDS, True
                with self._changed:
                    self.backlog_bytes -= self._queue.popleft().size
                    self.sealed_files += 1
                    self._changed.notify_all()

    def _wait_for_segment(self) -> Segment | None:
        """Return the first segment, which stays in the queue, once there is one.

        None when stopping, also if there are segments.
        """
        with self._changed:
            while not self._queue and not self._stopping:
                self._changed.wait()
            return None if self._stopping else self._queue[0]

    def _pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until the sealer is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)


def seal_segment(
    segment: Segment, store: Store, path: str, find_forgotten: FindForgotten = lambda _: None
) -> None:
    """Write a segment as gzip to `path`, unless it is there already, and delete the segment.

    Lines of forgotten users are left out. The file is durable before the segment is deleted. Raises
    the store's errors or OSError; the segment is then still there.
    """
    forgotten = find_forgotten(segment)
    if store.exists(path):
        # An earlier attempt may have stopped before the file was durable.
        store.fsync_with_parents(path)
    else:
        _write_segment(segment, store, path, forgotten)
    # A user who was forgotten meanwhile: either the file was there to be searched, or it is written
    # again here.
    while (latest := find_forgotten(segment)) != forgotten:
        forgotten = latest
        if store.exists(path):
            _write_segment(segment, store, path, forgotten)
    segment.path.unlink()


def _write_segment(
    segment: Segment, store: Store, path: str, forgotten: Container[str] | None
) -> None:
    """Write a segment as gzip, durably, without the lines of forgotten users."""
    compressor = isal_zlib.compressobj(level=2, wbits=GZIP_WBITS)
    pieces = _read_segment(segment)
    with store.write_durably(path) as file:
        for piece in pieces if forgotten is None else _leave_out(pieces, segment, forgotten):
            file.write(compressor.compress(piece))
        file.write(compressor.flush())


def _read_segment(segment: Segment) -> Iterator[bytes]:
    """Yield the acknowledged bytes of a segment; the file may have more behind them."""
    remaining = segment.size
    with segment.path.open("rb") as file:
        while remaining and (piece := file.read(min(READ_BYTES, remaining))):
            remaining -= len(piece)
            yield piece


def _leave_out(
    pieces: Iterable[bytes], segment: Segment, forgotten: Container[str]
) -> Iterator[bytes]:
    """Yield the lines of a segment that have no id of a forgotten user."""
    list_ids_of = list_rejected_ids if segment.stream == REJECTED else list_ids
    start = b""
    for piece in pieces:
        *lines, start = (start + piece).split(b"\n")
        kept = (line for line in lines if not any(one in forgotten for one in list_ids_of(line)))
        yield b"".join(line + b"\n" for line in kept)
