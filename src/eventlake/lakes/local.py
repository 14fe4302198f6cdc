"""The embedded default: a folder on disk, Parquet files, a catalog of files."""

import os
import stat
from pathlib import Path

from eventlake.catalogs.files import FilesCatalog
from eventlake.errors import InvalidSettings
from eventlake.formats.parquet import ParquetFormat
from eventlake.lake import Lake
from eventlake.model.lake import LocalSettings
from eventlake.stores import Disk, Store
from eventlake.stores.paths import file_status, parse_path


def lake(_: LocalSettings, store: Store) -> Lake:
    return Lake(store=store, catalog=FilesCatalog(store), format=ParquetFormat(store))


def cluster(_: LocalSettings, __: Store, *, temporary: bool) -> None:
    """A folder of this machine is seen by nobody else."""
    if temporary:
        raise InvalidSettings("a temporary cluster is for a lake on AWS, and this one is on disk")


def cluster_checks(_: LocalSettings) -> tuple[()]:
    return ()


def store(settings: LocalSettings, *, make: bool) -> Store:
    given = settings.path
    path = parse_path(given, "lake")
    if file_status(path) is None:
        _check_way(path, given)
    root = path.resolve()  # `x/../lake` is a lake also where there is no x
    status = file_status(root)
    if status is None and not make:
        raise InvalidSettings(f"lake is {given!r}: there is no such folder")
    if status and not stat.S_ISDIR(status.st_mode):
        kind = "a file" if stat.S_ISREG(status.st_mode) else "not a folder"
        raise InvalidSettings(f"lake is {given!r}: it is {kind}, and a lake is a folder")
    return Disk(str(root))


def _check_way(path: Path, given: str) -> None:
    """Refuse to make a lake behind a link to nothing, as of a disk that is not mounted."""
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    name = "it" if there == path else str(there)
    if file_status(there) is None:
        raise InvalidSettings(
            f"lake is {given!r}: {name} is a link to {there.readlink()}, which does not exist"
        )
    if not there.is_dir():
        raise InvalidSettings(f"lake is {given!r}: {name} is a file, and a lake is a folder")
