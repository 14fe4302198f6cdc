"""The embedded default: a folder on disk, Parquet files, a catalog of files."""

from pathlib import Path

from eventlake.catalogs.files import FilesCatalog
from eventlake.formats.parquet import ParquetFormat
from eventlake.pipeline.finish import Lake
from eventlake.stores import open_store


def local_lake(folder: str | Path, *, make: bool = False) -> Lake:
    """Everything that a run needs of a lake on disk."""
    store = open_store(folder, make=make)
    return Lake(store=store, catalog=FilesCatalog(store), format=ParquetFormat(store))
