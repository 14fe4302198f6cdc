"""What to generate, and what was generated."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from eventlake.model.values import FrozenModel
from eventlake.sample.names import MAX_TYPES, MIN_TYPES

EVENTS_PER_FILE = 50_000
HOUR_MS = 3_600_000

Fraction = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SampleSpec(FrozenModel):
    """A sample to make; equal specs give identical files."""

    events: Annotated[int, Field(ge=1, description="Number of distinct events")] = 100_000
    types: Annotated[
        int, Field(ge=MIN_TYPES, le=MAX_TYPES, description="Number of event tables")
    ] = 50
    hours: Annotated[int, Field(ge=1, description="Number of hours that the events span")] = 3
    duplicates: Annotated[
        Fraction, Field(description="Duplicates, as a fraction of the events")
    ] = 0.01
    bad: Annotated[Fraction, Field(description="Invalid lines, as a fraction of the events")] = 0.0
    messy: Annotated[
        bool, Field(description="Values of mixed types, arrays, numbers with many digits")
    ] = False
    seed: Annotated[int, Field(ge=0, description="The random seed")] = 7
    files: Annotated[
        int | None, Field(ge=1, description="Number of files; by default by the events and hours")
    ] = None
    start: AwareDatetime = datetime(2026, 11, 1, tzinfo=UTC)

    @property
    def file_count(self) -> int:
        """How many files the sample has: by default one an hour, more for many events."""
        return self.files or max(self.hours, round(self.events / EVENTS_PER_FILE))

    @property
    def duplicate_count(self) -> int:
        """How many re-sent lines the sample has."""
        return round(self.events * self.duplicates)

    @property
    def bad_count(self) -> int:
        """How many invalid lines the sample has."""
        return round(self.events * self.bad)

    @property
    def start_ms(self) -> int:
        """The first instant, in Unix milliseconds."""
        return round(self.start.timestamp() * 1000)

    @property
    def end_ms(self) -> int:
        """The instant after the last, in Unix milliseconds."""
        return self.start_ms + self.hours * HOUR_MS


@dataclass(frozen=True)
class SampleSummary:
    """What was written: lines by kind, the files' size, and the lines' size before gzip."""

    files: int
    events: int
    duplicates: int
    bad: int
    bytes: int
    json_bytes: int
