"""Hash the ids of users, so that a small index says which files may have a user's events.

An id is a user id, an anonymous id or an alias's previous id. Its hash has 32 bits: of a file with
a million users, one search in four thousand opens it in vain. Hashes are computed on whole arrays.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from eventlake.model.erasure import ID_COLUMNS

Hashes = NDArray[np.uint32]

NO_HASHES: Hashes = np.empty(0, np.uint32)
MAX_WORDS = 32
"""Longer ids are hashed by their length and the first 256 bytes."""
WORD_BYTES = 8

BATCH_ROWS = 8_000
"""Rows whose ids are hashed at once: enough that small files take little time, and so few that the
arrays stay in the processor's cache."""

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(WORD_BYTES + 1)], np.uint64)


def hash_ids(ids: pa.StringArray) -> Hashes:
    """Hash the strings of an array; nulls and empty strings are left out."""
    return _hash_strings(ids)[0]


def _hash_strings(ids: pa.Array) -> tuple[Hashes, NDArray[np.int64]]:
    """Return the hashes of the strings that are not empty, and their row numbers.

    Nulls are left out as well: Arrow makes them without bytes.
    """
    _, offset_buffer, data = ids.buffers()
    if not len(ids) or data is None:
        return NO_HASHES, np.empty(0, np.int64)
    stored = np.frombuffer(offset_buffer, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    first, end = int(stored[0]), int(stored[-1])
    offsets: NDArray[np.int64] = stored.astype(np.int64) - first
    sizes: NDArray[np.int64] = np.diff(offsets)
    filled = np.flatnonzero(sizes)
    starts, sizes = offsets[filled], sizes[filled]
    # The padding lets the last word of the last string be read whole.
    padded = np.zeros(end - first + WORD_BYTES, np.uint8)
    padded[:-WORD_BYTES] = np.frombuffer(data, np.uint8, end - first, first)
    words = as_strided(padded[:WORD_BYTES].view("<u8"), (len(padded) - WORD_BYTES + 1,), (1,))
    state = sizes.astype(np.uint64) * _FACTOR
    rows: NDArray[np.int64] | slice = slice(None)  # faster than all row numbers
    count = min(MAX_WORDS, -(-int(sizes.max(initial=0)) // WORD_BYTES))
    for number in range(count):
        rest = sizes[rows] - number * WORD_BYTES
        if rest.min() <= 0:
            rows = np.flatnonzero(sizes > number * WORD_BYTES)
            rest = sizes[rows] - number * WORD_BYTES
        word = words[starts[rows] + number * WORD_BYTES]
        if rest.min() < WORD_BYTES:
            word &= _MASKS[np.minimum(rest, WORD_BYTES)]
        mixed = (state[rows] ^ word) * _FACTOR
        state[rows] = mixed ^ (mixed >> _SHIFT)
    return (state >> _HALF).astype(np.uint32), filled


def has_any(hashes: Hashes, wanted: Hashes) -> bool:
    """Whether sorted hashes contain one of the wanted ones."""
    if not len(hashes):
        return False
    at = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
    return bool((hashes[at] == wanted).any())


class HashCollector:
    """Collects the ids of numbered files, and hashes many at once."""

    def __init__(self) -> None:
        self._waiting: list[tuple[NDArray[np.uint64], pa.Array]] = []
        self._rows = 0
        self._keys: list[NDArray[np.uint64]] = []

    def add_table(self, file: int, rows: pa.Table) -> None:
        """Add the users' ids in rows of one file."""
        for name in ID_COLUMNS:
            if name in rows.column_names:
                self.add(file, rows[name].cast(pa.string()))

    def add(self, file: int, ids: pa.Array | pa.ChunkedArray) -> None:
        """Add the strings of a column, which may have nulls, to those of one file."""
        for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else (ids,):
            self.add_rows(np.full(len(chunk), file), chunk)

    def add_rows(self, files: NDArray[Any], ids: pa.Array) -> None:
        """Add the strings of a column, whose rows are of several files."""
        self._waiting.append((files.astype(np.uint64), ids))
        self._rows += len(ids)
        if self._rows >= BATCH_ROWS:
            self._hash_waiting()

    def _hash_waiting(self) -> None:
        if self._waiting:
            files, ids = zip(*self._waiting, strict=True)
            joined, numbers = pa.concat_arrays(ids), np.concatenate(files) << _HALF
            for at in range(0, len(joined), BATCH_ROWS):
                hashes, rows = _hash_strings(joined.slice(at, BATCH_ROWS))
                self._keys.append(_sort_distinct(numbers[at + rows] | hashes.astype(np.uint64)))
        self._waiting, self._rows = [], 0

    def finish(self) -> dict[int, Hashes]:
        """Return the sorted hashes of each file that has any, by its number."""
        self._hash_waiting()
        keys = _sort_distinct(np.concatenate([np.empty(0, np.uint64), *self._keys]))
        files, starts = np.unique(keys >> _HALF, return_index=True)
        parts = np.split((keys & _LOW).astype(np.uint32), starts[1:])
        return dict(zip(files.tolist(), parts, strict=False))


def _sort_distinct(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Do `np.unique`, which takes longer."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
