"""Reads the ledger's JSON."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec
from msgspec import Struct

from eventlake.errors import Damaged, InvalidSettings
from eventlake.verify.files import LakeFiles

COUNTS = ("received", "landed", "duplicates", "suppressed", "quarantined", "skipped")
_DAY = 86_400_000_000
_NUMBERED = re.compile(r"(?!0{12})\d{12}\.json", re.ASCII)
_SNAPSHOT = re.compile(r"snapshots/\d{12}\.json", re.ASCII)
_MAX_NAMES = 20
"""Maximum number of objects in one error."""


Identity = tuple[str, str]
"""Address and fingerprint of an archive file."""


class Replacement(Struct, frozen=True):
    """The rows that a commit replaces or drops: those of commits up to `base`."""

    base: int
    since: int = -(1 << 62)
    until: int = 1 << 62
    tables: tuple[str, ...] = ()
    """Empty for all tables."""
    left_out: tuple["_Input", ...] = ()
    """Archive files that were gone when a replay read the others."""

    @property
    def is_whole(self) -> bool:
        return not self.tables and self.since == -(1 << 62) and self.until == 1 << 62

    @property
    def lost(self) -> set[Identity]:
        return {(one.uri, one.fingerprint) for one in self.left_out}

    def includes(self, table: str, received: int) -> bool:
        return self.since <= received < self.until and (not self.tables or table in self.tables)

    def covers(self, seq: int, table: str, received: int) -> bool:
        """Whether it removes a row that a commit has landed."""
        return seq <= self.base and self.includes(table, received)


@dataclass(frozen=True)
class Commit:
    """A commit, with defaults filled in."""

    seq: int
    run: str
    settings: dict[str, Any]
    inputs: list[Identity]
    """The archive files that it loads, or reads again, in order."""
    counts: dict[str, int]
    tables: dict[str, dict[str, int]]
    columns: dict[str, list[str]]
    """By table that this commit adds files to, its columns from then on."""
    files: dict[str, dict[str, Any]]
    """The data files that no later commit removed, with their rows and bytes."""
    ids: list[dict[str, Any]]
    """The files of the id index, each with its rows and its first and last moment."""
    body: dict[str, Any]
    """The commit's JSON."""
    unquarantined: dict[str, dict[str, int]]
    """By run and reason, the lines that it took out of the quarantine."""
    replaces: Replacement | None = None
    origins: frozenset[int] = frozenset()
    """Of a compaction, the commits that have landed the rows of the files that it merged."""

    @property
    def is_whole_drop(self) -> bool:
        """Whether it drops all that the source had, so that the archive can be loaded again."""
        is_drop = self.body.get("kind") == "drop"
        return is_drop and self.replaces is not None and self.replaces.is_whole

    @property
    def adopted(self) -> bool:
        """Whether the commit adopts tables that other software has landed."""
        return any(one.get("adopted") for one in self.body.get("tables", ()))

    @property
    def window(self) -> int:
        return int(self.settings["dedup_days"]) * _DAY


class _Settings(Struct):
    source: str
    source_id: str = ""
    naming: Literal["segment", "warehouse", "native"] = "segment"
    column_naming: Literal["segment", "warehouse", "native"] | None = None
    date_partition: Literal["day/hour", "year/month/day/hour", "year/month/day", "day"] = "day/hour"
    table_prefix: str = ""
    data_folder: str = ""
    partition_by_slug: bool = False
    dedup_days: int = 7
    skip_events: list[str] = []
    new_tables: Literal["land", "skip"] = "land"


class _Input(Struct):
    uri: str
    fingerprint: str
    origin: tuple[str, str] | None = None


class _DataFile(Struct):
    path: str
    rows: int | None
    bytes: int
    partition: dict[str, str]


class _Schema(Struct):
    name: str
    location: str = ""
    catalog_name: str = ""


class _Table(Struct):
    table: _Schema
    counts: dict[str, int]
    adds: list[_DataFile] = []
    removes: list[_DataFile] = []
    adopted: bool = False
    dropped: bool = False


class _IdFile(Struct):
    path: str
    rows: int
    first: int
    last: int


class _Merge(Struct):
    file: _IdFile
    replaces: list[str]


class _Staged(Struct):
    staged: str
    path: str


class _Rewrite(Struct):
    path: str
    new_path: str = ""


class _CommitForm(Struct):
    """The fields of a commit that a verification needs."""

    run_id: str
    settings: _Settings
    inputs: list[_Input]
    counts: dict[str, int]
    tables: list[_Table] = []
    ids: list[_IdFile] = []
    removed_ids: list[_IdFile] = []
    merges: list[_Merge] = []
    deletes: list[str] = []
    quarantine: _Staged | None = None
    rewrites: list[_Rewrite] = []
    unquarantined: dict[str, dict[str, int]] = {}
    replaces: Replacement | None = None


def _parse_commit(path: str, content: bytes) -> Commit:
    form = msgspec.json.decode(content, type=_CommitForm)
    body = json.loads(content)
    tables = body.get("tables", ())
    added = {file["path"]: file for one in tables for file in one.get("adds", ())}
    return Commit(
        seq=int(PurePosixPath(path).stem),
        run=body["run_id"],
        settings=msgspec.to_builtins(form.settings) | body["settings"],
        inputs=sorted((one.uri, one.fingerprint) for one in form.inputs),
        counts=dict.fromkeys(COUNTS, 0) | body["counts"],
        tables={one["table"]["name"]: dict.fromkeys(COUNTS, 0) | one["counts"] for one in tables},
        columns={
            one["table"]["name"]: [column["name"] for column in one["table"]["columns"]]
            for one in tables
            if one.get("adds") or one.get("adopted")
        },
        files=added,
        ids=body.get("ids", []),
        body=body,
        unquarantined=form.unquarantined,
        replaces=form.replaces,
    )


