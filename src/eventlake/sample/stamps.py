"""The part of every event that is unique to it: its message id and its four times.

All of it has a fixed width, so numpy writes it for thousands of events at once: a table of bytes
with a row an event, copied from TEMPLATE and overwritten where the rows differ.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes2D = NDArray[np.uint8]
Millis = NDArray[np.int64]

_ZERO_TIME = b"1970-01-01T00:00:00.000Z"
_PREFIX = b"ajs-next-0000000000000-"
_TIMES = ("originalTimestamp", "receivedAt", "sentAt", "timestamp")
TEMPLATE = (
    _PREFIX
    + b"00000000-0000-4000-a000-000000000000"
    + b"".join(b'","%b":"%b' % (name.encode(), _ZERO_TIME) for name in _TIMES)
    + b'"'
)
# Only analytics.js puts a prefix before the id; a mobile library's stamp begins behind it.
MOBILE_SKIP = len(_PREFIX)

_RECEIVED = b'"receivedAt":"'
_MS_AT = _PREFIX.index(b"0")
# Where the random digits of the id stand; the 4 and the a between them mark a random UUID.
_HEX_RUNS = tuple(
    (MOBILE_SKIP + at, width) for at, width in ((0, 8), (9, 4), (15, 3), (20, 3), (24, 12))
)
_HEX_DIGITS = sum(width for _, width in _HEX_RUNS)
_PAIRS = np.array([b"%02d" % n for n in range(100)]).view(np.uint8).reshape(100, 2)
_TRIPLES = np.array([b"%03d" % n for n in range(1000)]).view(np.uint8).reshape(1000, 3)


@dataclass(frozen=True)
class Times:
    """The four times of each event, in Unix milliseconds."""

    original: Millis
    received: Millis
    sent: Millis
    timestamp: Millis


def draw_times(rng: np.random.Generator, received: Millis) -> Times:
    """When each of the received events was made and sent, by a device's own, inexact clock."""
    count = len(received)
    clock_error = rng.normal(0, 800, count).astype(np.int64)
    sent = received - rng.integers(30, 900, count) + clock_error
    lag = rng.exponential(700, count).astype(np.int64)
    # A few devices were offline and send hours later what they kept.
    lag += np.where(rng.random(count) < 0.004, rng.integers(0, 72 * 3_600_000, count), 0)
    return Times(sent - lag, received, sent, received - lag)


def render_stamps(rng: np.random.Generator, times: Times) -> bytes:
    """All stamps end to end, each as long as TEMPLATE."""
    count = len(times.received)
    rows = np.tile(np.frombuffer(TEMPLATE, np.uint8), (count, 1))
    _write_millis(rows[:, _MS_AT:], times.original)
    _write_hex(rows, rng)
    for name, values in zip(
        _TIMES, (times.original, times.received, times.sent, times.timestamp), strict=True
    ):
        at = TEMPLATE.index(b'"%b":"' % name.encode()) + len(name) + 4
        _write_iso(rows[:, at : at + len(_ZERO_TIME)], values)
    return rows.tobytes()


def received_again(stamp: bytes, ms: int) -> bytes:
    """The stamp of an event that is received once more, at another time."""
    # A mobile stamp is shorter at its front, so the place is searched, not counted.
    at = stamp.index(_RECEIVED) + len(_RECEIVED)
    return stamp[:at] + iso(ms) + stamp[at + len(_ZERO_TIME) :]


def iso(ms: int) -> bytes:
    """One instant as the stamps write it."""
    row = np.frombuffer(_ZERO_TIME, np.uint8).reshape(1, -1).copy()
    _write_iso(row, np.array([ms], np.int64))
    return row.tobytes()


def _write_hex(rows: Bytes2D, rng: np.random.Generator) -> None:
    digits = rng.bytes(len(rows) * _HEX_DIGITS // 2).hex().encode()
    source = np.frombuffer(digits, np.uint8).reshape(len(rows), _HEX_DIGITS)
    taken = 0
    for at, width in _HEX_RUNS:
        rows[:, at : at + width] = source[:, taken : taken + width]
        taken += width


def _write_millis(rows: Bytes2D, ms: Millis) -> None:
    rows[:, 0] = _PAIRS[ms // 10**12 % 10, 1]
    for at, power in ((1, 9), (4, 6), (7, 3), (10, 0)):
        rows[:, at : at + 3] = _TRIPLES[ms // 10**power % 1000]


def _write_iso(rows: Bytes2D, ms: Millis) -> None:
    days, rest = np.divmod(ms, 86_400_000)
    known, which = np.unique(days, return_inverse=True)
    dates = np.datetime_as_string(known.astype("datetime64[D]")).astype("S10")
    rows[:, :10] = dates.view(np.uint8).reshape(-1, 10)[which]
    rows[:, 11:13] = _PAIRS[rest // 3_600_000]
    rows[:, 14:16] = _PAIRS[rest // 60_000 % 60]
    rows[:, 17:19] = _PAIRS[rest // 1000 % 60]
    rows[:, 20:23] = _TRIPLES[rest % 1000]
