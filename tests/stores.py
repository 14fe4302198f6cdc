"""Stores for tests: a disk that tells of what it does, and may fail or kill at any of it."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, cast

import pyarrow as pa

from eventlake.lake import Lake
from eventlake.lakes.local import LocalKind
from eventlake.lakes.local_settings import LocalSettings
from eventlake.secrets import EnvironmentSecrets
from eventlake.stores import Disk, Object
from eventlake.stores.store import Change

Listener = Callable[[str, str], None]
"""Gets the name of an operation and a path; may raise."""


def ignore(operation: str, path: str) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class WatchedDisk(Disk):
    """A disk that calls `before` and `after` each operation, also a failed one. Does not pickle."""

    before: Listener = ignore
    after: Listener = ignore

    def __getstate__(self) -> dict[str, str]:
        raise TypeError("a watched disk works in one process")

    def lake(self, table_format: Literal["parquet", "delta"] = "parquet") -> Lake:
        """A lake on this disk."""
        settings = LocalSettings(path=self.root, format=table_format)
        return LocalKind(settings, EnvironmentSecrets({})).make_lake(self)

    def _watch(self, operation: str, path: str, *given: Any) -> Any:
        self.before(operation, path)
        try:
            return getattr(super(), operation)(path, *given)
        finally:
            self.after(operation, path)

    def open(self, path: str) -> pa.NativeFile:
        return self._watch("open", path)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        self._watch("write", path, data)

    def write_staged(self, path: str, data: pa.Buffer) -> None:
        self._watch("write_staged", path, data)

    def write_durably(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        return cast("AbstractContextManager[pa.NativeFile]", self._watch("write_durably", path))

    def create(self, path: str, data: bytes) -> bool:
        return bool(self._watch("create", path, data))

    def update(self, path: str, change: Change) -> None:
        self._watch("update", path, change)

    def publish(self, staged: str, final: str) -> None:
        self._watch("publish", staged, final)

    def fsync(self, path: str) -> None:
        self._watch("fsync", path)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.before("delete", path)
            super().delete([path])
            self.after("delete", path)

    def find(self, path: str) -> Object | None:
        found: Object | None = self._watch("find", path)
        return found

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        found: tuple[list[str], list[str]] = self._watch("names", prefix)
        return found
