"""Which events of a run are duplicates: exact, over hashes of their message ids, without a loop.

An id is known by 128 bits of BLAKE2b, kept as two integers. Two different ids would meet once in
10^19 runs of a billion events, and nobody can make them meet on purpose.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DAY = 86_400_000_000
"""Microseconds in a day."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Ids(NamedTuple):
    """Message ids with the moment each was received."""

    high: Ints
    low: Ints
    received: Ints

    def at(self, rows: Ints | Bools | slice) -> "Ids":
        return Ids(self.high[rows], self.low[rows], self.received[rows])


def hash_ids(ids: Iterable[str]) -> tuple[Ints, Ints]:
    """The high and low halves of each id's hash."""
    digests = b"".join([blake2b(one.encode(), digest_size=16).digest() for one in ids])
    halves = np.frombuffer(digests, np.dtype("<i8")).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def find_duplicates(run: Ids, places: Ints, known: Iterable[Ids], window: int) -> Bools:
    """For each event of a run, whether one with its id was kept within `window` of it.

    `places` settles the order of events that were received together; each of `known` has the ids
    that an earlier run kept, in order of their hashes.
    """
    order = np.lexsort((places, run.received, run.low, run.high))
    ranked = run.at(order)
    duplicate = np.zeros(len(order), np.bool_)
    for earlier in known:
        duplicate |= met_before(ranked, earlier, window)
    left = np.flatnonzero(~duplicate)
    duplicate[left] = _repeated(ranked.at(left), window)
    found = np.empty_like(duplicate)
    found[order] = duplicate
    return found


def met_before(ranked: Ids, earlier: Ids, window: int) -> Bools:
    """Which ids are among those that another run kept within `window` of them."""
    first = np.searchsorted(earlier.high, ranked.high, "left")
    sizes = np.searchsorted(earlier.high, ranked.high, "right") - first
    mine = np.repeat(np.arange(len(sizes)), sizes)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[mine]
    meets = (ranked.low[mine] == earlier.low[theirs]) & (
        np.abs(ranked.received[mine] - earlier.received[theirs]) <= window
    )
    met = np.zeros(len(sizes), np.bool_)
    met[mine[meets]] = True
    return met


def _repeated(ranked: Ids, window: int) -> Bools:
    """Within one run, in order of receipt: all but the first of each id, a window long."""
    same = np.zeros(len(ranked.high), np.bool_)
    same[1:] = (ranked.high[1:] == ranked.high[:-1]) & (ranked.low[1:] == ranked.low[:-1])
    starts = np.flatnonzero(~same)
    leader = np.repeat(starts, np.diff(np.append(starts, len(same))))
    repeated = same & (ranked.received - ranked.received[leader] <= window)
    for start in np.unique(leader[same & ~repeated]):
        _walk(start, leader, ranked.received, repeated, window)
    return repeated


def _walk(start: int, leader: Ints, received: Ints, repeated: Bools, window: int) -> None:
    """An id that comes again after its window begins a new one."""
    kept, at = received[start], start + 1
    while at < len(leader) and leader[at] == start:
        repeated[at] = received[at] - kept <= window
        kept = kept if repeated[at] else received[at]
        at += 1
