"""Strings to timestamps, a column at a time; what Arrow reads differently goes value by value."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.model.types import timestamp

MICROS = pa.timestamp("us", tz="UTC")

COMMON = (20, 24, 27)
"""Characters of `2026-11-01T07:00:00.000Z`, and of that without a fraction or with six digits."""
_YEAR_1000 = pa.scalar(-30_610_224_000_000_000, pa.int64()).cast(MICROS)


def parse_times(texts: pa.Array, rule: Callable[[str], int | None] = timestamp) -> pa.Array:
    """The moments that strings name by `rule`; null for the others."""
    if _all_common(texts):
        try:
            times = texts.cast(MICROS)
        except pa.ArrowInvalid:
            return _one_by_one(texts, rule)  # a date that does not exist
        if pc.all(pc.greater_equal(times, _YEAR_1000)).as_py() is not False:
            return times
    return _one_by_one(texts, rule)


def _all_common(texts: pa.Array) -> bool:
    """Whether Arrow's parser, which takes other forms too, can only read these as we would."""
    there = texts.drop_null() if texts.null_count else texts
    if not len(there):
        return False
    _, ends, data = there.buffers()
    offsets = np.frombuffer(ends, np.int32)[there.offset :][: len(there) + 1]
    sizes = np.diff(offsets)
    size = int(sizes[0])
    if size not in COMMON or (sizes != size).any():
        return False
    letters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, size)
    return bool((letters[:, 10] == ord("T")).all() and (letters[:, -1] == ord("Z")).all())


def _one_by_one(texts: pa.Array, rule: Callable[[str], int | None]) -> pa.Array:
    distinct = texts.dictionary_encode()
    moments = [rule(text) for text in distinct.dictionary.to_pylist()]
    return pa.array(moments, pa.int64()).take(distinct.indices).cast(MICROS)


def all_times(texts: pa.Array) -> bool:
    """Whether every string names a moment; the first is looked at before all are."""
    if texts.null_count == len(texts):
        return False
    first = texts[0].as_py()
    if timestamp(texts.drop_null()[0].as_py() if first is None else first) is None:
        return False
    return bool(parse_times(texts).null_count == texts.null_count)


def as_micros(times: pa.Array) -> np.ndarray:
    """Microseconds since 1970, of times that are all there."""
    return np.asarray(times.view(pa.int64()).to_numpy(zero_copy_only=False))
