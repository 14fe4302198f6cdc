"""The interface of stores, and the methods that are the same on disk and in buckets."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from obstore import exceptions

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.stores.ranges import Range

if TYPE_CHECKING:  # a server and a collector need no Arrow, which takes 40 MB of memory
    import pyarrow as pa
    from pyarrow.fs import FileSystem

CHUNK_BYTES = 1 << 20
"""Size of the pieces that `stream` yields."""

Change = Callable[[bytes | None], bytes | None]


class Object(NamedTuple):
    """An object of a listing; its path is relative to the root."""

    path: str
    size: int
    modified: datetime
    etag: str
    """Changes when the object does."""


class Store:
    """The objects below a lake's root. Pickles, so that workers open the same store."""

    root: str
    """Prefix of every path: a folder's absolute path, or a bucket's address."""
    is_local: bool
    """Whether the store is on this machine, so that recent writes are read from the page cache."""
    _store: Any

    @property
    def is_there(self) -> bool:
        """Whether there is something below the root: the first object makes its folder."""
        return True

    def check_not_gone(self) -> None:
        """Raise Unavailable if a lake that had something has nothing any more.

        Its disk is not mounted, or its folder was moved: to write would begin another lake there.
        """
        if not self.is_there:
            raise Unavailable(
                f"{self.root} is gone or empty: mount its disk or move it back; to begin another "
                "lake there, make the folder segment-logs in it"
            )

    # What a disk and a bucket do each in its own way

    def uri(self, path: str) -> str:
        """An object's full address."""
        raise NotImplementedError

    def filesystem(self) -> "tuple[FileSystem, str]":
        """The store as an Arrow filesystem, and the prefix of paths in it."""
        raise NotImplementedError

    def storage_options(self) -> dict[str, str]:
        """Options, with current credentials, for libraries that open `root` with object_store."""
        return {}

    def open(self, path: str) -> "pa.NativeFile":
        """A seekable file."""
        raise NotImplementedError

    def read_ranges(self, ranges: Iterable[Range]) -> "Iterator[pa.Buffer]":
        """Read parts of objects, in the order of `ranges`."""
        raise NotImplementedError

    def open_staged(self, path: str) -> "AbstractContextManager[pa.NativeFile]":
        """Open a file for writing; nobody may read `path` before it is closed."""
        raise NotImplementedError

    def write_staged(self, path: str, data: "pa.Buffer") -> None:
        """Write an object that nobody reads before this returns."""
        with self.open_staged(path) as file:
            file.write(data)

    def write_durably(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """Open a file that appears at `path` only when it is complete and on stable storage."""
        raise NotImplementedError

    def update(self, path: str, change: Change) -> None:
        """Replace an object atomically with what `change` returns for its content.

        `change` gets None if there is no object, and returns None to leave it as it is. It may be
        called several times.
        """
        raise NotImplementedError

    def publish(self, staged: str, final: str) -> None:
        """Move or copy a staged object to `final`; do nothing if an earlier try has done so."""
        raise NotImplementedError

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those that are already gone are ignored."""
        raise NotImplementedError

    def fsync(self, path: str) -> None:
        """Flush an object's content to stable storage."""
        raise NotImplementedError

    def fsync_with_parents(self, path: str) -> None:
        """Flush an object and its parent folders to stable storage."""
        raise NotImplementedError

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with partially written files in it; a bucket has neither."""
        raise NotImplementedError

    # The same for all stores

    def read(self, path: str) -> bytes:
        with self.translate_errors("read", path):
            return bytes(self._store.get(path).bytes())

    def read_if_exists(self, path: str) -> bytes | None:
        """The content of an object, or None if there is none."""
        with self.translate_errors("read", path):
            try:
                return bytes(self._store.get(path).bytes())
            except FileNotFoundError:
                return None

    def stream(self, path: str) -> Iterator[bytes]:
        """Read an object in pieces, however large it is."""
        with self.translate_errors("read", path):
            for piece in self._store.get(path).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(piece)

    def write(self, path: str, data: "bytes | pa.Buffer") -> None:
        """Write an object atomically."""
        with self.translate_errors("write", path):
            self._store.put(path, memoryview(data).cast("B"))

    def create(self, path: str, data: bytes) -> bool:
        """Write an object unless there is one at `path`; return whether it was written."""
        with self.translate_errors("write", path):
            try:
                self._store.put(path, data, mode="create")
            except exceptions.AlreadyExistsError:
                return False
        return True

    def find(self, path: str) -> Object | None:
        """The size, time and etag of an object, or None if there is none."""
        with self.translate_errors("read", path):
            try:
                return _object(self._store.head(path))
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def objects(self, prefix: str, after: str = "") -> Iterator[Object]:
        """List every object below a prefix, or those that sort after the path `after`."""
        with self.translate_errors("list", prefix):
            for page in self._store.list(prefix, offset=after or None):
                yield from map(_object, page)

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        """The sorted base names of the folders and of the objects directly below a prefix."""
        with self.translate_errors("list", prefix):
            listing = self._store.list_with_delimiter(prefix)
        folders = (path.rstrip("/") for path in listing["common_prefixes"])
        objects = (entry["path"] for entry in listing["objects"])
        return _base_names(folders), _base_names(objects)

    def names_after(self, folder: str, name: str) -> list[str]:
        """The sorted base names of the objects directly below a folder that sort after `name`."""
        return [other for other in self.names(folder)[1] if other > name]

    @contextmanager
    def translate_errors(self, verb: str, path: str) -> Iterator[None]:
        """Raise the store's exceptions as EventLake errors."""
        try:
            yield
        except EventLakeError:
            raise
        except (OSError, exceptions.BaseError) as problem:
            raise self.explain(problem, verb, path) from problem

    def explain(self, problem: Exception, verb: str, path: str) -> EventLakeError:
        """The EventLake error for a store's exception."""
        if isinstance(problem, PermissionError | exceptions.PermissionDeniedError):
            return InsufficientPermissions(
                f"no permission to {verb} {path}: grant it and run again"
            )
        if isinstance(problem, FileNotFoundError):
            return InvalidSettings(f"cannot {verb} {path}: it does not exist")
        reason = str(problem).partition("\n")[0]
        return Unavailable(f"could not {verb} {path}: {reason}")


def _object(entry: Any) -> Object:
    etag = (entry["e_tag"] or "").strip('"')  # missing in listings of Azure
    return Object(entry["path"], entry["size"], entry["last_modified"], etag)


def _base_names(paths: Iterable[str]) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in paths)
