"""Complete segments go to the archive, compressed, as often as it takes."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic

from isal import isal_zlib

from eventlake.collect.spool import Segment
from eventlake.stores import Store

PIECE = 1 << 20
GZIP = 31
FIRST_WAIT, LONGEST_WAIT = 0.2, 15.0

Place = Callable[[Segment], str]
"""The archive's name for a segment."""


class Sealer:
    """A thread that moves segments into the lake's store, oldest first, until each is there."""

    def __init__(self, store: Store, place: Place, on_trouble: Callable[[str], None]) -> None:
        self._store, self._place, self._on_trouble = store, place, on_trouble
        self._waiting: deque[Segment] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self.backlog = 0
        """Bytes that wait for the store."""
        self.sealed = 0
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self._thread.start()

    def take(self, segment: Segment) -> None:
        with self._changed:
            self._waiting.append(segment)
            self.backlog += segment.size
            self._changed.notify_all()

    @property
    def began(self) -> float | None:
        """Unix seconds of the oldest event that waits."""
        return min((segment.began for segment in tuple(self._waiting)), default=None)

    @property
    def ended(self) -> bool:
        """Whether it touches no segment any more."""
        return not self._thread.is_alive()

    def close(self, seconds: float) -> bool:
        """Wait for the archive to have everything; False when it did not in that time."""
        until = monotonic() + seconds
        with self._changed:
            while self._waiting and self._changed.wait(max(0.0, until - monotonic())):
                pass
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(1.0)
        return not self._waiting

    def _run(self) -> None:
        wait = FIRST_WAIT
        while (segment := self._next()) is not None:
            try:
                seal(segment, self._store, self._place(segment))
            except Exception as problem:  # whatever it is, the next try may do better
                self._on_trouble(f"could not archive {segment.path.name}: {problem}")
                self._pause(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                wait = FIRST_WAIT
                self._done()

    def _next(self) -> Segment | None:
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            return None if self._stopping else self._waiting[0]

    def _pause(self, seconds: float) -> None:
        until = monotonic() + seconds
        with self._changed:
            while not self._stopping and monotonic() < until:
                self._changed.wait(until - monotonic())

    def _done(self) -> None:
        with self._changed:
            self.backlog -= self._waiting.popleft().size
            self.sealed += 1
            self._changed.notify_all()


def seal(segment: Segment, store: Store, path: str) -> None:
    """Put a segment into the archive, once however often this is tried, then remove it."""
    if store.exists(path):
        store.fsync_with_parents(path)  # an earlier try may have got no further than the name
    else:
        with store.write_durably(path) as file:
            for piece in _compressed(segment):
                file.write(piece)
    segment.path.unlink()


def _compressed(segment: Segment) -> Iterator[bytes]:
    squeeze, left = isal_zlib.compressobj(level=2, wbits=GZIP), segment.size
    with segment.path.open("rb") as file:
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield squeeze.compress(piece)
    yield squeeze.flush()
