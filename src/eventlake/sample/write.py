"""Writing a sample to disk."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path

from isal import isal_zlib

from eventlake.sample.events import Batch, Generator
from eventlake.sample.spec import HOUR_MS, SampleSpec, SampleSummary

EVENTS_PER_BATCH = 20_000
"""Events that are in memory at a time."""
GZIP_LEVEL = 1
GZIP_FORMAT = 31
"""Tells zlib to write a gzip header, which has no name and no time."""


def make_sample(
    spec: SampleSpec, out: Path, progress: Callable[[int], None] = lambda _: None
) -> SampleSummary:
    """Write the sample as gzip files of JSON lines into the folder `out`, which is made if missing.

    Other files in the folder stay. `progress` is called with the number of events written since
    its last call.
    """
    out.mkdir(parents=True, exist_ok=True)
    generator = Generator(spec)
    packed = plain = 0
    for name, batches in _plan_files(spec):
        packer = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_FORMAT)
        with (out / name).open("wb") as file:
            for batch in batches:
                lines = b"".join(line + b"\n" for line in generator.lines(batch))
                plain += len(lines)
                file.write(packer.compress(lines))
                progress(batch.size)
            file.write(packer.flush())
            packed += file.tell()
    return SampleSummary(
        spec.file_count, spec.events, spec.duplicate_count, spec.bad_count, packed, plain
    )


def _plan_files(spec: SampleSpec) -> Iterator[tuple[str, list[Batch]]]:
    """The files in order of time: their names and batches."""
    starts = list(_file_starts(spec))
    ends = [*(hour for hour, _ in starts[1:]), Fraction(spec.hours)]
    for (start, part), end in zip(starts, ends, strict=True):
        begin = datetime.fromtimestamp(spec.start_ms / 1000 + int(start) * 3600, UTC)
        yield f"{begin:%Y-%m-%dT%H}-{part:03d}.gz", list(_plan_batches(spec, start, end))


def _file_starts(spec: SampleSpec) -> Iterator[tuple[Fraction, int]]:
    """The hour, or fraction of an hour, with which each file begins, and its number in the hour."""
    hours, files = spec.hours, spec.file_count
    if files < hours:
        yield from ((Fraction(file * hours // files), 0) for file in range(files))
        return
    for hour in range(hours):
        parts = (hour + 1) * files // hours - hour * files // hours
        yield from ((hour + Fraction(part, parts), part) for part in range(parts))


def _plan_batches(spec: SampleSpec, start: Fraction, end: Fraction) -> Iterator[Batch]:
    """The batches of a file from one hour to another; one without events if it has none."""
    first, last = ceil(start * spec.events / spec.hours), ceil(end * spec.events / spec.hours)
    bounds = [*range(first, last, EVENTS_PER_BATCH), last]
    for low, high in pairwise(bounds if len(bounds) > 1 else [first, first]):
        begins = max(_ms_of(spec, low), spec.start_ms + int(start * HOUR_MS))
        ends = spec.start_ms + int(end * HOUR_MS) if high == last else _ms_of(spec, high)
        yield Batch(low, high - low, begins, max(ends, begins + 1))


def _ms_of(spec: SampleSpec, number: int) -> int:
    """When the event of this number is received, give or take the length of its batch."""
    return spec.start_ms + number * spec.hours * HOUR_MS // spec.events
