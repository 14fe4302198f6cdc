"""Columns of strings to moments: as the scalar rule says, whichever way Arrow would read them."""

from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.times import COMMON_LENGTHS, MICROS, are_all_times, as_micros, parse_times
from eventlake.model.types import timestamp, timestamp_like
from tests import adversary

TWO = st.integers(0, 61).map("{:02}".format)
FORMED = st.builds(
    "{}-{}-{}T{}:{}:{}{}Z".format,
    st.integers(1000, 2999),
    st.integers(0, 13).map("{:02}".format),
    st.integers(0, 32).map("{:02}".format),
    st.integers(0, 24).map("{:02}".format),
    TWO,
    TWO,
    st.sampled_from(["", ".5", ".123", ".123456", ".000001"]),
)
"""Of the form that Arrow reads itself, real or not."""
REAL = st.datetimes(
    min_value=datetime(1000, 1, 1),
    max_value=datetime(2999, 12, 31),
).map(lambda at: at.isoformat() + "Z")
OTHERS = st.sampled_from(
    adversary.STAMPS + adversary.CAST_ONLY_STAMPS + adversary.FALSE_STAMPS + adversary.TEXTS
)


def moments(array: pa.Array) -> list[int | None]:
    return array.cast(pa.int64()).to_pylist()


@pytest.mark.parametrize(
    "strings", [REAL, FORMED, REAL | FORMED | OTHERS], ids=["real", "form", "mix"]
)
def test_a_column_is_read_as_its_values_are(strings: st.SearchStrategy[str]) -> None:
    @given(st.lists(strings | st.none(), max_size=12))
    def compare(texts: list[str | None]) -> None:
        for rule in (timestamp, timestamp_like):
            found = parse_times(pa.array(texts, pa.string()), rule)
            assert found.type == MICROS
            assert moments(found) == [None if text is None else rule(text) for text in texts]

    compare()


def test_each_alone() -> None:
    for text in adversary.STAMPS + adversary.CAST_ONLY_STAMPS + adversary.FALSE_STAMPS:
        array = pa.array([text])
        assert moments(parse_times(array)) == [timestamp(text)], text
        assert moments(parse_times(array, timestamp_like)) == [timestamp_like(text)], text
        assert are_all_times(array) is (timestamp(text) is not None), text


DATES = ("2026-11-01", "20261101", "2026-11-1", "0000-11-01", "0999-12-31", "1000-01-01")
TIMES = ("07", "0730", "07:30", "073000", "07:30:00", "24:00:00", "07:30:60", "7:30:00")
FRACTIONS = ("", ".", ".5", ".12", ".123", ",123", ".1234", ".12345", ".123456", ".1234567")
ZONES = ("", "Z", "z", "+00", "-08", "+0530", "+05:30", "+00Z", "+0000Z", "-00:00Z", " Z", "ZZ")


def test_every_form_that_arrow_might_take() -> None:
    """Each in a column of its own, so that no neighbour sends it the slow way."""
    forms = (f"{d}T{t}{f}{z}" for d in DATES for t in TIMES for f in FRACTIONS for z in ZONES)
    for text in (form for form in forms if len(form) in COMMON_LENGTHS):
        assert moments(parse_times(pa.array([text]))) == [timestamp(text)], text


@pytest.mark.parametrize(
    "right", ["2026-11-01T07:30:00Z", "2026-11-01T07:30:00.123Z", "2026-11-01T07:30:00.123456Z"]
)
def test_one_wrong_letter(right: str) -> None:
    for at in range(len(right)):
        for letter in "0 9-:.TZ+\n":
            text = right[:at] + letter + right[at + 1 :]
            assert moments(parse_times(pa.array([text]))) == [timestamp(text)], text


@pytest.mark.parametrize(
    ("texts", "all_are"),
    [
        (["2026-11-01T07:30:00Z", "2026-11-01T07:30:00"], True),
        ([None, "2026-11-01T07:30:00Z", None], True),
        (["2026-11-01T07:30:00Z", "soon"], False),
        (["2026-11-01T07:30:00Z", "2026-02-30T00:00:00Z"], False),
        (["2026-11-01T07:30:00Z", "2026-11-01"], False),
        (["soon", "2026-11-01T07:30:00Z"], False),
        ([None, ""], False),
        ([None], False),
        ([], False),
    ],
)
def test_whether_all_are_moments(texts: list[str | None], all_are: bool) -> None:
    assert are_all_times(pa.array(texts, pa.string())) is all_are


def test_microseconds() -> None:
    array = parse_times(pa.array(["1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"]))
    assert as_micros(array).tolist() == [1, -1]


def test_a_part_of_a_column() -> None:
    texts = pa.array(["x", "2026-11-01T07:00:00Z", None, "2026-11-01T08:00:00Z", "y"])
    assert parse_times(texts[1:4]).equals(parse_times(pa.array(texts[1:4].to_pylist())))
    assert parse_times(texts[1:4]).null_count == 1
    assert parse_times(texts[2:3]).null_count == 1
    assert len(parse_times(texts[:0])) == 0
