"""Where a lake lies, read through Arrow's filesystems: not the way in which it was written."""

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, unquote_to_bytes

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable

AT_ONCE = 16
"""Small objects that are read side by side, for a bucket lets each of them wait."""
FAILURES = (OSError, pa.ArrowException)
"""What Arrow raises for something that cannot be read."""
LAKE = "lake:"
"""What the address of a file in the lake begins with: its path follows, percent-encoded."""

_BUFFER = 1 << 20
_NOT_ACCEPTED = InvalidSettings, "the AWS credentials are not accepted"
_ELSEWHERE = InvalidSettings, "the bucket is in another region"
_MEANINGS: dict[str, tuple[type[EventLakeError], str]] = {
    "NO_SUCH_BUCKET": (InvalidSettings, "there is no such bucket"),
    "ACCESS_DENIED": (
        InsufficientPermissions,
        "grant s3:ListBucket on the bucket and s3:GetObject on what is in it",
    ),
    "INVALID_ACCESS_KEY_ID": _NOT_ACCEPTED,
    "SIGNATURE_DOES_NOT_MATCH": _NOT_ACCEPTED,
    "ExpiredToken": _NOT_ACCEPTED,
    "InvalidToken": _NOT_ACCEPTED,
    "301": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
}
"""What Arrow calls a refusal of S3, and what a user should know of it."""
_NAMES = re.compile(r"(?:AWS Error|HTTP status|ExceptionName:) (\w+)")


@dataclass(frozen=True)
class LakeFiles:
    """A lake's filesystem, and what stands before every path in it: a folder or a bucket."""

    filesystem: FileSystem
    root: str

    @property
    def _in_s3(self) -> bool:
        return bool(self.filesystem.type_name == "s3")

    def whole(self, path: str) -> str:
        """A path as the filesystem knows it."""
        return f"{self.root.rstrip('/')}/{path}"

    def within(self, whole: str) -> str:
        """A path of the filesystem as the lake knows it."""
        return whole.removeprefix(self.whole(""))

    def folders(self, path: str) -> list[str]:
        """The names of the folders right below a path."""
        found = self._listed(path, FileType.Directory)
        return sorted(one.path.rpartition("/")[2] for one in found)

    def files(self, path: str) -> dict[str, int]:
        """The files below a path, in order, with their sizes; hidden ones are not the lake's."""
        found = self._listed(path, FileType.File, deep=True)
        sizes = {self.within(one.path): one.size for one in found if one.base_name[0] != "."}
        return dict(sorted(sizes.items()))

    def has(self, path: str) -> bool:
        """Whether there is a file of this name."""
        with self._refusals(path):
            info = self.filesystem.get_file_info(self.whole(path))
        return bool(info.type == FileType.File)

    def _listed(self, path: str, kind: FileType, *, deep: bool = False) -> list[FileInfo]:
        below = FileSelector(self.whole(path), recursive=deep)
        with self._refusals(path):
            try:
                found = self.filesystem.get_file_info(below)
            except FileNotFoundError:
                return []
        return [one for one in found if one.type == kind]

    def read(self, paths: Iterable[str]) -> list[bytes]:
        """What small objects hold."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self._read, paths))

    def _read(self, path: str) -> bytes:
        with self._refusals(path), self.filesystem.open_input_file(self.whole(path)) as file:
            return bytes(file.read())

    def open_log(self, address: str) -> pa.NativeFile:
        """The bytes of an archive's file as they are stored, wherever it lies."""
        filesystem, path = self._log(address)
        return filesystem.open_input_stream(path, compression=None, buffer_size=_BUFFER)

    def _log(self, address: str) -> tuple[FileSystem, str | bytes]:
        if address.startswith(LAKE):
            own = os.fsencode(self.whole("")) + unquote_to_bytes(address.removeprefix(LAKE))
            on_disk = isinstance(self.filesystem, LocalFileSystem)
            return self.filesystem, own if on_disk else own.decode()
        scheme, _, path = address.partition("://")
        if scheme == "file":
            return LocalFileSystem(), unquote_to_bytes(path)  # not every name on disk is a text
        if not self._in_s3:
            raise OSError("it is in S3, and the lake is not")
        return self.filesystem, path

    def why_no_log(self, problem: Exception, address: str) -> str:
        """Why an archive's file cannot be read; what lies elsewhere may well be out of reach."""
        if not address.startswith(LAKE):
            return why(problem)
        return self.why(problem, unquote(address.removeprefix(LAKE)))

    def why(self, problem: Exception, path: str) -> str:
        """Why a file of the lake cannot be read; a store that refuses ends the verification."""
        if self._in_s3 and "AWS Error " in str(problem):
            raise self._explained(problem, path) from problem
        return why(problem)

    @contextmanager
    def _refusals(self, path: str) -> Iterator[None]:
        """Nothing can be said of a lake whose listing, or a commit, cannot be read."""
        try:
            yield
        except FAILURES as problem:
            raise self._explained(problem, path) from problem

    def _explained(self, problem: Exception, path: str) -> EventLakeError:
        where = f"s3://{self.whole(path)}" if self._in_s3 else self.whole(path)
        if isinstance(problem, PermissionError):
            return InsufficientPermissions(f"may not read {where}: grant that and run again")
        names = _NAMES.findall(str(problem))
        known = (_MEANINGS[name] for name in names if name in _MEANINGS)
        kind, meaning = next(known, (Unavailable, why(problem)))
        return kind(f"could not read {where}: {meaning}")


def why(problem: Exception) -> str:
    """A failure in a line."""
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else str(problem).partition("\n")[0]
