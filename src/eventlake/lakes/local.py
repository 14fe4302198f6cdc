"""The embedded default: a folder on disk, Parquet files, a catalog of files."""

from pathlib import Path

from eventlake.catalogs.files import FilesCatalog
from eventlake.errors import InvalidSettings
from eventlake.formats.parquet import ParquetFormat
from eventlake.lake import Lake
from eventlake.model.lake import LocalSettings
from eventlake.stores import Disk, Store


def lake(_: LocalSettings, store: Store) -> Lake:
    return Lake(store=store, catalog=FilesCatalog(store), format=ParquetFormat(store))


def cluster(_: LocalSettings, __: Store, *, temporary: bool) -> None:
    """A folder of this machine is seen by nobody else."""
    if temporary:
        raise InvalidSettings("a temporary cluster is for a lake on AWS, and this one is on disk")


def cluster_steps(_: LocalSettings) -> tuple[()]:
    return ()


def store(settings: LocalSettings, *, make: bool) -> Store:
    given = settings.path
    root = Path(given).expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise InvalidSettings(f"lake is {given!r}: it is a file, and a lake is a folder")
    if not make and not root.exists():
        raise InvalidSettings(f"lake is {given!r}: there is no such folder")
    return Disk(str(root))
