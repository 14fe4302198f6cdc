"""Sizes and intervals that trade memory, time and files; users do not set them, tests do."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReadTunables:
    """Sizes of the reading tasks."""

    parse_bytes: int = 30 << 20
    """Bytes of one table's events that are parsed at once."""
    held_bytes: int = 256 << 20
    """Bytes of events that a task holds before it parses those of the largest tables."""
    spill_bytes: int = 640 << 10
    """Bytes of one table's events up to which they are spilled instead of parsed."""
    split_bytes: int = 4 << 20
    """Size above which a chunk is split by partition, so that a writing task reads only its own."""


@dataclass(frozen=True)
class WriteTunables:
    """Sizes of the writing tasks."""

    unit_bytes: int = 200 << 20
    """Bytes of chunks per file; the Parquet file is about as large."""
    file_bytes: int = 128 << 20
    """Bytes from which a compaction leaves a file as it is, and begins the next one."""
    group_bytes: int = 32 << 20
    """Bytes of a row group that a compaction makes; a task holds about two, decoded."""
    slice_bytes: int = 64 << 20
    """Bytes of chunks in memory that are cast and sorted at once."""
    land_bytes: int = 32 << 20
    """Bytes of rows that are landed before any is written: casting many small tables in a row, then
    writing them, is faster than alternating."""
    small_file_rows: int = 500
    """Rows below which a file gets no dictionaries, and statistics of `received_at` only:
    statistics of all columns would be a seventh of such a file."""


@dataclass(frozen=True)
class LedgerTunables:
    """How a ledger keeps reading its state cheap."""

    snapshot_every: int = 10
    """Commits per snapshot: about as many are read to get the current state."""
    merge_manifests: int = 8
    """Manifests of one size that are merged into one."""
    recent_runs: int = 200
    """Runs whose sequence is in the state; those of older runs are in the manifests."""


@dataclass(frozen=True)
class Tunables:
    """The tunables of a run. A run on a cluster has the defaults there."""

    read: ReadTunables = field(default_factory=ReadTunables)
    write: WriteTunables = field(default_factory=WriteTunables)
    retired_seconds: float = 86_400.0
    """Seconds before a replaced index file is deleted: runs planned earlier may still read it."""
    kept_seconds: float = 7 * 86_400.0
    """Seconds before a replaced data file that was kept is deleted; Delta's own default."""
