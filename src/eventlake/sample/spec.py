"""What to generate, and what was generated."""

from dataclasses import dataclass
from datetime import UTC, datetime

from eventlake.sample.names import MAX_TYPES, MIN_TYPES

EVENTS_PER_FILE = 50_000


@dataclass(frozen=True)
class SampleSpec:
    """A sample to make; equal specs give identical files.

    `events` counts distinct real events. `duplicates` and `bad` are fractions of it and come on
    top: re-sent events, and lines that are no events. `types` is the number of tables to expect:
    track events and the five other calls together. `files` left out means about 50,000 events a
    file and at least one file an hour.
    """

    events: int = 100_000
    types: int = 50
    hours: int = 3
    duplicates: float = 0.01
    bad: float = 0.0
    seed: int = 7
    start: datetime = datetime(2026, 11, 1, tzinfo=UTC)
    files: int | None = None

    def __post_init__(self) -> None:
        _within("events", self.events, 1)
        _within("types", self.types, MIN_TYPES, MAX_TYPES)
        _within("hours", self.hours, 1)
        _within("duplicates", self.duplicates, 0)
        _within("bad", self.bad, 0)
        _within("seed", self.seed, 0)
        _within("files", self.file_count, 1)
        if self.start.tzinfo is None:
            raise ValueError(f"start is {self.start.isoformat()}; it must name its time zone")

    @property
    def file_count(self) -> int:
        """How many files the sample has."""
        if self.files is not None:
            return self.files
        return max(self.hours, round(self.events / EVENTS_PER_FILE))

    @property
    def duplicate_count(self) -> int:
        """How many re-sent lines the sample has."""
        return round(self.events * self.duplicates)

    @property
    def bad_count(self) -> int:
        """How many lines that are no events the sample has."""
        return round(self.events * self.bad)

    @property
    def start_ms(self) -> int:
        """The first instant, in Unix milliseconds."""
        return round(self.start.timestamp() * 1000)

    @property
    def end_ms(self) -> int:
        """The instant after the last, in Unix milliseconds."""
        return self.start_ms + self.hours * 3_600_000


@dataclass(frozen=True)
class SampleSummary:
    """What was written: lines by kind, the files' size, and the lines' size before gzip."""

    files: int
    events: int
    duplicates: int
    bad: int
    bytes: int
    json_bytes: int


def _within(setting: str, got: float, low: int, high: int | None = None) -> None:
    """Refuse a value out of bounds (also NaN), saying which setting and what it may be."""
    if got >= low and (high is None or got <= high):
        return
    upper = "" if high is None else f" and at most {high}"
    raise ValueError(f"{setting} is {got}; it must be at least {low}{upper}")
