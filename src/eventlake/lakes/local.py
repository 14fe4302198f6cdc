"""A lake in a folder on disk, with a catalog of files."""

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


def make_lake(_: LocalSettings, store: Store) -> Lake:
    return Lake(store=store, catalog=FilesCatalog(store), format=ParquetFormat(store))


def job_runner(_: LocalSettings, __: Store, *, temporary: bool) -> None:
    """None: a cluster cannot reach a local folder."""
    if temporary:
        raise InvalidSettings("a temporary cluster needs a lake on AWS, and this one is on disk")


def cluster_checks(_: LocalSettings) -> tuple[()]:
    return ()


def make_store(settings: LocalSettings, *, make: bool) -> Store:
    text = settings.path
    path = parse_path(text, "lake")
    if file_status(path) is None:
        _check_links(path, text)
    root = path.resolve()  # `x/../lake` works even without x
    status = file_status(root)
    if status is None and not make:
        raise InvalidSettings(f"lake is {text!r}: no such folder")
    if status and not stat.S_ISDIR(status.st_mode):
        kind = "a file" if stat.S_ISREG(status.st_mode) else "not a folder"
        raise InvalidSettings(f"lake is {text!r}: it is {kind}, and a lake is a folder")
    return Disk(str(root))


def _check_links(path: Path, text: str) -> None:
    """Raise InvalidSettings for a path below a file or a dangling link, as of an unmounted disk."""
    existing = next(one for one in (path, *path.parents) if os.path.lexists(one))
    name = "it" if existing == path else str(existing)
    if file_status(existing) is None:
        raise InvalidSettings(
            f"lake is {text!r}: {name} is a link to {existing.readlink()}, which does not exist"
        )
    if not existing.is_dir():
        raise InvalidSettings(f"lake is {text!r}: {name} is a file, and a lake is a folder")
