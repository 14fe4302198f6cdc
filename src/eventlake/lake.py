"""The parts of a lake that a run works with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventlake.ledger import Ledger
from eventlake.model.layout import DEFAULT_LAYOUT, Layout
from eventlake.ports import Catalog, TableFormat
from eventlake.stores import Store


@dataclass(frozen=True)
class Lake:
    """A lake's store, catalog, table format and layout."""

    store: Store
    catalog: Catalog
    format: TableFormat
    layout: Layout = DEFAULT_LAYOUT
    workspace: str = ""
    """The workspace in the lake's settings, if any."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Fields of every report of the lake, such as `s3_bucket`."""

    def ledger(self, folder: str) -> Ledger:
        """The ledger of the source with this folder."""
        return Ledger(self.store, self.layout, folder)
