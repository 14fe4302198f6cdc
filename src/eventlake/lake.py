"""What a run needs of a lake."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventlake.ports import Catalog, TableFormat
from eventlake.stores import Store


@dataclass(frozen=True)
class Lake:
    """A lake's store, catalog and table format, and what reports say about it."""

    store: Store
    catalog: Catalog
    format: TableFormat
    workspace: str = ""
    """The workspace that the lake belongs to, when its settings say so."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Fields that every report of the lake has, such as `s3_bucket`."""