def _commit_paths(files: LakeFiles, folder: str) -> list[str]:
    """The paths of a source's commits, in order; raises `Damaged` if one is gone."""
    ledger = f"{files.prefixes.ledger}/{folder}/"
    names = [path.removeprefix(ledger) for path in files.files(ledger.rstrip("/"))]
    commits = {int(name[:12]) for name in names if _NUMBERED.fullmatch(name)}
    snapshots = [int(PurePosixPath(name).stem) for name in names if _SNAPSHOT.fullmatch(name)]
    # A snapshot covers all commits up to its own; index files exist after the first commit.
    last = max([*commits, *snapshots, *(1 for name in names if name.startswith("ids/"))], default=0)
    gone = (number for number in range(1, last + 1) if number not in commits)
    if lost := [
        files.full_path(f"{ledger}{number:012d}.json") for number in islice(gone, _MAX_NAMES)
    ]:
        raise Damaged(
            f"{last - len(commits)} commits of {folder} are gone: {', '.join(lost)}: restore them "
            "from a backup, or from earlier versions in the bucket"
        )
    return [f"{ledger}{number:012d}.json" for number in sorted(commits)]


def _read_commits(files: LakeFiles, paths: list[str]) -> list[Commit]:
    commits, damaged = [], []
    for path, content in zip(paths, files.read(paths), strict=True):
        try:
            commits.append(_parse_commit(path, content))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            damaged.append(files.full_path(path))
    if damaged:
        raise Damaged(
            f"{', '.join(damaged[:_MAX_NAMES])}: not a valid commit: restore it from a "
            "backup, or from an earlier version in the bucket"
        )
    return commits


def read_commits(files: LakeFiles, folder: str) -> list[Commit]:
    """All commits of a source, each with its live files; raises `Damaged`."""
    commits = _read_commits(files, _commit_paths(files, folder))
    origins = _find_origins(commits)
    gone = {path for commit in commits for path in _removed_paths(commit)}
    return [
        replace(
            one,
            files={path: file for path, file in one.files.items() if path not in gone},
            origins=origins[one.seq] - {one.seq},
        )
        for one in commits
    ]


def live_objects(commits: Iterable[Commit]) -> set[str]:
    """The quarantine files and rewritten objects that no later commit has replaced or removed."""
    live: set[str] = set()
    for body in (commit.body for commit in commits):
        rewrites = body.get("rewrites", ())
        live.difference_update(one["path"] for one in rewrites)
        live.update(one["new_path"] for one in rewrites if "new_path" in one)
        if "quarantine" in body:
            live.add(body["quarantine"]["path"])
    return live


def kept_files(commits: Iterable[Commit]) -> set[str]:
    """Removed data files that may still be in storage, for readers of older versions."""
    kept: set[str] = set()
    for commit in commits:
        if commit.body.get("keeps_removed"):
            kept.update(_removed_paths(commit))
        kept.difference_update(commit.body.get("deletes", ()))
    return kept


def _removed_paths(commit: Commit) -> list[str]:
    tables = commit.body.get("tables", ())
    return [file["path"] for table in tables for file in table.get("removes", ())]


def _find_origins(commits: list[Commit]) -> dict[int, frozenset[int]]:
    """By commit, the commits that have landed the rows of its files: itself, or of merged files."""
    added_by: dict[str, int] = {}
    origins: dict[int, frozenset[int]] = {}
    for commit in commits:
        origins[commit.seq] = frozenset((commit.seq,))
        if commit.body.get("kind") == "compact":
            merged = (added_by[path] for path in _removed_paths(commit) if path in added_by)
            origins[commit.seq] = frozenset().union(*(origins[seq] for seq in merged))
        added_by |= dict.fromkeys(commit.files, commit.seq)
        for file in commit.body.get("erasure", {}).get("files", ()):
            # A file without the rows of a forgotten user is of the commit that landed the others.
            if file["path"] in added_by and file.get("new_path"):
                added_by[file["new_path"]] = added_by[file["path"]]
    return origins


def find_folder(files: LakeFiles, source: str) -> str:
    """The folder of a source by id or, if no id matches, by slug; raises InvalidSettings."""
    sources: dict[str, tuple[str, str]] = {}
    for folder in files.folders(files.prefixes.ledger):
        for newest in _read_commits(files, _commit_paths(files, folder)[-1:]):
            slug = newest.settings["source"]
            sources[folder] = newest.settings["source_id"] or slug, slug
    for which in (0, 1):
        matches = [folder for folder, names in sources.items() if names[which] == source]
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = " and ".join(sorted(sources[folder][0] for folder in matches))
            raise InvalidSettings(
                f"source is {source!r}, the slug of {len(matches)} sources: give the id of one "
                f"of them, {ids}"
            )
    roots = dict.fromkeys(path.partition("/")[0] for path in files.prefixes)
    if not any(map(files.folders, (*roots, "segment-logs"))):
        where = files.full_path("").rstrip("/")
        raise InvalidSettings(f"there is no lake at {where}: it has no {' or '.join(roots)}")
    listed = ", ".join(f"{slug} (id {identity})" for identity, slug in sources.values())
    raise InvalidSettings(f"source is {source!r}; this lake has: {listed or 'none'}")
