"""Byte ranges of objects: a seekable file, and many ranges with few requests."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

Read = Callable[[int, int], bytes]
"""Returns the bytes at (start, size)."""


class Range(NamedTuple):
    """A byte range of an object."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Sized(Protocol):
    """Has a size in bytes."""

    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=Sized)


def batch_by_size(items: Iterable[T], max_bytes: int) -> Iterator[list[T]]:
    """Batch items in order, up to `max_bytes` per batch; a larger item is a batch of its own."""
    batch: list[T] = []
    size = 0
    for item in items:
        if batch and size + item.size > max_bytes:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.size
    if batch:
        yield batch


def merge_ranges(ranges: Sequence[Range], gap: int) -> dict[Range, Range]:
    """Map each range to the range to read: ranges at most `gap` bytes apart are merged."""
    merged: dict[Range, Range] = {}
    group: list[Range] = []
    whole = Range("", 0, 0)
    for part in sorted(set(ranges)):
        if part.path != whole.path or part.start > whole.end + gap:
            merged |= dict.fromkeys(group, whole)
            group, whole = [], part
        group.append(part)
        whole = whole._replace(size=max(whole.end, part.end) - whole.start)
    return merged | dict.fromkeys(group, whole)


class RangeFile(io.RawIOBase):
    """A seekable file over a function that reads ranges."""

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
