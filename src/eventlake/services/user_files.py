"""The files of a source that may have the events of a user, by the user index."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from eventlake import archive
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.kernels.erase import ErasedIds
from eventlake.kernels.user_hashes import Hashes, has_any
from eventlake.lake import Lake
from eventlake.ledger import State, read_lease
from eventlake.model.commit import Commit, CommitKind, DataFile, Input
from eventlake.model.erasure import FileKind
from eventlake.model.layout import LOGS, archive_path, partition_path
from eventlake.pipeline.erase import EventCounts, count_lines, count_quarantined, count_rows
from eventlake.pipeline.history import History
from eventlake.pipeline.user_index import input_key, merge_hashes, read_index
from eventlake.services.inputs import archive_names


class UserFile(NamedTuple):
    """A file that may have events of a user."""

    kind: FileKind
    path: str
    """Below the lake's root, or the address of a raw log outside of the lake."""
    table: str = ""
    file: DataFile | None = None
    input: Input | None = None
    """A raw log as it was loaded; None if it was not, or has changed since."""


@dataclass
class SourceFiles:
    """What a source has, as of a commit; without commits only raw logs and rejected logs."""

    parts: Lake
    folder: str
    state: State = field(default_factory=State)
    history: History = field(default_factory=History)
    index: dict[str, Hashes] = field(default_factory=dict)
    """The user index, by the path of a data file or the key of an input."""
    index_objects: list[str] = field(default_factory=list)
    quarantine: dict[str, str] = field(default_factory=dict)
    """The live quarantine files: by path, the path in the stage until published."""
    stores: dict[str, archive.InputStores] = field(default_factory=dict)

    @property
    def archive_folders(self) -> tuple[str, ...]:
        """The folders of the source's raw logs in the archive."""
        settings = self.state.settings
        names = (self.folder, *archive_names(settings)) if settings else (self.folder,)
        return tuple(dict.fromkeys(map(archive_path, names)))

    def input_stores(self) -> archive.InputStores:
        """The stores of the source's inputs, by address prefix."""
        if not self.stores:
            self.stores[""] = open_stores(self.parts, (uri for uri, _ in self.history.inputs))
        return self.stores[""]

    def list_candidates(self, ids: ErasedIds) -> Iterator[UserFile]:
        """Yield the files that may have events of the ids: all that the index does not rule out."""
        for name, files in sorted(self.history.files.items()):
            for path, file in sorted(files.items()):
                if self._may_have(path, ids):
                    yield UserFile(FileKind.TABLE, path, name, file)
        yield from self.list_raw_logs(ids)
        yield from (UserFile(FileKind.QUARANTINE, path) for path in sorted(self.quarantine))
        store = self.parts.store
        for folder in self.archive_folders:
            for one in store.objects(f"{folder}/.rejected"):
                yield UserFile(FileKind.REJECTED, one.path)

    def list_raw_logs(self, ids: ErasedIds) -> Iterator[UserFile]:
        """Yield the raw logs that may have events of the ids, also those that no run has loaded."""
        loaded = self.history.inputs
        outside = [one for one in loaded.values() if not one.uri.startswith(archive.LAKE)]
        changed = {one.uri for one in archive.find_lost(outside, self.input_stores())}
        for uri, one in {one.uri: one for one in loaded.values()}.items():
            if uri in changed:
                yield UserFile(FileKind.RAW_LOG, object_path(uri))
            elif self._may_have(input_key(uri, one.fingerprint), ids):
                yield UserFile(FileKind.RAW_LOG, object_path(uri), input=one)
        uris = {uri for uri, _ in loaded}
        for one in self._list_archive():
            if one.uri not in uris:
                yield UserFile(FileKind.RAW_LOG, object_path(one.uri))

    def _list_archive(self) -> Iterable[Input]:
        store = self.parts.store
        days = [f"{one}/{day}" for one in self.archive_folders for day in store.names(one)[0]]
        visible = [day for day in days if not PurePosixPath(day).name.startswith(".")]
        stores = archive.lake_input_stores(store)
        addresses = map(archive.lake_address, visible)
        return archive.find_inputs(addresses, stores, self.parts.layout).inputs

    def _may_have(self, name: str, ids: ErasedIds) -> bool:
        hashes = self.index.get(name)
        return hashes is None or has_any(hashes, ids.hashes)

    def count(self, one: UserFile, ids: ErasedIds) -> EventCounts:
        """Count the events of a file, and those of the ids; raises the store's errors."""
        if one.kind not in (FileKind.TABLE, FileKind.QUARANTINE):
            return count_lines(self.opener(one), one.kind, ids)
        count = count_rows if one.kind is FileKind.TABLE else count_quarantined
        try:
            return count(self.parts.store, one.path, ids)
        except InvalidSettings:
            # A dry run does not publish what a run that crashed after its commit has left.
            staged = one.file.staged if one.file else self.quarantine[one.path]
            if not staged:
                raise
            return count(self.parts.store, staged, ids)

    def opener(self, one: UserFile) -> Callable[[], Iterator[bytes]]:
        """A function that opens a raw log or rejected log from its start."""
        address = archive.object_address(one.path)
        return lambda: archive.open_input(address, self.input_stores())

    def is_readable(self, one: UserFile) -> bool:
        """Whether the first bytes of a raw log can be read."""
        try:
            next(self.opener(one)(), b"")
        except EventLakeError:
            return False
        return True

    def is_gone(self, one: UserFile) -> bool:
        """Whether the object does not exist any more."""
        try:
            store, path = archive.locate_input(
                archive.object_address(one.path), self.input_stores()
            )
            return not store.exists(path)
        except EventLakeError:
            return False


