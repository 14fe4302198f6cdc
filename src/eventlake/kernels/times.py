"""Parse columns of strings to timestamps, by the rules of `model.types`.

Arrow's parser accepts more forms than the rules do, so it is only used for columns whose strings
all have the same common length, with `T` and `Z` in their places. In all other columns each
distinct string is parsed by the rule.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.model.types import timestamp

MICROS = pa.timestamp("us", tz="UTC")

COMMON_LENGTHS = (20, 24, 27)
"""Lengths of `2026-11-01T07:00:00Z` without a fraction, and with three or six digits."""
_YEAR_1000 = pa.scalar(-30_610_224_000_000_000, pa.int64()).cast(MICROS)


def parse_times(texts: pa.Array, rule: Callable[[str], int | None] = timestamp) -> pa.Array:
    """Parse strings by `rule` to UTC timestamps; null for strings that it does not accept."""
    if _have_common_form(texts):
        try:
            times = texts.cast(MICROS)
        except pa.ArrowInvalid:
            return _parse_each(texts, rule)  # for example a date that does not exist
        if pc.all(pc.greater_equal(times, _YEAR_1000)).as_py() is not False:
            return times
    return _parse_each(texts, rule)


def _have_common_form(texts: pa.Array) -> bool:
    """Whether all strings have one form that Arrow parses by the same rules; False without any."""
    present = texts.drop_null() if texts.null_count else texts
    if not len(present):
        return False
    _, ends, data = present.buffers()
    offsets = np.frombuffer(ends, np.int32)[present.offset :][: len(present) + 1]
    sizes = np.diff(offsets)
    size = int(sizes[0])
    if size not in COMMON_LENGTHS or (sizes != size).any():
        return False
    letters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, size)
    return bool((letters[:, 10] == ord("T")).all() and (letters[:, -1] == ord("Z")).all())


def _parse_each(texts: pa.Array, rule: Callable[[str], int | None]) -> pa.Array:
    """Parse each distinct string by `rule` to a UTC timestamp; null where the rule returns None."""
    distinct = texts.dictionary_encode()
    micros = [rule(text) for text in distinct.dictionary.to_pylist()]
    return pa.array(micros, pa.int64()).take(distinct.indices).cast(MICROS)


def are_all_times(texts: pa.Array) -> bool:
    """Whether there are strings and all are timestamps; nulls are ignored."""
    if texts.null_count == len(texts):
        return False
    first = texts[0].as_py()
    if timestamp(texts.drop_null()[0].as_py() if first is None else first) is None:
        return False
    return bool(parse_times(texts).null_count == texts.null_count)


def as_micros(times: pa.Array) -> np.ndarray:
    """Return a column of microsecond timestamps without nulls as integers since 1970.

    Other units are not converted.
    """
    return np.asarray(times.view(pa.int64()).to_numpy(zero_copy_only=False))
