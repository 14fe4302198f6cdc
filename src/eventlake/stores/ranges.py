"""An object of a bucket as a file to seek in, read by ranges."""

import io
from collections.abc import Callable
from typing import Any

Range = Callable[[int, int], bytes]
"""The bytes from a start, so many."""


class RangeFile(io.RawIOBase):
    """Reads an object of a known size through a function that gives parts of it."""

    def __init__(self, size: int, read_range: Range) -> None:
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
