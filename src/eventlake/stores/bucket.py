"""The common part of stores in buckets and containers."""

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
from eventlake.stores.store import CHUNK_BYTES, Change, Object, Store

DEFAULT_ATTEMPTS = 13
RETRY_TIMEOUT = timedelta(minutes=4)
TRIES = 4
MAX_REQUESTS = 6
"""Range requests in flight."""
WINDOW_BYTES = 16 << 20
"""Bytes of ranges that are requested together."""
MAX_GAP_BYTES = 64 << 10
"""Two ranges that are closer than this are read with one request."""
TRUNCATED = "response body error"
"""obstore's message for a response that ends too early."""

T = TypeVar("T")


class Bucket(Store):
    """The methods that stores of objects share. Subclasses are dataclasses."""

    is_local = False

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def retry_config(self, max_attempts: int = DEFAULT_ATTEMPTS) -> Any:
        return {"max_retries": max_attempts - 1, "retry_timeout": RETRY_TIMEOUT}

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"

    def open(self, path: str) -> pa.NativeFile:
        with self.translate_errors("read", path):
            size = self._store.head(path)["size"]
        raw = RangeFile(size, lambda at, count: bytes(self.read_range(path, at, count)))
        return pa.PythonFile(io.BufferedReader(raw, CHUNK_BYTES), "r")

    @contextmanager
    def open_staged(self, path: str) -> Iterator[pa.NativeFile]:
        """Write to a temporary file and upload it when it is closed."""
        with tempfile.TemporaryDirectory(prefix="eventlake-") as folder:
            part = Path(folder) / "part"
            with pa.OSFile(str(part), "wb") as file:
                yield file
            with self.translate_errors("write", path), part.open("rb") as whole:
                self._store.put(path, whole)  # in parts when it is large; aborted when one fails

    write_durably = open_staged

    def update(self, path: str, change: Change) -> None:
        """Retry while others replace the object first."""
        with self.translate_errors("write", path):
            while not self._try_update(path, change):
                pass

    def _try_update(self, path: str, change: Change) -> bool:
        content, mode = self._read_for_update(path)
        data = change(content)
        if data is None:
            return True
        try:
            self._store.put(path, data, mode=mode)
        except (exceptions.PreconditionError, exceptions.AlreadyExistsError):
            return False
        return True

    def _read_for_update(self, path: str) -> tuple[bytes | None, Any]:
        """An object's content, and the put mode that replaces this version only."""
        try:
            result = self._store.get(path)
        except FileNotFoundError:
            return None, "create"
        return bytes(result.bytes()), {"e_tag": result.meta["e_tag"]}

    def publish(self, staged: str, final: str) -> None:
        """Copy; the staged object is deleted later with its stage, which takes fewer requests."""
        _retry_truncated(partial(self._copy, staged, final))

    def _copy(self, staged: str, final: str) -> None:
        with self.translate_errors("write", final):
            try:
                self._store.copy(staged, final)
            except FileNotFoundError:  # the stage is being removed: an earlier try has copied it
                self._store.head(final)

    def write_staged(self, path: str, data: pa.Buffer) -> None:
        self.write(path, data)

    def read_ranges(self, ranges: Iterable[Range]) -> Iterator[pa.Buffer]:
        """Read adjacent ranges with one request, one window ahead."""
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            pending: deque[_Window] = deque()
            for window in batch_by_size(ranges, WINDOW_BYTES):
                pending.append(_Window(self, pool, window))
                if len(pending) > 1:
                    yield from pending.popleft().parts()
            for last in pending:
                yield from last.parts()

    def delete(self, paths: Iterable[str]) -> None:
        batch = list(paths)
        if batch:
            _retry_truncated(partial(self._delete, batch))

    def _delete(self, paths: list[str]) -> None:
        with self.translate_errors("delete", paths[0]):
            self._store.delete(paths)

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        return _retry_truncated(partial(super().names, prefix))

    def objects(self, prefix: str, after: str = "") -> Iterator[Object]:
        """Continue a truncated listing after its last object."""
        for retries_left in reversed(range(TRIES)):
            try:
                for entry in super().objects(prefix, after):
                    after = entry.path
                    yield entry
            except Unavailable as problem:
                if not retries_left or TRUNCATED not in str(problem):
                    raise
            else:
                return

    def names_after(self, folder: str, name: str) -> list[str]:
        """List from `name` on, so that earlier objects cost no requests."""
        below = f"{folder}/"
        paths = (entry.path for entry in self.objects(folder, f"{below}{name}"))
        # Cloud consoles create an object for the folder itself.
        names = (path.removeprefix(below) for path in paths if path.startswith(below))
        # Names with digits sort before those of folders, so the objects come first.
        return list(takewhile(lambda base: "/" not in base, names))

    def fsync(self, path: str) -> None:
        """Do nothing: acknowledged objects are durable."""

    fsync_with_parents = fsync

    def remove_folder(self, folder: str) -> None:
        """Do nothing: a bucket has no folders."""


class _Window:
    """Ranges whose requests are in flight."""

    def __init__(self, store: Bucket, pool: ThreadPoolExecutor, ranges: list[Range]) -> None:
        self._ranges, self._merged = ranges, merge_ranges(ranges, MAX_GAP_BYTES)
        wholes = dict.fromkeys(self._merged.values())
        self._pending = {whole: pool.submit(store.read_range, *whole) for whole in wholes}

    def parts(self) -> Iterator[pa.Buffer]:
        for part in self._ranges:
            whole = self._merged[part]
            yield self._pending[whole].result().slice(part.start - whole.start, part.size)


def _retry_truncated(work: Callable[[], T]) -> T:
    """Repeat an idempotent request whose response was truncated, which obstore does not retry."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except Unavailable as problem:
            if TRUNCATED not in str(problem):
                raise
    return work()
