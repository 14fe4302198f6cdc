"""What every bucket does alike, whoever keeps it."""

import io
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from obstore import exceptions

from eventlake.errors import Unavailable
from eventlake.stores.ranges import Range, RangeFile, batch_by_size, merge_ranges
from eventlake.stores.store import PIECE, Change, Object, Store

RETRIES: Any = {"max_retries": 12, "retry_timeout": timedelta(minutes=4)}
TRIES = 4
AHEAD = 6
"""Requests for parts of objects that are under way at a time."""
WINDOW = 16 << 20
"""Bytes of parts that are asked for at once."""
GAP = 64 << 10
"""Bytes that are rather read in vain than asked for around."""
BROKEN = "response body error"
"""How obstore calls an answer that ends before its end."""

T = TypeVar("T")


class Bucket(Store):
    """Objects that are whole or not there, in no folders; a dataclass says where."""

    is_local = False

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"

    def open(self, path: str) -> pa.NativeFile:
        with self.translate_errors("read", path):
            size = self._store.head(path)["size"]
        raw = RangeFile(size, lambda at, count: bytes(self.read_range(path, at, count)))
        return pa.PythonFile(io.BufferedReader(raw, PIECE), "r")

    @contextmanager
    def open_staged(self, path: str) -> Iterator[pa.NativeFile]:
        """Through a file on disk: what the bucket gets is whole, or nothing at all."""
        with tempfile.TemporaryDirectory(prefix="eventlake-") as folder:
            part = Path(folder) / "part"
            with pa.OSFile(str(part), "wb") as file:
                yield file
            with self.translate_errors("write", path), part.open("rb") as whole:
                self._store.put(path, whole)  # in parts when it is large; aborted when one fails

    write_durably = open_staged

    def update(self, path: str, change: Change) -> None:
        """Tried again when somebody else was faster."""
        with self.translate_errors("write", path):
            while not self._changed(path, change):
                pass

    def _changed(self, path: str, change: Change) -> bool:
        known, mode = self._known(path)
        data = change(known)
        if data is None:
            return True
        try:
            self._store.put(path, data, mode=mode)
        except (exceptions.PreconditionError, exceptions.AlreadyExistsError):
            return False
        return True

    def _known(self, path: str) -> tuple[bytes | None, Any]:
        """An object, and the condition under which it may be replaced."""
        try:
            found = self._store.get(path)
        except FileNotFoundError:
            return None, "create"
        return bytes(found.bytes()), {"e_tag": found.meta["e_tag"]}

    def publish(self, staged: str, final: str) -> None:
        """A copy: to delete each staged object by itself would take as many requests again."""
        _unbroken(partial(self._copy, staged, final))

    def _copy(self, staged: str, final: str) -> None:
        with self.translate_errors("write", final):
            try:
                self._store.copy(staged, final)
            except FileNotFoundError:  # the stage is being removed, so an earlier try has
                self._store.head(final)

    def write_staged(self, path: str, data: pa.Buffer) -> None:
        self.write(path, data)

    def read_ranges(self, ranges: Iterable[Range]) -> Iterator[pa.Buffer]:
        """Neighbours in one request, and the next ones on their way before they are asked for."""
        with ThreadPoolExecutor(AHEAD) as pool:
            coming: deque[_Window] = deque()
            for window in batch_by_size(ranges, WINDOW):
                coming.append(_Window(self, pool, window))
                if len(coming) > 1:
                    yield from coming.popleft().parts()
            for last in coming:
                yield from last.parts()

    def delete(self, paths: Iterable[str]) -> None:
        given = list(paths)
        if given:
            _unbroken(partial(self._delete, given))

    def _delete(self, paths: list[str]) -> None:
        with self.translate_errors("delete", paths[0]):
            self._store.delete(paths)

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        return _unbroken(partial(super().names, prefix))

    def objects(self, prefix: str, after: str = "") -> Iterator[Object]:
        """A listing that breaks off goes on after the last object that it told."""
        for left in reversed(range(TRIES)):
            try:
                for found in super().objects(prefix, after):
                    after = found.path
                    yield found
            except Unavailable as problem:
                if not left or BROKEN not in str(problem):
                    raise
            else:
                return

    def names_after(self, folder: str, name: str) -> list[str]:
        """One listing that begins after `name`: what came before costs no request."""
        below = f"{folder}/"
        paths = (one.path for one in self.objects(folder, f"{below}{name}"))
        # A console makes an object for the folder itself.
        names = (path.removeprefix(below) for path in paths if path.startswith(below))
        # Names with digits sort before those of folders, so the objects come first.
        return list(takewhile(lambda found: "/" not in found, names))

    def fsync(self, path: str) -> None:
        """A bucket keeps what it has acknowledged."""

    fsync_with_parents = fsync

    def remove_folder(self, folder: str) -> None:
        """A bucket has no folders."""


class _Window:
    """Some parts of objects, on their way."""

    def __init__(self, store: Bucket, pool: ThreadPoolExecutor, ranges: list[Range]) -> None:
        self._ranges, self._within = ranges, merge_ranges(ranges, GAP)
        wholes = dict.fromkeys(self._within.values())
        self._coming = {whole: pool.submit(store.read_range, *whole) for whole in wholes}

    def parts(self) -> Iterator[pa.Buffer]:
        for one in self._ranges:
            whole = self._within[one]
            yield self._coming[whole].result().slice(one.start - whole.start, one.size)


def _unbroken(work: Callable[[], T]) -> T:
    """Do again what may be done twice, when its answer broke off: obstore leaves that to us."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except Unavailable as problem:
            if BROKEN not in str(problem):
                raise
    return work()
