"""The files that a path on disk names: a file, a folder, a glob, a pipe."""

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
from eventlake.model.layout import LOGS, STAGE
from eventlake.stores.paths import file_status, parse_path

SUFFIXES = (".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log")
TABLES = ("segment-data", STAGE)
"""Folders of a lake that never hold raw logs."""
STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class PassedOver(NamedTuple):
    """Something that is left out."""

    path: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.path} ({self.reason})" if self.reason else self.path


class Unreadable(NamedTuple):
    """A file or folder that the system does not let us read."""

    path: str
    reason: str


class Stream(NamedTuple):
    """A pipe, or `-` for standard input."""

    path: str


Entry = Input | Stream | PassedOver | Unreadable


def has_log_name(file: PurePath) -> bool:
    """Whether a file in a folder is a log, by its path below the folder."""
    return not any(map(_is_hidden, file.parts)) and file.name.lower().endswith(SUFFIXES)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def refuse_own(named: str, path: str) -> None:
    """Refuse a path below the lake's root that a lake writes its tables to."""
    if path.partition("/")[0] in TABLES:
        raise InvalidSettings(
            f"{named} is the lake's own: it has no raw logs; those of the lake are in {LOGS}, and "
            "`eventlake sync` loads them"
        )


def files(path: str, lake: str | None) -> Iterator[Entry]:
    """What a path names; a file that the user named himself is a log whatever its name."""
    disk = _Disk(lake)
    if path in STANDARD_INPUT:
        return iter((_standard_input(),))
    given = parse_path(path)
    if file_status(given) is not None:
        return disk.named(given)
    matches = {match: file_status(match) for match in _expand(given)}
    if not any(matches.values()):
        broken = " (it is a link to nothing)" if given.is_symlink() else ""
        raise InvalidSettings(f"there is no file, folder or match for {path!r}{broken}")
    return disk.matched(matches)


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
    """The files of this machine, some of which may be a lake's own."""

    lake: str | None
    """The root of the lake that is loaded into."""

    def named(self, path: Path) -> Iterator[Entry]:
        """What one path names that is there."""
        real = os.path.realpath(path)
        self._refuse(path, real)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from self._below(str(path.absolute()), real)
        elif stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and not os.path.exists(real)):  # noqa: PTH110 - a string here
            yield Stream(str(path))  # the file of a here-document has no name any more
        elif stat.S_ISREG(mode):
            yield self._log(real)
        else:
            kind = _KINDS[stat.S_IFMT(mode)]
            raise InvalidSettings(f"{path} is {kind}: name files, folders or pipes")

    def matched(self, matches: Mapping[Path, os.stat_result | None]) -> Iterator[Entry]:
        """What the matches of a glob name; a pipe among them would be waited for in vain."""
        for match, status in matches.items():
            if status and (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                yield from self.named(match)
            else:
                yield _no_file(str(match.absolute()))

    def _refuse(self, path: Path, real: str) -> None:
        if self.lake is not None and _within(real, self.lake):
            refuse_own(str(path), os.path.relpath(real, self.lake))

    def _below(self, top: str, start: str) -> Iterator[Entry]:
        """The files below a folder; links are followed, each folder is read once."""
        waiting, seen = [(top, start)], set()
        while waiting:
            folder, real = waiting.pop()
            if real in seen:
                continue
            seen.add(real)
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
                found = self._entry(one, target, start)
                if found is None:
                    waiting.append((one.path, target))
                else:
                    yield found

    def _entry(self, one: "os.DirEntry[str]", real: str, start: str) -> Entry | None:
        """What an entry of a folder is; None for a folder that is to be read."""
        try:
            is_folder, is_file = one.is_dir(), one.is_file()
        except OSError as problem:
            return Unreadable(one.path, problem.strerror or str(problem))
        if self._is_own(real, start):
            return PassedOver(one.path, "the lake itself")
        if is_folder and one.name in TABLES:
            return PassedOver(one.path, "tables of a lake")
        if is_folder and not _is_hidden(one.name):
            return None
        if is_file and has_log_name(PurePath(one.name)):
            return self._log(real)
        return PassedOver(one.path) if is_folder or is_file else _no_file(one.path)

    def _is_own(self, real: str, start: str) -> bool:
        """Whether a path is the lake's: its archive is not where the user began there."""
        lake = self.lake
        if lake is None or not _within(real, lake):
            return False
        logs = f"{lake.rstrip('/')}/{LOGS}"
        if any(_within(real, f"{lake.rstrip('/')}/{name}") for name in TABLES):
            return True
        return not _within(start, logs if _within(real, logs) else lake)

    def _log(self, real: str) -> Input | Unreadable:
        """A file without links in its path as an input."""
        try:
            state = os.stat(real)  # noqa: PTH116 - a folder may have many
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


def _no_file(path: str) -> PassedOver:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - as above
    except OSError:
        return PassedOver(path, "a link to nothing")
    return PassedOver(path, _KINDS[stat.S_IFMT(mode)])


# Globs: those of the standard library pass over what cannot be listed


def _expand(pattern: Path) -> list[Path]:
    """The paths that match a glob, `**` for any number of folders."""
    found = [Path(pattern.anchor)]
    parts = pattern.parts[1:] if pattern.anchor else pattern.parts
    for part in parts:
        if part == "**":
            found = [folder for path in found for folder in _folders(path)]
        elif glob.has_magic(part):
            found = [path / name for path in found for name in _names(path) if _fits(name, part)]
        else:
            found = [path / part for path in found if os.path.lexists(path / part)]
    return list(dict.fromkeys(found))


def _fits(name: str, part: str) -> bool:
    hidden = name.startswith(".") and not part.startswith(".")
    return not hidden and fnmatch.fnmatchcase(name, part)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    except OSError as problem:
        raise InsufficientPermissions(
            f"may not list {folder}: {problem.strerror}; nothing was loaded"
        ) from problem


def _folders(top: Path) -> list[Path]:
    """A folder and all below it, the hidden ones excepted; each is listed once."""
    found, seen, waiting = [], set(), [top]
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder)
        if real in seen or not folder.is_dir():
            continue
        seen.add(real)
        found.append(folder)
        waiting += [folder / name for name in _names(folder) if not name.startswith(".")]
    return sorted(found)
