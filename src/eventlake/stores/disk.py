"""A lake's root on disk."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeVar

from obstore.store import LocalStore

from eventlake.stores.ranges import Range
from eventlake.stores.store import Change, Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

T = TypeVar("T")

MAX_OPEN_FILES = 64
"""Files that `read_ranges` keeps open."""


@dataclass(frozen=True)
class Disk(Store):
    """A folder."""

    root: str
    is_local = True

    @cached_property
    def _store(self) -> Any:
        # Remove a folder with its last object, as in a bucket.
        return LocalStore(self.root, mkdir=True, automatic_cleanup=True)

    @property
    def is_there(self) -> bool:
        try:
            with os.scandir(self.root) as entries:
                return next(entries, None) is not None
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError:  # the next operation says so
            return True

    def __getstate__(self) -> dict[str, str]:
        return {"root": self.root}

    def uri(self, path: str) -> str:
        return (Path(self.root) / path).as_uri()

    def filesystem(self) -> "tuple[FileSystem, str]":
        from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 - see `Store`

        return LocalFileSystem(), self.root

    def read_ranges(self, ranges: Iterable[Range]) -> "Iterator[pa.Buffer]":
        """Memory-map each file once for successive ranges."""
        open_file = lru_cache(MAX_OPEN_FILES)(self.open)
        for path, start, size in ranges:
            file = open_file(path)
            file.seek(start)
            yield file.read_buffer(size)

    def open(self, path: str) -> "pa.NativeFile":
        import pyarrow as pa  # noqa: PLC0415

        with self.translate_errors("read", path):
            return pa.memory_map(str(Path(self.root) / path))

    @contextmanager
    def open_staged(self, path: str) -> "Iterator[pa.NativeFile]":
        """Write in place: readers of `path` would see a partial file."""
        import pyarrow as pa  # noqa: PLC0415

        with (
            self.translate_errors("write", path),
            _make_file(f"{self.root}/{path}", lambda new: pa.OSFile(new, "wb")) as file,
        ):
            yield file

    @contextmanager
    def write_durably(self, path: str) -> Iterator[IO[bytes]]:
        final = PurePosixPath(path)
        part = str(final.with_name(f".{final.name}.part"))  # a later try overwrites it
        with self.translate_errors("write", path), _make_file(f"{self.root}/{part}", _open) as file:
            yield file
        self.fsync(part)
        self.publish(part, path)
        self.fsync_with_parents(path)

    def update(self, path: str, change: Change) -> None:
        full_path = f"{self.root}/{path}"
        lock = f"{full_path.rpartition('/')[0]}/.lock"
        with self.translate_errors("write", path), _make_file(lock, _open) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)  # released if the process dies
            # A partial file is of a dead writer: only the holder of the lock writes here.
            Path(f"{full_path}#1").unlink(missing_ok=True)
            data = change(_read_if_exists(Path(full_path)))
            if data is not None:
                self._store.put(path, data)

    def names_after(self, folder: str, name: str) -> list[str]:
        with self.translate_errors("list", folder):
            try:
                names = os.listdir(f"{self.root}/{folder}")  # noqa: PTH208 - ten times as fast
            except FileNotFoundError:
                return []
        return sorted(other for other in names if other > name)

    def publish(self, staged: str, final: str) -> None:
        with self.translate_errors("move", staged):
            try:
                self._store.rename(staged, final)
            except FileNotFoundError:
                self._store.head(final)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self.translate_errors("delete", path):
                try:
                    self._store.delete(path)
                except FileNotFoundError:
                    continue

    def fsync(self, path: str) -> None:
        with self.translate_errors("write", path):
            file = os.open(Path(self.root) / path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def fsync_with_parents(self, path: str) -> None:
        for name in (path, *map(str, PurePosixPath(path).parents)):
            self.fsync(name)

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(Path(self.root) / folder, ignore_errors=True)


def _read_if_exists(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _open(path: str) -> IO[bytes]:
    return Path(path).open("wb")


def _make_file(path: str, open_file: Callable[[str], T]) -> T:
    """Open a new file, and make its folder if it is the first in it."""
    try:
        return open_file(path)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return open_file(path)
