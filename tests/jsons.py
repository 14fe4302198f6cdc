"""Strategies for JSON text in every spelling that a sender may choose."""

import json

from hypothesis import strategies as st

INTEGERS = st.one_of(
    st.sampled_from(["0", "-0", "1", "-1", "9223372036854775807", "9223372036854775808"]),
    st.sampled_from(["-9223372036854775808", "-9223372036854775809", "18446744073709551616"]),
    st.integers(-(10**22), 10**22).map(str),
)
FRACTIONS = st.one_of(
    st.sampled_from(["1.0", "-0.0", "1e3", "1E-3", "0.1", "1.10", "1e400", "0e400", "1e-400"]),
    st.builds("{}.{:06}".format, st.integers(-(10**12), 10**12), st.integers(0, 999999)),
    st.builds("{}e{:+}".format, st.integers(-999, 999), st.integers(-25, 25)),
)
NUMBERS = INTEGERS | FRACTIONS
TEXTS = st.one_of(
    st.sampled_from(["", "5", "1.5", "true", "null", "é", "😀", "a/b", '"', "\\", "\u2028", "[1]"]),
    st.text(st.characters(codec="utf-8"), max_size=6),
)
STRINGS = st.builds(lambda text, pure: json.dumps(text, ensure_ascii=pure), TEXTS, st.booleans())
ESCAPED = st.sampled_from([r'"\/"', r'"\u0041"', r'"\ud83d\ude00"', r'"\b\f\n\r\t"', r'"\u001F"'])
SCALARS = st.one_of(NUMBERS, STRINGS, ESCAPED, st.sampled_from(["true", "false", "null"]))
GAPS = st.sampled_from(["", "", "", " ", "\t", "\r", "  "])


def _joined(open_close: str, items: list[str], gap: str) -> str:
    return open_close[0] + gap + f"{gap},{gap}".join(items) + gap + open_close[1]


def _arrays(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(_joined, st.just("[]"), st.lists(items, max_size=4), GAPS)


def _objects(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    # Few keys, so that one now and then stands twice.
    keys = st.sampled_from(['"a"', '"b"', '"c d"', '"é"', r'"\u0061"', '""'])
    pairs = st.builds("{}:{}".format, keys, items)
    return st.builds(_joined, st.just("{}"), st.lists(pairs, max_size=4), GAPS)


VALUES = st.recursive(SCALARS, lambda below: _arrays(below) | _objects(below), max_leaves=6)
ARRAYS = _arrays(VALUES)
OBJECTS = _objects(VALUES)
