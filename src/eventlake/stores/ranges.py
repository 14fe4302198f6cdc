"""Objects of a bucket by parts: as a file to seek in, and many parts in few requests."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

Read = Callable[[int, int], bytes]
"""The bytes from a start, so many."""


class Range(NamedTuple):
    """A part of an object."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Sized(Protocol):
    """Something of so many bytes."""

    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=Sized)


def batch_by_size(things: Iterable[T], most: int) -> Iterator[list[T]]:
    """Things in their order, as many at a time as make so many bytes, at least one."""
    window: list[T] = []
    held = 0
    for one in things:
        if window and held + one.size > most:
            yield window
            window, held = [], 0
        window.append(one)
        held += one.size
    if window:
        yield window


def merge_ranges(ranges: Sequence[Range], gap: int) -> dict[Range, Range]:
    """For each range the larger one that it is read with: its neighbours, and what is between."""
    found: dict[Range, Range] = {}
    together: list[Range] = []
    whole = Range("", 0, 0)
    for one in sorted(set(ranges)):
        if one.path != whole.path or one.start > whole.end + gap:
            found |= dict.fromkeys(together, whole)
            together, whole = [], one
        together.append(one)
        whole = whole._replace(size=max(whole.end, one.end) - whole.start)
    return found | dict.fromkeys(together, whole)


class RangeFile(io.RawIOBase):
    """Reads an object of a known size through a function that gives parts of it."""

    def __init__(self, size: int, read_range: Read) -> None:
        super().__init__()
        self._size, self._read_range, self._at = size, read_range, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, origins[whence] + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._size - self._at)
        if size <= 0:
            return 0
        buffer[:size] = self._read_range(self._at, size)
        self._at += size
        return size
