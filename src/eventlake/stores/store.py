"""What every store can do, and the half of it that obstore does alike on disk and in a bucket."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
from obstore import exceptions
from pyarrow.fs import FileSystem

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.stores.ranges import Range

PIECE = 1 << 20
"""Bytes that a log is read by."""

Change = Callable[[bytes | None], bytes | None]


class Object(NamedTuple):
    """An object's name below the root, and what a listing tells of it."""

    path: str
    size: int
    modified: datetime
    etag: str
    """Changes when the object does."""


class Store:
    """A lake's root. It pickles, so that workers open the same."""

    root: str
    """What stands before every path: a folder's absolute path, or `s3://bucket`."""
    is_local: bool
    """Whether what was just written is read again from memory."""
    _store: Any

    # What a disk and a bucket do each in its own way

    def uri(self, path: str) -> str:
        """An object's whole address."""
        raise NotImplementedError

    def filesystem(self) -> tuple[FileSystem, str]:
        """The same for Arrow's own readers, and what stands before a path there."""
        raise NotImplementedError

    def open(self, path: str) -> pa.NativeFile:
        """A file to seek in, for readers that want parts of it."""
        raise NotImplementedError

    def read_ranges(self, ranges: Iterable[Range]) -> Iterator[pa.Buffer]:
        """Parts of objects, in the order that they are asked for."""
        raise NotImplementedError

    def open_staged(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A file to write piece by piece, under a name that nobody knows before it is done."""
        raise NotImplementedError

    def write_staged(self, path: str, data: pa.Buffer) -> None:
        """Put an object under a name that nobody knows before it is done."""
        with self.open_staged(path) as file:
            file.write(data)

    def write_durably(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A file to write piece by piece that has its name only when it is whole, and lasts."""
        raise NotImplementedError

    def update(self, path: str, change: Change) -> None:
        """Put what a function makes of an object, or of None, with nobody in between.

        When it makes None, the object stays as it is.
        """
        raise NotImplementedError

    def publish(self, staged: str, final: str) -> None:
        """Bring an object to its place, where an earlier try may have brought it; what is left of
        it in the stage goes with the stage."""
        raise NotImplementedError

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is gone already is no problem."""
        raise NotImplementedError

    def fsync(self, path: str) -> None:
        """Make what an object holds outlive a loss of power."""
        raise NotImplementedError

    def fsync_with_parents(self, path: str) -> None:
        """Make an object outlive a loss of power, and the folders that name it."""
        raise NotImplementedError

    def remove_folder(self, folder: str) -> None:
        """Remove the shell of a folder, and halves of objects in it, which a bucket never has."""
        raise NotImplementedError

    # What obstore does for both

    def read(self, path: str) -> bytes:
        with self.translate_errors("read", path):
            return bytes(self._store.get(path).bytes())

    def stream(self, path: str) -> Iterator[bytes]:
        """An object piece by piece, however large it is."""
        with self.translate_errors("read", path):
            for piece in self._store.get(path).stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def read_range(self, path: str, start: int, size: int) -> pa.Buffer:
        """A part of an object."""
        with self.translate_errors("read", path):
            return pa.py_buffer(self._store.get_range(path, start=start, length=size))

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Put an object in place, whole or not at all."""
        with self.translate_errors("write", path):
            self._store.put(path, memoryview(data).cast("B"))

    def create(self, path: str, data: bytes) -> bool:
        """Put an object if there is none of that name; False if there is."""
        with self.translate_errors("write", path):
            try:
                self._store.put(path, data, mode="create")
            except exceptions.AlreadyExistsError:
                return False
        return True

    def find(self, path: str) -> Object | None:
        """What is known of an object, or None."""
        with self.translate_errors("read", path):
            try:
                return _object(self._store.head(path))
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def objects(self, prefix: str, after: str = "") -> Iterator[Object]:
        """Every object below a prefix, or those that come after one."""
        with self.translate_errors("list", prefix):
            for page in self._store.list(prefix, offset=after or None):
                yield from map(_object, page)

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        """The folders and the objects right below a prefix, by their last name, in order."""
        with self.translate_errors("list", prefix):
            found = self._store.list_with_delimiter(prefix)
        folders = (path.rstrip("/") for path in found["common_prefixes"])
        objects = (entry["path"] for entry in found["objects"])
        return _last(folders), _last(objects)

    def names_after(self, folder: str, name: str) -> list[str]:
        """The objects right below a folder whose last name comes after `name`, in order."""
        return [other for other in self.names(folder)[1] if other > name]

    @contextmanager
    def translate_errors(self, verb: str, path: str) -> Iterator[None]:
        """A store's refusals in our words; the cause is kept."""
        try:
            yield
        except EventLakeError:
            raise
        except (OSError, exceptions.BaseError) as problem:
            raise self.explain(problem, verb, path) from problem

    def explain(self, problem: Exception, verb: str, path: str) -> EventLakeError:
        """What a user should know of a refusal."""
        if isinstance(problem, PermissionError | exceptions.PermissionDeniedError):
            return InsufficientPermissions(f"may not {verb} {path}: grant that and run again")
        if isinstance(problem, FileNotFoundError):
            return InvalidSettings(f"cannot {verb} {path}: it does not exist")
        reason = str(problem).partition("\n")[0]
        return Unavailable(f"could not {verb} {path}: {reason}")


def _object(entry: Any) -> Object:
    etag = (entry["e_tag"] or "").strip('"')  # which a listing of Azure leaves out
    return Object(entry["path"], entry["size"], entry["last_modified"], etag)


def _last(paths: Iterable[str]) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in paths)
