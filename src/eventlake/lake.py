"""The parts of a lake that a run works with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.ports import Catalog, TableFormat
from eventlake.stores import Store


@dataclass(frozen=True)
class Lake:
    """A lake's store, catalog and table format."""

    store: Store
    catalog: Catalog
    format: TableFormat
    workspace: str = ""
    """The workspace in the lake's settings, if any."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Fields of every report of the lake, such as `s3_bucket`."""
    clock: Clock = SYSTEM_CLOCK
    """The clock of runs: of their ids, leases and reports."""
