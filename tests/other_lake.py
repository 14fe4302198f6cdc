"""A kind of lake that is on disk, with another layout and a catalog of its own."""

from eventlake.formats.parquet import ParquetFormat
from eventlake.lake import Lake
from eventlake.lakes.local import cluster_checks, job_runner, make_store
from eventlake.model.lake import LocalSettings
from eventlake.model.layout import Layout
from eventlake.stores import Store
from tests.catalogs import MemoryCatalog

__all__ = ["CATALOG", "LAYOUT", "OtherSettings", "cluster_checks", "job_runner", "make_store"]

LAYOUT = Layout(
    data="staging",
    reports="lake/reports",
    quarantine="lake/rejected",
    ledger="lake/log",
    catalog="lake/tables",
    sources="lake/names.json",
    stage="tmp/runs",
)
CATALOG = MemoryCatalog()


class OtherSettings(LocalSettings):
    """The settings of this kind of lake."""


def make_lake(_: OtherSettings, store: Store) -> Lake:
    return Lake(store=store, catalog=CATALOG, format=ParquetFormat(store), layout=LAYOUT)
