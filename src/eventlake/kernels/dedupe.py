"""Find the events of a run that are duplicates, by hashes of their message ids.

An id is represented by 128 bits of BLAKE2b, stored as two integers. A collision is expected once in
10^19 runs of a billion events, and cannot be constructed.

All events are sorted by hash, time of receipt and place. An event is a duplicate if an earlier run
kept its id within the window, before or after it: a binary search in each index file, whose ids are
sorted by hash. Of the others, the first event of each id is kept; those within the window after a
kept event are duplicates. An id that comes again after its window starts a new one. All of this is
done on whole arrays, except for the ids of that last case, which are rare.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DAY_MICROS = 86_400_000_000
"""Microseconds in a day."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Ids(NamedTuple):
    """Hashes of message ids, with each one's time of receipt in microseconds."""

    high: Ints
    low: Ints
    received: Ints

    def at(self, rows: Ints | Bools | slice) -> "Ids":
        """Return the ids in these rows: row numbers, a mask, or a slice."""
        return Ids(self.high[rows], self.low[rows], self.received[rows])


def pack_hashes(ids: Ids) -> bytes:
    """Return the hashes of ids, without their times, as bytes; `unpack_hashes` reads them."""
    return np.stack([ids.high, ids.low], axis=1).astype("<i8").tobytes()


def unpack_hashes(packed: bytes) -> Ids:
    """Return ids that `pack_hashes` has packed; their times are 0."""
    halves = np.frombuffer(packed, np.dtype("<i8")).reshape(-1, 2)
    return Ids(halves[:, 0], halves[:, 1], np.zeros(len(halves), np.int64))


def hash_ids(ids: Iterable[str]) -> tuple[Ints, Ints]:
    """Hash message ids; return the high and the low 64 bits of each hash, in the ids' order."""
    digests = b"".join([blake2b(id_.encode(), digest_size=16).digest() for id_ in ids])
    halves = np.frombuffer(digests, np.dtype("<i8")).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def find_duplicates(run: Ids, places: Ints, earlier_runs: Iterable[Ids], window: int) -> Bools:
    """Return for each event of a run whether it is a duplicate.

    It is one if an earlier run kept its id within `window` microseconds before or after it, or if
    this run keeps one that was received at most that long before it. `places` orders events of the
    same time of receipt; `earlier_runs` have the ids that were kept, sorted by hash.
    """
    order = np.lexsort((places, run.received, run.low, run.high))
    ranked = run.at(order)
    duplicate = np.zeros(len(order), np.bool_)
    for earlier in earlier_runs:
        duplicate |= match_earlier(ranked, earlier, window)
    rest = np.flatnonzero(~duplicate)
    duplicate[rest] = _find_repeats(ranked.at(rest), window)
    in_run_order = np.empty_like(duplicate)
    in_run_order[order] = duplicate
    return in_run_order


def match_earlier(ranked: Ids, earlier: Ids, window: int) -> Bools:
    """Return which ids `earlier`, sorted by hash, has within `window` microseconds of their time.

    Before or after it; a window of 0 asks for the same time. `ranked` may be in any order.
    """
    first = np.searchsorted(earlier.high, ranked.high, "left")
    sizes = np.searchsorted(earlier.high, ranked.high, "right") - first
    # Pairs of rows whose high halves are equal.
    mine = np.repeat(np.arange(len(sizes)), sizes)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[mine]
    matches = (ranked.low[mine] == earlier.low[theirs]) & (
        np.abs(ranked.received[mine] - earlier.received[theirs]) <= window
    )
    matched = np.zeros(len(sizes), np.bool_)
    matched[mine[matches]] = True
    return matched


def _find_repeats(ranked: Ids, window: int) -> Bools:
    """Return which ids, sorted by hash and receipt, repeat one that is kept, within its window.

    The first of each id is kept, and so is the first after a window ends, which starts a new one.
    """
    same = np.zeros(len(ranked.high), np.bool_)
    same[1:] = (ranked.high[1:] == ranked.high[:-1]) & (ranked.low[1:] == ranked.low[:-1])
    starts = np.flatnonzero(~same)
    leader = np.repeat(starts, np.diff(np.append(starts, len(same))))
    repeated = same & (ranked.received - ranked.received[leader] <= window)
    for start in np.unique(leader[same & ~repeated]):
        _start_new_windows(start, leader, ranked.received, repeated, window)
    return repeated


def _start_new_windows(
    start: int, leader: Ints, received: Ints, repeated: Bools, window: int
) -> None:
    """Correct `repeated`, in place, for the id at row `start`, which comes again after its window.

    The first row after a window is kept and starts the next. `leader` has the first row of each
    row's id.
    """
    window_start, at = received[start], start + 1
    while at < len(leader) and leader[at] == start:
        repeated[at] = received[at] - window_start <= window
        window_start = window_start if repeated[at] else received[at]
        at += 1
