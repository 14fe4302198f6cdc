"""The Spark settings that the parts of a lake bring."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.catalogs.files import FilesCatalog
from eventlake.errors import InvalidSettings
from eventlake.formats.parquet import ParquetFormat
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.stores import Disk


@dataclass(frozen=True)
class CatalogWithSettings(FilesCatalog):
    """A catalog that needs something of Spark."""

    spark_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DiskWithSettings(Disk):
    """A store that needs something of Spark."""

    spark_settings: Mapping[str, str] = field(default_factory=dict)


def lake_with(folder: Path, store: Mapping[str, str], catalog: Mapping[str, str]) -> Lake:
    disk = DiskWithSettings(str(folder), spark_settings=store)
    catalog_with = CatalogWithSettings(disk, spark_settings=catalog)
    return Lake(disk, catalog_with, ParquetFormat(disk))


def test_the_settings_of_all_parts_are_joined(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"spark.a": "1", "spark.b": "2"}, {"spark.b": "2", "spark.c": "3"})
    assert lake.spark_settings == {"spark.a": "1", "spark.b": "2", "spark.c": "3"}
    assert open_parts(tmp_path).spark_settings == {}


def test_two_parts_that_disagree_are_named(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"spark.a": "1"}, {"spark.a": "2"})
    with pytest.raises(InvalidSettings) as caught:
        _ = lake.spark_settings
    assert str(caught.value) == (
        "the store (DiskWithSettings) needs the Spark setting spark.a = '1', and "
        "the catalog (CatalogWithSettings) needs '2': choose others for this lake"
    )
