"""A lake in ADLS as a folder on disk, read by nothing but Arrow's client and Thrift."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector

from eventlake.catalogs.hive_calls import HiveCalls
from eventlake.lakes.azure_settings import AzureSettings
from tests.azure.azurite import Azure

OWN = "segment-data/data/"
"""Where a lake on disk has the tables that one in ADLS has in `staging/`."""


def copied(lake: AzureSettings, folder: Path) -> Path:
    """Every object of the container, and the metastore's tables as the files of a lake on disk."""
    here = copy_objects(lake, folder)
    if lake.metastore_url:
        _copy_metastore(here, lake.metastore_url, folder / "segment-data/catalog")
    return folder


def copy_objects(lake: AzureSettings, folder: Path, prefix: str = "") -> Azure:
    """The objects of the container whose names begin with `prefix`; the account that has them.

    Empty ones are left out: Hive's servers make them for the folders of tables.
    """
    here = Azure(os.environ["AZURE_STORAGE_ENDPOINT"], lake.storage_container)
    client = here.client()
    below = f"{here.container}/{prefix.rpartition('/')[0]}".rstrip("/")
    for found in client.get_file_info(FileSelector(below, recursive=True, allow_not_found=True)):
        key = found.path.removeprefix(f"{here.container}/")
        if found.is_file and found.size and key.startswith(prefix):
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.open_input_file(found.path).read())
    return here


def _copy_metastore(here: Azure, url: str, folder: Path) -> None:
    server = urlsplit(url)
    calls = HiveCalls(lambda: [(server.hostname or "", server.port or 0)])
    for database in calls.call("get_all_databases"):
        for name in calls.call("get_all_tables", database):
            path = folder / database / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(_table(here, calls, database, name)))


def _table(here: Azure, calls: HiveCalls, database: str, name: str) -> dict[str, Any]:
    entry = calls.call("get_table", database, name)
    keys = [column.name for column in entry.partitionKeys]
    found = calls.call("get_partitions", database, name, -1)
    place = entry.sd.location
    return {
        "location": place.removeprefix(f"{here.root}/"),
        "columns": [{"name": one.name, "type": one.type} for one in entry.sd.cols],
        "partition_columns": keys,
        "partitions": [
            dict(zip(keys, one.values, strict=True))
            for one in sorted(found, key=lambda one: one.values)
            if one.sd.location.startswith(f"{place}/")
        ],
    }
