"""Find the inputs that a path on disk names: a file, a folder, a glob, a pipe."""

import fnmatch
import glob
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from eventlake.archive.addresses import fingerprint, lake_address
from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.model.commit import Input
from eventlake.model.layout import DEFAULT_LAYOUT, LOGS, Layout
from eventlake.paths import file_status, parse_path

SUFFIXES = (".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log")
STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class IgnoredPath(NamedTuple):
    """A path that is not loaded."""

    path: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.path} ({self.reason})" if self.reason else self.path


class Unreadable(NamedTuple):
    """A file or folder that cannot be read."""

    path: str
    reason: str


class Stream(NamedTuple):
    """A pipe, or `-` for standard input."""

    path: str


Entry = Input | Stream | IgnoredPath | Unreadable


def has_input_name(file: PurePath) -> bool:
    """Whether a file in a folder is an input, by its path below the folder."""
    return not any(map(_is_hidden, file.parts)) and file.name.lower().endswith(SUFFIXES)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def lake_folders(layout: Layout) -> tuple[str, ...]:
    """The topmost folders of a lake that have tables or stages, and no raw logs."""
    return (*layout.roots, layout.stage.partition("/")[0])


OTHER_LAKES = lake_folders(DEFAULT_LAYOUT)
"""Folders that are ignored wherever they are, because another lake's layout is not known."""


def refuse_lake_folder(named: str, path: str, layout: Layout) -> None:
    """Raise `InvalidSettings` for a `path` below the lake's root that has tables or stages."""
    if path.partition("/")[0] in lake_folders(layout):
        raise InvalidSettings(
            f"{named} is the lake's own and has no raw logs: those of the lake are in {LOGS}, and "
            "`eventlake sync` loads them"
        )


def find_entries(path: str, lake: str | None, layout: Layout) -> Iterator[Entry]:
    """Find what a path names; `lake` is the root of the lake that is loaded into, if on disk.

    A file that the path names exactly is an input by any name. Raises `InvalidSettings` if there
    is nothing.
    """
    disk = _Disk(lake, layout)
    if path in STANDARD_INPUT:
        return iter((_standard_input(),))
    user_path = parse_path(path)
    if file_status(user_path) is not None:
        return disk.walk_path(user_path)
    matches = {match: file_status(match) for match in _expand(user_path)}
    if not any(matches.values()):
        broken = " (it is a broken link)" if user_path.is_symlink() else ""
        raise InvalidSettings(f"there is no file, folder or match for {path!r}{broken}")
    return disk.walk_matches(matches)


def _standard_input() -> Stream:
    try:
        is_terminal = os.isatty(0) or not os.fstat(0)
    except OSError:
        raise InvalidSettings("standard input is closed: pipe events into the command") from None
    if is_terminal:
        raise InvalidSettings("standard input is a terminal: pipe events into the command")
    return Stream("-")


