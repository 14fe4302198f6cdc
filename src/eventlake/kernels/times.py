"""Strings to timestamps, a column at a time; what Arrow reads differently goes value by value."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.model.types import timestamp

MICROS = pa.timestamp("us", tz="UTC")

# Arrow's parser agrees with ours on this form alone (it takes hours without minutes and the year
# 0000, and refuses a seventh digit or a missing zone).
_COMMON = r"^[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$"


def parse_times(texts: pa.Array, rule: Callable[[str], int | None] = timestamp) -> pa.Array:
    """The moments that strings name by `rule`; null for the others."""
    if pc.all(pc.match_substring_regex(texts, _COMMON)).as_py() is not False:
        try:
            return texts.cast(MICROS)
        except pa.ArrowInvalid:
            pass  # a date that does not exist
    return _one_by_one(texts, rule)


def _one_by_one(texts: pa.Array, rule: Callable[[str], int | None]) -> pa.Array:
    distinct = texts.dictionary_encode()
    moments = [rule(text) for text in distinct.dictionary.to_pylist()]
    return pa.array(moments, pa.int64()).take(distinct.indices).cast(MICROS)


def all_times(texts: pa.Array) -> bool:
    """Whether every string names a moment; looks at the first before it looks at all."""
    first = pc.index(texts.is_valid(), True).as_py()
    if first < 0 or timestamp(texts[first].as_py()) is None:
        return False
    return bool(parse_times(texts).null_count == texts.null_count)


def as_micros(times: pa.Array) -> np.ndarray:
    """Microseconds since 1970, of times that are all there."""
    return np.asarray(times.cast(pa.int64()).to_numpy(zero_copy_only=False))
