"""Live data files: those that commits have added and no later commit has removed.

Manifests list them, each for a range of commits. Eight manifests of one size are merged into one
of the next, so that reading all of them takes few requests however many commits there are, and
each entry is rewritten only a few times.
"""

from collections.abc import Iterable, Mapping

import msgspec
import zstandard

from eventlake.errors import InvalidSettings
from eventlake.ledger.state import Manifest
from eventlake.model.commit import Commit, DataFile
from eventlake.stores import Store
from eventlake.stores.damage import damaged


class LiveFile(msgspec.Struct, frozen=True):
    """A data file of a table; `rows` is None if another program wrote it."""

    table: str
    path: str
    partition: dict[str, str]
    rows: int | None
    bytes: int
    received: tuple[str, str] | None = None
    """The first and last time of receipt, as in statistics; None if another program wrote it."""


class FileList(msgspec.Struct):
    """Files added and paths removed by a range of commits, and the sequence of each run."""

    adds: dict[str, LiveFile] = {}
    removes: set[str] = set()
    """Paths that commits before the range had added."""
    runs: dict[str, int] = {}
    objects: dict[str, str] = {}
    """Added quarantine files and rewritten objects: staged path by final path."""

    def apply(self, later: "FileList") -> None:
        """Add the changes of later commits, in place."""
        for path in later.removes:
            if self.adds.pop(path, None) is None and self.objects.pop(path, None) is None:
                self.removes.add(path)
        self.adds |= later.adds
        self.objects |= later.objects
        self.runs |= later.runs


def list_files(commits: Iterable[tuple[int, Commit]]) -> FileList:
    """Combine the file changes of commits, given in order with their sequences."""
    total = FileList()
    for sequence, commit in commits:
        adds = {
            file.path: _live_file(table.table.name, file)
            for table in commit.tables
            for file in table.adds
        }
        removes = set(commit.removed_paths | commit.rewritten_paths)
        total.apply(FileList(adds, removes, {commit.run_id: sequence}, commit.objects))
    return total


def _live_file(table: str, file: DataFile) -> LiveFile:
    _, first, last = file.stats.get("received_at", (0, None, None))
    received = (str(first), str(last)) if first is not None and last is not None else None
    return LiveFile(table, file.path, file.partition, file.rows, file.bytes, received)


def last_sequence(name: str) -> int:
    """The last commit that a manifest of this name covers."""
    return int(name.partition("-")[2][:12])


def read_manifest(store: Store, path: str) -> FileList:
    """Read a manifest; raises `Damaged` if it is missing or cannot be read."""
    try:
        packed = zstandard.ZstdDecompressor().decompressobj().decompress(store.read(path))
        return msgspec.json.decode(packed, type=FileList)
    except (InvalidSettings, zstandard.ZstdError, msgspec.MsgspecError) as problem:
        raise damaged(store, path, str(problem), "`eventlake repair` writes it again") from problem


def write_manifest(store: Store, folder: str, first: int, last: int, files: FileList) -> Manifest:
    path = f"{folder}/manifests/{first:012d}-{last:012d}.json.zst"
    store.write(path, zstandard.compress(msgspec.json.encode(files)))
    return Manifest(first=first, last=last, path=path)


def merge_manifests(
    store: Store, folder: str, manifests: tuple[Manifest, ...], merge: int
) -> tuple[Manifest, ...]:
    """Merge the newest manifests while there are `merge` of one size; return the new list."""
    while (count := _count_same_size(manifests, merge)) >= merge:
        old = manifests[-count:]
        total = read_manifest(store, old[0].path)
        for one in old[1:]:
            total.apply(read_manifest(store, one.path))
        merged = write_manifest(store, folder, old[0].first, old[-1].last, total)
        manifests = (*manifests[:-count], merged)
    return manifests


def _count_same_size(manifests: tuple[Manifest, ...], merge: int) -> int:
    """Count the manifests at the end that are less than `merge` times as large as the last."""
    sizes = [one.last - one.first + 1 for one in manifests]
    count = 0
    for size in reversed(sizes):
        if size >= merge * sizes[-1]:
            break
        count += 1
    return count


def group_by_table(files: Mapping[str, LiveFile]) -> dict[str, list[LiveFile]]:
    """Group files by table, sorted by path."""
    tables: dict[str, list[LiveFile]] = {}
    for path in sorted(files):
        tables.setdefault(files[path].table, []).append(files[path])
    return tables