def object_path(uri: str) -> str:
    """An input as `UserFile` and `Rewrite` name it: a path of the lake, or an address."""
    return archive.lake_path(uri) if uri.startswith(archive.LAKE) else uri


def open_stores(parts: Lake, uris: Iterable[str]) -> archive.InputStores:
    """The lake's store and those of other buckets with inputs, by address prefix."""
    roots = {archive.bucket_address(uri) for uri in uris if archive.is_address(uri)}
    stores = archive.lake_input_stores(parts.store)
    opened = {root: parts.open_bucket(root) for root in roots - stores.keys() if parts.open_bucket}
    return {**stores, **opened}


def read_source_files(parts: Lake, folder: str, state: State) -> SourceFiles:
    """Read what a source has, as of its state, with the user index."""
    ledger = parts.ledger(folder)
    files = SourceFiles(parts, folder, state)
    commits = [one for sequence, one in ledger.commits_after(0) if sequence <= state.sequence]
    files.index_objects = [one.users.path for one in commits if one.users]
    files.index = read_index(parts.store, files.index_objects)
    for commit in commits:
        files.history.apply(commit)
        if commit.kind is CommitKind.COMPACT:
            files.index |= index_compacted(commit, files.index)
    folder = f"{parts.layout.quarantine}/{folder}/"
    gone = frozenset[str]().union(*(one.rewritten_paths for one in commits))
    files.quarantine = {
        path: staged
        for one in commits
        for path, staged in one.objects.items()
        if path.startswith(folder) and path not in gone
    }
    return files


def index_compacted(commit: Commit, index: dict[str, Hashes]) -> dict[str, Hashes]:
    """The index of merged files: all ids of the files of their partition that were merged."""
    merged: dict[str, Hashes] = {}
    for table in commit.tables:
        for file in table.adds:
            parts = [
                index.get(one.path)
                for one in table.removes
                if partition_path(one.partition) == partition_path(file.partition)
            ]
            known = [one for one in parts if one is not None]
            if known and len(known) == len(parts):
                merged[file.path] = merge_hashes(known)
    return merged


def list_folders(parts: Lake) -> list[str]:
    """The folders of all sources: those with a ledger, with only raw logs, with only a stage."""
    landed, archived = parts.store.names(parts.layout.ledger)[0], parts.store.names(LOGS)[0]
    settings = [parts.ledger(folder).read_settings() for folder in landed]
    known = {*landed, *(name for one in settings if one for name in archive_names(one))}
    runs = [name for name in parts.store.names(parts.layout.stage)[0] if name.isdecimal()]
    leases = (read_lease(parts.ledger(""), run_id) for run_id in runs)
    others = dict.fromkeys([*archived, *(lease.folder for lease in leases if lease)])
    return [*landed, *(folder for folder in others if folder not in known)]
