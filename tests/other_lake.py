"""A kind of lake that is on disk, with another layout and a catalog of its own."""

from eventlake.formats.parquet import ParquetFormat
from eventlake.lake import Lake
from eventlake.lakes.local import LocalKind
from eventlake.model.layout import Layout
from eventlake.stores import Store
from tests.catalogs import MemoryCatalog

LAYOUT = Layout(
    data="staging",
    reports="lake/reports",
    sync_reports="lake/report-table",
    quarantine="lake/rejected",
    ledger="lake/log",
    catalog="lake/tables",
    sources="lake/names.json",
    stage="tmp/runs",
)
CATALOG = MemoryCatalog()


class OtherKind(LocalKind):
    """Builds the parts of such a lake."""

    def make_lake(self, store: Store) -> Lake:
        return Lake(store=store, catalog=CATALOG, format=ParquetFormat(store), layout=LAYOUT)
