"""The targets of the loader, on 2 cores, and whether they were reached."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.rows import Row

Rows = dict[str, Row]
GIGABYTE = 10**9


@dataclass(frozen=True)
class Target:
    """A figure with its bound: at least `least`, or at most `most`."""

    name: str
    figure: Callable[[Rows], float | None]
    least: float | None = None
    most: float | None = None
    unit: str = "x"

    @property
    def bound(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def verdict(self, rows: Rows) -> str:
        got = self.figure(rows)
        if got is None:
            return "not measured"
        low = self.least is None or got >= self.least
        high = self.most is None or got <= self.most
        return "reached" if low and high else "missed"


def times(rows: Rows, name: str, load: str = "eventlake") -> float | None:
    """How many times the seconds of a load, by default the first, another row took.

    Of a peer on the same events, that is our events/s over theirs.
    """
    return _ratio(_seconds(rows, name), _seconds(rows, load))


def peak(rows: Rows, *names: str) -> float | None:
    """The largest memory of several rows, in GB; only when all were measured."""
    peaks = [rows[name].peak if name in rows else None for name in names]
    known = [one for one in peaks if one is not None]
    return max(known) / GIGABYTE if len(known) == len(names) else None


def _seconds(rows: Rows, name: str) -> float | None:
    return rows[name].seconds if name in rows else None


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top and bottom else None


def merge_rate(rows: Rows) -> float | None:
    """Megabytes of small files that a compaction merges in a second."""
    row = rows.get("compact")
    if row is None or not row.runs or not row.seconds:
        return None
    return float(row.runs[0].details["merged_bytes"]) / 1e6 / row.seconds


def last_syncs(rows: Rows) -> float | None:
    """How many times the seconds of the first syncs the last ones took."""
    row = rows.get("delta_syncs")
    if row is None or not row.runs:
        return None
    return _ratio(row.runs[-1].details["last"], row.runs[-1].details["first"])


TARGETS = (
    Target("events/s against DuckDB's bare conversion", lambda r: times(r, "duckdb"), least=1.1),
    Target("messy events against clean ones", lambda r: times(r, "messy"), most=1.2),
    Target(
        "messy: events/s against DuckDB's bare conversion",
        lambda r: times(r, "messy_duckdb", "messy"),
        least=0.75,
    ),
    Target(
        "messy: events/s against DuckDB, all typed",
        lambda r: times(r, "messy_duckdb_typed", "messy"),
        least=4,
    ),
    Target("events/s against plain Spark", lambda r: times(r, "spark"), least=5),
    Target("events/s against dlt", lambda r: times(r, "dlt"), least=10),
    Target("1,000 event types against 100", lambda r: times(r, "types"), most=1.5),
    Target(
        "second load, large index, against the first",
        lambda r: times(r, "index"),
        most=1.5,
    ),
    Target("replay of a window against its first load", lambda r: times(r, "replay"), most=1.2),
    Target("compaction, of Parquet", merge_rate, least=150, unit="MB/s"),
    Target(
        "load into S3 against disk, the emulator apart",
        lambda r: times(r, "s3"),
        most=1.3,
    ),
    Target("load into Delta tables against Parquet", lambda r: times(r, "delta"), most=1.15),
    Target("last ten of 300 syncs into 50 Delta tables", last_syncs, most=1.3),
    Target("open a Delta table", lambda r: _seconds(r, "delta_open"), most=1, unit="s"),
    Target(
        "load into ADLS against disk, the emulator apart",
        lambda r: times(r, "adls"),
        most=1.3,
    ),
    Target(
        "forget one user in 1,000 files against a full rewrite",
        lambda r: _ratio(_seconds(r, "forget"), _seconds(r, "rebuild")),
        most=0.05,
    ),
    Target(
        "peak memory of all processes, both sizes",
        lambda r: peak(r, "eventlake", "memory"),
        most=6,
        unit="GB",
    ),
    Target(
        "peak memory with five times the events",
        lambda r: _ratio(peak(r, "memory"), peak(r, "eventlake")),
        most=1.3,
    ),
)
