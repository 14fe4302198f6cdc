"""The settings of a collector and of each source that it serves."""

from dataclasses import dataclass, field
from pathlib import Path

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.collect.limits import DEFAULTS, Limits
from eventlake.model.layout import archive_path
from eventlake.model.settings import SourceSettings
from eventlake.stores import Store

SOURCE_FILE = "source.json"


@dataclass(frozen=True)
class CollectorSettings:
    """What a collector does for all of its sources."""

    store: Store
    host: str = "127.0.0.1"
    port: int = 8400
    spool: Path | None = None
    """The spool's folder, with a folder for each source; by default it is in the lake."""
    limits: Limits = DEFAULTS
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True)
class ServedSource:
    """A source that a collector serves, and what applies to it alone."""

    settings: SourceSettings
    write_keys: tuple[str, ...] = field(default=(), repr=False)
    """Without one, the key in the source file is used."""
    suppress: tuple[Path, ...] = ()
    """Files of suppressed user ids."""

    @property
    def archive(self) -> str:
        """The path of its archive in the lake."""
        return archive_path(self.settings.folder)

    def spool_root(self, collector: CollectorSettings) -> Path:
        """Return the source's folder in the configured spool, else `.spool` in its archive."""
        if collector.spool:
            return collector.spool / self.settings.folder
        return Path(collector.store.root) / self.archive / ".spool"

    def source_file(self, collector: CollectorSettings) -> Path:
        """Return the path of the file with its write key, which is in the spool's folder."""
        return self.spool_root(collector) / SOURCE_FILE
