"""The common part of stores in buckets and containers."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from datetime import timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import tenacity
from obstore import exceptions

from eventlake.errors import Unavailable
from eventlake.stores.ranges import Range, batch_by_size
from eventlake.stores.store import CHUNK_BYTES, Change, Object, Store

DEFAULT_ATTEMPTS = 13
RETRY_TIMEOUT = timedelta(minutes=4)
MAX_REQUESTS = 6
"""Objects that `read_ranges` reads at a time."""
WINDOW_BYTES = 16 << 20
"""Bytes of ranges that are requested together."""
MAX_GAP_BYTES = 64 << 10
"""Two ranges that are closer than this are read with one request."""
UPDATE_SECONDS = 60
"""Time after which `update` gives up, if others replace the object before each of its tries."""


def _is_truncated(problem: BaseException) -> bool:
    """Whether a response ended too early, by obstore's message; obstore does not retry it."""
    return isinstance(problem, Unavailable) and "response body error" in str(problem)


RETRY_TRUNCATED = tenacity.Retrying(
    retry=tenacity.retry_if_exception(_is_truncated),
    stop=tenacity.stop_after_attempt(4),
    reraise=True,
)


def _give_up_update(state: tenacity.RetryCallState) -> None:
    raise Unavailable(f"could not write {state.args[1]}: others replace it too often; run again")


def as_options(values: Mapping[str, str | bool]) -> dict[str, str]:
    """Options of object_store as text, without empty ones."""
    texts = {k: str(v).lower() if isinstance(v, bool) else v for k, v in values.items()}
    return {name: text for name, text in texts.items() if text}


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
        errors = partial(self.translate_errors, "read", path)
        with errors():
            file = obstore.open_reader(self._store, path, buffer_size=CHUNK_BYTES)
        return pa.PythonFile(_Reader(file, errors), "r")

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

    @RETRY_TRUNCATED.wraps
    def read(self, path: str) -> bytes:
        return super().read(path)

    @RETRY_TRUNCATED.wraps
    def read_if_exists(self, path: str) -> bytes | None:
        return super().read_if_exists(path)

    @RETRY_TRUNCATED.wraps
    def create(self, path: str, data: bytes) -> bool:
        return super().create(path, data)

    @RETRY_TRUNCATED.wraps
    def update(self, path: str, change: Change) -> None:
        """Retry while others replace the object first."""
        with self.translate_errors("write", path):
            self._try_update(path, change)

    @tenacity.retry(
        retry=tenacity.retry_if_result(lambda written: not written),
        wait=tenacity.wait_random_exponential(0.01, max=1),
        stop=tenacity.stop_after_delay(UPDATE_SECONDS),
        retry_error_callback=_give_up_update,
    )
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

    @RETRY_TRUNCATED.wraps
    def publish(self, staged: str, final: str) -> None:
        """Copy; the staged object is deleted later with its stage, which takes fewer requests."""
        with self.translate_errors("write", final):
            try:
                self._copy(staged, final)
            except FileNotFoundError:  # the stage is being removed: an earlier try has copied it
                self._store.head(final)

    def _copy(self, source: str, target: str) -> None:
        """Copy an object and wait until the copy is complete; raises FileNotFoundError."""
        self._store.copy(source, target)

    def write_staged(self, path: str, data: pa.Buffer) -> None:
        self.write(path, data)

    def read_ranges(self, ranges: Iterable[Range]) -> Iterator[pa.Buffer]:
        """Request the ranges of one window while those of the window before are used."""
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            pending: deque[Iterator[pa.Buffer]] = deque()
            for window in batch_by_size(ranges, WINDOW_BYTES):
                pending.append(self._request(pool, window))
                if len(pending) > 1:
                    yield from pending.popleft()
            for last in pending:
                yield from last

    def _request(self, pool: ThreadPoolExecutor, ranges: list[Range]) -> Iterator[pa.Buffer]:
        """Start to read ranges; return an iterator over them that waits for each object."""
        by_path: dict[str, list[Range]] = {}
        for part in ranges:
            by_path.setdefault(part.path, []).append(part)
        futures = {
            path: pool.submit(self._read_parts, path, parts) for path, parts in by_path.items()
        }
        # A future's result is an iterator, so each call of next() gives the object's next range.
        return (next(futures[part.path].result()) for part in ranges)

    def _read_parts(self, path: str, parts: list[Range]) -> Iterator[pa.Buffer]:
        """Read ranges of one object; those close to each other with one request."""
        starts, ends = [part.start for part in parts], [part.end for part in parts]
        with self.translate_errors("read", path):
            buffers = self._store.get_ranges(path, starts=starts, ends=ends, coalesce=MAX_GAP_BYTES)
        return map(pa.py_buffer, buffers)

    def delete(self, paths: Iterable[str]) -> None:
        if batch := list(paths):
            RETRY_TRUNCATED.copy()(self._delete, batch)

    def _delete(self, paths: list[str]) -> None:
        with self.translate_errors("delete", paths[0]):
            self._store.delete(paths)

    @RETRY_TRUNCATED.wraps
    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        return super().names(prefix)

    def objects(self, prefix: str, after: str = "") -> Iterator[Object]:
        """Continue a truncated listing after its last object."""
        for attempt in RETRY_TRUNCATED.copy():
            with attempt:
                for entry in super().objects(prefix, after):
                    after = entry.path
                    yield entry

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


class _Reader:
    """A file whose reads raise EventLake errors."""

    closed = False  # Arrow asks for it, and files of obstore do not have it

    def __init__(self, file: Any, errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._file, self._errors = file, errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> Any:
        with self._errors():
            return self._file.read(size)
