"""Reads a lake's files through Arrow's filesystems, not through the store that wrote them."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from eventlake.errors import EventLakeError, InsufficientPermissions, Unavailable
from eventlake.verify.s3_errors import explain_refusal, is_refused

MAX_READS = 16
"""Small objects that are read at the same time."""
FAILURES = (OSError, pa.ArrowException)
"""Arrow's exceptions for unreadable files."""
LAKE = "lake:"
"""Prefix of addresses of files in the lake; a percent-encoded path follows."""

_BUFFER = 1 << 20


class Prefixes(NamedTuple):
    """Where a lake has what is verified; the paths below these are rules of this package."""

    data: str = "segment-data/data"
    quarantine: str = "segment-data/quarantine"
    ledger: str = "segment-data/ledger"
    sources: str = "segment-data/sources.json"


DEFAULT_PREFIXES = Prefixes()


@dataclass(frozen=True)
class LakeFiles:
    """A lake's filesystem, its root there (a folder or a bucket), and the prefixes of its files."""

    filesystem: FileSystem
    root: str
    prefixes: Prefixes = DEFAULT_PREFIXES

    @property
    def _scheme(self) -> str:
        """The scheme of the addresses of the lake's files; `local` on disk."""
        return str(self.filesystem.type_name)

    def full_path(self, path: str) -> str:
        """A path of the lake in the filesystem."""
        return f"{self.root.rstrip('/')}/{path}"

    def relative_path(self, full_path: str) -> str:
        """A path of the filesystem relative to the lake's root."""
        return full_path.removeprefix(self.full_path(""))

    def folders(self, path: str) -> list[str]:
        """The sorted names of the folders directly below a path."""
        infos = self._list(path, FileType.Directory)
        return sorted(one.path.rpartition("/")[2] for one in infos)

    def files(self, path: str) -> dict[str, int]:
        """Path and size of the files below a path, sorted, without hidden files."""
        infos = self._list(path, FileType.File, deep=True)
        sizes = {self.relative_path(one.path): one.size for one in infos if one.base_name[0] != "."}
        return dict(sorted(sizes.items()))

    def has(self, path: str) -> bool:
        """Whether a file exists."""
        with self._translate_errors(path):
            info = self.filesystem.get_file_info(self.full_path(path))
        return bool(info.type == FileType.File)

    def _list(self, path: str, kind: FileType, *, deep: bool = False) -> list[FileInfo]:
        below = FileSelector(self.full_path(path), recursive=deep)
        with self._translate_errors(path):
            try:
                infos = self.filesystem.get_file_info(below)
            except FileNotFoundError:
                return []
        return [one for one in infos if one.type == kind]

    def read(self, paths: Iterable[str]) -> list[bytes]:
        """The content of small objects, in order."""
        with ThreadPoolExecutor(MAX_READS) as pool:
            return list(pool.map(self._read, paths))

    def _read(self, path: str) -> bytes:
        with (
            self._translate_errors(path),
            self.filesystem.open_input_file(self.full_path(path)) as file,
        ):
            return bytes(file.read())

    def open_log(self, address: str) -> pa.NativeFile:
        """Open an archive file, in the lake or elsewhere, without decompression."""
        filesystem, path = self._locate_log(address)
        return filesystem.open_input_stream(path, compression=None, buffer_size=_BUFFER)

    def _locate_log(self, address: str) -> tuple[FileSystem, str | bytes]:
        if address.startswith(LAKE):
            full = os.fsencode(self.full_path("")) + unquote_to_bytes(address.removeprefix(LAKE))
            on_disk = isinstance(self.filesystem, LocalFileSystem)
            return self.filesystem, full if on_disk else full.decode()
        scheme, _, path = address.partition("://")
        if scheme == "file":
            return LocalFileSystem(), unquote_to_bytes(path)  # file names need not be valid text
        if scheme != self._scheme:
            raise OSError(f"it is in {scheme.upper()}, and the lake is not")
        return self.filesystem, path

    def explain_log(self, problem: Exception, address: str) -> str:
        """As `explain`, for an archive file, which may be outside of the lake."""
        if not address.startswith(LAKE):
            return one_line(problem)
        return self.explain(problem, unquote(address.removeprefix(LAKE)))

    def explain(self, problem: Exception, path: str) -> str:
        """Why a file of the lake cannot be read; raises an EventLakeError if the bucket refuses."""
        if is_refused(problem):
            raise self._translate(problem, path) from problem
        return one_line(problem)

    @contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        """Raise Arrow's exceptions as EventLake errors."""
        try:
            yield
        except FAILURES as problem:
            raise self._translate(problem, path) from problem

    def _translate(self, problem: Exception, path: str) -> EventLakeError:
        on_disk = isinstance(self.filesystem, LocalFileSystem)
        where = self.full_path(path) if on_disk else f"{self._scheme}://{self.full_path(path)}"
        if isinstance(problem, PermissionError):
            return InsufficientPermissions(f"no permission to read {where}: grant it and run again")
        kind, meaning = explain_refusal(problem) or (Unavailable, one_line(problem))
        return kind(f"could not read {where}: {meaning}")


def one_line(problem: Exception) -> str:
    """The first line of an exception's message."""
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else str(problem).partition("\n")[0]