@dataclass(frozen=True)
class _Disk:
    """The files of this machine, which may include the lake."""

    lake: str | None
    """The root of the lake that is loaded into."""
    layout: Layout

    def walk_path(self, path: Path) -> Iterator[Entry]:
        """Find what an existing path names."""
        real = os.path.realpath(path)
        self._refuse(path, real)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from self._walk_folder(str(path.absolute()), real)
        elif stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and not os.path.exists(real)):  # noqa: PTH110 - a string here
            yield Stream(str(path))  # the file of a here-document is already deleted
        elif stat.S_ISREG(mode):
            yield self._file_input(real)
        else:
            kind = _KINDS[stat.S_IFMT(mode)]
            raise InvalidSettings(f"{path} is {kind}: name files, folders or pipes")

    def walk_matches(self, matches: Mapping[Path, os.stat_result | None]) -> Iterator[Entry]:
        """Find what the matches of a glob name; ignores pipes, which could block forever."""
        for match, status in matches.items():
            if status and (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                yield from self.walk_path(match)
            else:
                yield _ignored_path(str(match.absolute()))

    def _refuse(self, path: Path, real: str) -> None:
        if self.lake is not None and _within(real, self.lake):
            refuse_lake_folder(str(path), os.path.relpath(real, self.lake), self.layout)

    def _walk_folder(self, top: str, start: str) -> Iterator[Entry]:
        """Find inputs below a folder; follows links and reads each folder once."""
        waiting, visited = [(top, start)], set()
        while waiting:
            folder, real = waiting.pop()
            if real in visited:
                continue
            visited.add(real)
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda one: one.name)
            except OSError as problem:
                yield Unreadable(folder, problem.strerror or str(problem))
                continue
            for one in entries:
                target = f"{real.rstrip('/')}/{one.name}"
                if one.is_symlink():
                    target = os.path.realpath(one.path)
                entry = self._classify(one, target, start)
                if entry is None:
                    waiting.append((one.path, target))
                else:
                    yield entry

    def _classify(self, one: "os.DirEntry[str]", real: str, start: str) -> Entry | None:
        """The entry for a directory entry; None for a folder to walk into."""
        try:
            is_folder, is_file = one.is_dir(), one.is_file()
        except OSError as problem:
            return Unreadable(one.path, problem.strerror or str(problem))
        if self._is_own(real, start):
            return IgnoredPath(one.path, "the lake itself")
        if is_folder and one.name in OTHER_LAKES:
            return IgnoredPath(one.path, "tables of a lake")
        if is_folder and not _is_hidden(one.name):
            return None
        if is_file and has_input_name(PurePath(one.name)):
            return self._file_input(real)
        return IgnoredPath(one.path) if is_folder or is_file else _ignored_path(one.path)

    def _is_own(self, real: str, start: str) -> bool:
        """Whether a path belongs to the lake; its archive does not if the user named it."""
        lake = self.lake
        if lake is None or not _within(real, lake):
            return False
        logs = f"{lake.rstrip('/')}/{LOGS}"
        if any(_within(real, f"{lake.rstrip('/')}/{one}") for one in lake_folders(self.layout)):
            return True
        return not _within(start, logs if _within(real, logs) else lake)

    def _file_input(self, real: str) -> Input | Unreadable:
        """The input for a file, by its path without links."""
        try:
            state = os.stat(real)  # noqa: PTH116 - faster in large folders
        except OSError as problem:
            return Unreadable(real, problem.strerror or str(problem))
        if not os.access(real, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            return Unreadable(real, "Permission denied")
        inside = self.lake is not None and _within(real, self.lake)
        uri = lake_address(os.path.relpath(real, self.lake)) if inside else Path(real).as_uri()
        mark = fingerprint(uri, state.st_size, f"{state.st_mtime_ns:x}")
        return Input(uri=uri, fingerprint=mark, size=state.st_size)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _ignored_path(path: str) -> IgnoredPath:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - as above
    except OSError:
        return IgnoredPath(path, "a broken link")
    return IgnoredPath(path, _KINDS[stat.S_IFMT(mode)])


# Globs: the standard library ignores folders that cannot be listed


def _expand(pattern: Path) -> list[Path]:
    """The paths that match a glob, where `**` is any number of folders."""
    paths = [Path(pattern.anchor)]
    parts = pattern.parts[1:] if pattern.anchor else pattern.parts
    for part in parts:
        if part == "**":
            paths = [folder for path in paths for folder in _list_folders(path)]
        elif glob.has_magic(part):
            paths = [
                path / name for path in paths for name in _list_names(path) if _matches(name, part)
            ]
        else:
            paths = [path / part for path in paths if os.path.lexists(path / part)]
    return list(dict.fromkeys(paths))


def _matches(name: str, part: str) -> bool:
    hidden = name.startswith(".") and not part.startswith(".")
    return not hidden and fnmatch.fnmatchcase(name, part)


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    except OSError as problem:
        raise InsufficientPermissions(
            f"no permission to list {folder}: {problem.strerror}; nothing was loaded"
        ) from problem


def _list_folders(top: Path) -> list[Path]:
    """A folder and all folders below it, except hidden ones; each once."""
    folders, visited, waiting = [], set(), [top]
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder)
        if real in visited or not folder.is_dir():
            continue
        visited.add(real)
        folders.append(folder)
        waiting += [folder / name for name in _list_names(folder) if not name.startswith(".")]
    return sorted(folders)
