"""The one way to objects, on disk or in a bucket: obstore, with its errors in our words."""

import fcntl
import glob
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from obstore import exceptions
from obstore.store import LocalStore

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable


class Object(NamedTuple):
    """An object's name below the root, and what a listing tells of it."""

    path: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Store:
    """A lake's root. It pickles, so that workers open the same."""

    root: str
    """An absolute path."""

    @cached_property
    def _store(self) -> Any:
        # Empty folders go with the last object in them, as they do in a bucket.
        return LocalStore(self.root, mkdir=True, automatic_cleanup=True)

    def __getstate__(self) -> dict[str, str]:
        return {"root": self.root}

    def read(self, path: str) -> bytes:
        with _errors("read", path):
            return bytes(self._store.get(path).bytes())

    def read_range(self, path: str, start: int, size: int) -> pa.Buffer:
        """A part of an object, without a copy where it lies on disk."""
        with self.open(path) as file:
            file.seek(start)
            return file.read_buffer(size)

    def open(self, path: str) -> pa.NativeFile:
        """A file to seek in, for readers that want parts of it."""
        with _errors("read", path):
            return pa.memory_map(str(Path(self.root) / path))

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Put an object in place, whole or not at all."""
        with _errors("write", path):
            self._store.put(path, memoryview(data).cast("B"))

    @contextmanager
    def writing(self, path: str) -> Iterator[pa.NativeFile]:
        """A file to write piece by piece, under a name that nobody knows before it is done."""
        with _errors("write", path), self._new_file(f"{self.root}/{path}") as file:
            yield file

    def _new_file(self, place: str) -> pa.NativeFile:
        try:
            return pa.OSFile(place, "wb")
        except FileNotFoundError:  # the first in its folder
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(place, "wb")

    def create(self, path: str, data: bytes) -> bool:
        """Put an object if there is none of that name; False if there is."""
        with _errors("write", path):
            try:
                self._store.put(path, data, mode="create")
            except exceptions.AlreadyExistsError:
                return False
        return True

    def change(self, path: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Put what a function makes of an object, or of None, with nobody in between.

        When it makes None, the object stays as it is.
        """
        place = Path(self.root) / path
        with _errors("write", path):
            place.parent.mkdir(parents=True, exist_ok=True)
            with (place.parent / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a process that dies lets go
                for half in place.parent.glob(f"{glob.escape(place.name)}#*"):
                    half.unlink()  # its writer is dead: only who has the lock writes here
                data = change(place.read_bytes() if place.exists() else None)
                if data is not None:
                    self._store.put(path, data)

    def settle(self, path: str) -> None:
        """Make an object outlive a loss of power, which in a bucket it does anyway."""
        with _errors("write", path):
            file = os.open(Path(self.root) / path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def exists(self, path: str) -> bool:
        with _errors("read", path):
            try:
                self._store.head(path)
            except FileNotFoundError:
                return False
        return True

    def move(self, source: str, target: str) -> None:
        """Bring an object to its place; nothing to do if an earlier try has."""
        with _errors("move", source):
            try:
                self._store.rename(source, target)
            except FileNotFoundError:
                self._store.head(target)

    def objects(self, prefix: str) -> Iterator[Object]:
        """Every object below a prefix."""
        with _errors("list", prefix):
            for page in self._store.list(prefix):
                yield from (_object(entry) for entry in page)

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        """The folders and the objects right below a prefix, by their last name, in order."""
        with _errors("list", prefix):
            found = self._store.list_with_delimiter(prefix)
        folders = (path.rstrip("/") for path in found["common_prefixes"])
        objects = (entry["path"] for entry in found["objects"])
        return _last(folders), _last(objects)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is gone already is no problem."""
        for path in paths:
            with _errors("delete", path):
                try:
                    self._store.delete(path)
                except FileNotFoundError:
                    continue

    def prune(self, folder: str) -> None:
        """Remove the shell of a folder, and halves of objects in it, which a bucket never has."""
        shutil.rmtree(Path(self.root) / folder, ignore_errors=True)


def _object(entry: Any) -> Object:
    return Object(entry["path"], entry["size"], entry["last_modified"])


def _last(paths: Iterable[str]) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in paths)


@contextmanager
def _errors(verb: str, path: str) -> Iterator[None]:
    """A store's refusals in our words; the cause is kept."""
    try:
        yield
    except EventLakeError:
        raise
    except (PermissionError, exceptions.PermissionDeniedError) as problem:
        raise InsufficientPermissions(
            f"may not {verb} {path}: grant that and run again"
        ) from problem
    except FileNotFoundError as problem:
        raise InvalidSettings(f"cannot {verb} {path}: it does not exist") from problem
    except (OSError, exceptions.BaseError) as problem:
        reason = str(problem).partition("\n")[0]
        raise Unavailable(f"could not {verb} {path}: {reason}") from problem


def open_store(lake: str | Path, *, make: bool) -> Store:
    """The store of a lake that is given by its folder; only who lands events may make one."""
    if "://" in str(lake):
        scheme = urlsplit(str(lake)).scheme
        if scheme != "file":
            raise InvalidSettings(f"lake is {str(lake)!r}: a folder on disk is what works today")
        lake = unquote(urlsplit(str(lake)).path)
    root = Path(lake).expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise InvalidSettings(f"lake is {str(lake)!r}: it is a file, and a lake is a folder")
    if not make and not root.exists():
        raise InvalidSettings(f"lake is {str(lake)!r}: there is no such folder")
    return Store(str(root))
