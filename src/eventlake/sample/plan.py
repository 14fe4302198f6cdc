"""Which events go to which file, and at what time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from eventlake.sample.spec import SampleSpec

HOUR_MS = 3_600_000
# A chunk is what is in memory at a time; small enough to be cheap, large enough for numpy to pay.
EVENTS_PER_CHUNK = 20_000


@dataclass(frozen=True)
class Chunk:
    """A stretch of consecutive events: `first` of all, how many, and when they are received."""

    number: int
    first: int
    count: int
    start_ms: int
    end_ms: int
    late: bool


@dataclass(frozen=True)
class FilePlan:
    """One file to write."""

    name: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class _Span:
    """A share of the whole, as the exact fractions `low`/`of` to `high`/`of`."""

    low: int
    high: int
    of: int

    def split(self, parts: int) -> "Iterator[_Span]":
        width = self.high - self.low
        for part in range(parts):
            low = self.low * parts + width * part
            yield _Span(low, low + width, self.of * parts)

    def of_total(self, total: int) -> tuple[int, int]:
        """Where the span begins and ends in a whole of this size; neighbours meet exactly."""
        return self.low * total // self.of, self.high * total // self.of


def plan_files(spec: SampleSpec) -> Iterator[FilePlan]:
    """The files in order of time, each with its chunks."""
    number = 0
    for name, spans in _file_spans(spec):
        pieces = [piece for span in spans for piece in span.split(_chunks_in(spec, span))]
        chunks = tuple(_chunk(spec, number + at, piece) for at, piece in enumerate(pieces))
        number += len(chunks)
        yield FilePlan(name, chunks)


def _file_spans(spec: SampleSpec) -> Iterator[tuple[str, list[_Span]]]:
    """Each file's name and the hours, or the one piece of an hour, that it covers."""
    hours, files = spec.hours, spec.file_count
    if files < hours:
        bounds = [file * hours // files for file in range(files + 1)]
        for first, last in pairwise(bounds):
            yield _file_name(spec, first, 0), [_Span(h, h + 1, hours) for h in range(first, last)]
        return
    for hour in range(hours):
        parts = (hour + 1) * files // hours - hour * files // hours
        for part, span in enumerate(_Span(hour, hour + 1, hours).split(parts)):
            yield _file_name(spec, hour, part), [span]


def _file_name(spec: SampleSpec, hour: int, part: int) -> str:
    begin = datetime.fromtimestamp(spec.start_ms / 1000 + hour * 3600, UTC)
    return f"{begin:%Y-%m-%dT%H}-{part:03d}.gz"


def _chunks_in(spec: SampleSpec, span: _Span) -> int:
    first, end = span.of_total(spec.events)
    return max(1, -(-(end - first) // EVENTS_PER_CHUNK))


def _chunk(spec: SampleSpec, number: int, span: _Span) -> Chunk:
    first, end = span.of_total(spec.events)
    start_ms, end_ms = (spec.start_ms + ms for ms in span.of_total(spec.hours * HOUR_MS))
    # With a single hour there is no "before" that a late property could be missing from.
    late = spec.hours > 1 and start_ms >= spec.end_ms - HOUR_MS
    return Chunk(number, first, end - first, start_ms, end_ms, late)
