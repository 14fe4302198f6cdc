"""The parts of a lake that a run works with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InvalidSettings
from eventlake.ledger import Ledger
from eventlake.model.layout import DEFAULT_LAYOUT, Layout
from eventlake.ports import BringsSparkSettings, Catalog, TableFormat
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
    """Fields of every report of the lake, such as the name of its bucket."""
    clock: Clock = SYSTEM_CLOCK
    """The clock of runs: of their ids, leases and reports."""
    open_bucket: Callable[[str], Store] | None = None
    """Opens other buckets, by address, that have raw logs of the lake; None if there are none."""

    def ledger(self, folder: str) -> Ledger:
        """The ledger of the source with this folder."""
        return Ledger(self.store, self.layout, folder)

    @property
    def spark_settings(self) -> dict[str, str]:
        """The Spark settings that the parts need; raises InvalidSettings if two disagree."""
        parts = {"store": self.store, "format": self.format, "catalog": self.catalog}
        settings: dict[str, str] = {}
        names: dict[str, str] = {}
        for part, adapter in parts.items():
            if not isinstance(adapter, BringsSparkSettings):
                continue
            name = f"the {part} ({type(adapter).__name__})"
            for key, value in adapter.spark_settings.items():
                if settings.setdefault(key, value) != value:
                    raise InvalidSettings(
                        f"{names[key]} needs the Spark setting {key} = {settings[key]!r}, and "
                        f"{name} needs {value!r}: choose others for this lake"
                    )
                names.setdefault(key, name)
        return settings
