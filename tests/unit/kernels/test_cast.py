"""Casts of whole columns: as the scalar rules say, value by value, for every kind and type."""

from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.arrow_reader import COLUMN_DECIMAL, EXACT_DECIMAL
from eventlake.kernels.cast import (
    ARROW_BY_TYPE,
    cast_column,
    json_text,
    observe_column,
    observe_text,
)
from eventlake.kernels.jsontext import decode, encode
from eventlake.kernels.kinds import PathKinds, ValueKind
from eventlake.kernels.parse import parse_lines
from eventlake.kernels.times import MICROS
from eventlake.model import types
from eventlake.model.types import Cast, Json, NumberText, Type
from tests import jsons

TEXTS = st.one_of(
    st.sampled_from(["", "5", "-5", "+007", "1.5", "-1.10", "true", "FALSE", " 5", "9" * 33]),
    st.sampled_from(["2026-11-01T07:30:00Z", "2026-11-01", "2026-11-01 07:30:00.5", "2026-02-30"]),
    st.sampled_from(["9223372036854775807", "9223372036854775808", "é", '"', "[1]", "0.1234565"]),
)
INTS = st.one_of(
    st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63)])
)


def decimals(digits: int) -> st.SearchStrategy[Decimal]:
    bound = 10**19 * 10**digits - 1
    small = st.sampled_from([0, 1, 5 * 10 ** (digits - 1), 10**digits, 2 * 10**digits])
    return (small | st.integers(-bound, bound)).map(lambda n: Decimal(n).scaleb(-digits, WIDE))


WIDE = types._WIDE
COLUMNS: dict[str, tuple[ValueKind, pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (ValueKind.INT, pa.int64(), INTS),
    "money": (ValueKind.NUMBER, COLUMN_DECIMAL, decimals(6)),
    "exact": (ValueKind.NUMBER, EXACT_DECIMAL, decimals(18)),
    "bool": (ValueKind.BOOL, pa.bool_(), st.booleans()),
    "string": (ValueKind.STRING, pa.string(), TEXTS),
    "json": (
        ValueKind.JSON,
        pa.string(),
        (jsons.SCALARS | jsons.ARRAYS).map(lambda t: encode(decode(t))),
    ),
}


def as_json(kind: ValueKind, value: Any) -> Json:
    """A value of a column as it was sent."""
    if kind is ValueKind.INT:
        return NumberText(value)
    if kind is ValueKind.NUMBER:
        return NumberText(f"{value:f}")
    return decode(value) if kind is ValueKind.JSON else value


def scalar(kind: ValueKind, value: Any, to: Type) -> Cast:
    if value is None or (kind is ValueKind.JSON and value == "null"):
        return Cast(None, False)
    sent = as_json(kind, value)
    if isinstance(sent, list) and to is Type.STRING:
        return Cast(encode(sent), False)
    return types.cast(sent, to)


def plain_values(array: pa.Array) -> list[Any]:
    return (array.cast(pa.int64()) if array.type == MICROS else array).to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_cast_and_observed_as_its_values_are(name: str) -> None:
    kind, arrow, values = COLUMNS[name]

    @given(st.lists(values | st.none(), min_size=1, max_size=12))
    def compare(column: list[Any]) -> None:
        column = [None if value == "null" and kind is ValueKind.JSON else value for value in column]
        array = pa.array(column, arrow)
        for to in Type:
            compare_cast(kind, array, to)
        if array.null_count < len(array):
            compare_observed(kind, array)

    compare()


def compare_cast(kind: ValueKind, column: pa.Array, to: Type) -> None:
    expected = [scalar(kind, value, to) for value in column.to_pylist()]
    array, rescue = cast_column(kind, column, to)
    assert array.type == ARROW_BY_TYPE[to]
    assert plain_values(array) == [cast.value for cast in expected]
    flags = [False] * len(column) if rescue is None else rescue.to_pylist()
    assert flags == [cast.rescue for cast in expected]
    assert (rescue is None) == (not any(flags))


def compare_observed(kind: ValueKind, column: pa.Array) -> None:
    values = [as_json(kind, value) for value in column.to_pylist() if value is not None]
    observed = {types.observe(value) for value in values}
    # A decimal array does not show which numbers were sent without a fraction.
    observed = {Type.DECIMAL} if kind is ValueKind.NUMBER else observed
    assert observe_column(kind, column) is reduce(types.join, observed)


def test_moments_stay_moments() -> None:
    moments = pa.array([0, None, 5], pa.int64()).cast(MICROS)
    assert cast_column(ValueKind.TIME, moments, Type.TIMESTAMP) == (moments, None)


@pytest.mark.parametrize(
    ("kind", "array", "texts"),
    [
        (ValueKind.INT, pa.array([5, None, -1]), ["5", None, "-1"]),
        (ValueKind.BOOL, pa.array([True, None, False]), ["true", None, "false"]),
        (ValueKind.STRING, pa.array(['a"é', None]), ['"a\\"é"', None]),
        (
            ValueKind.NUMBER,
            pa.array([Decimal("1.500000"), Decimal("100")], COLUMN_DECIMAL),
            ["1.5", "100"],
        ),
        (
            ValueKind.NUMBER,
            pa.array([Decimal("1E-18"), Decimal(0)], EXACT_DECIMAL),
            ["0." + "0" * 17 + "1", "0"],
        ),
        (
            ValueKind.NUMBER,
            pa.array([Decimal("0.000001"), Decimal(-1)], COLUMN_DECIMAL),
            ["0.000001", "-1"],
        ),
        (ValueKind.JSON, pa.array(["[1.0]", None]), ["[1.0]", None]),
    ],
)
def test_values_as_json_text(kind: ValueKind, array: pa.Array, texts: list[str | None]) -> None:
    assert json_text(kind, array).to_pylist() == texts


@pytest.mark.parametrize(
    ("text", "observed"),
    [
        ("[1]", Type.STRING),
        ("5", Type.BIGINT),
        ("5.0", Type.DECIMAL),
        ("1e32", Type.STRING),
        ('"2026-11-01T07:30:00Z"', Type.TIMESTAMP),
        ("true", Type.BOOLEAN),
    ],
)
def test_one_text_observed(text: str, observed: Type) -> None:
    assert observe_text(text) is observed


# Arithmetic: Arrow's own was found wrong for some decimals, so every digit is checked by integers


def sizes() -> list[int]:
    """Integers around the powers of two and ten, up to 10^19."""
    powers = [2**n for n in range(64)] + [10**n for n in range(20)]
    neighbours = {power + shift for power in powers for shift in (-2, -1, 0, 1, 2)}
    return sorted(size for size in neighbours if 0 <= size < 10**19 - 10**4)


FINE = (
    "0", "5", "25", "000001", "999999", "499999", "500000", "123456", "100000", "0000005",
    "0000004", "9999994", "9999995", "1234565", "00000049999999999", "000000500000000001",
    "123456789012345678", "999999999999999999", "000000000000000001", "500000000000000000",
)  # fmt: skip
COARSE = tuple(fraction for fraction in FINE if len(fraction) <= 6)
PATTERNS = {
    "coarse": [f"{sign}{size}.{part}" for size in sizes() for part in COARSE for sign in ("", "-")],
    "fine": [f"{sign}{size}.{part}" for size in sizes() for part in FINE for sign in ("", "-")],
}


def millionths(text: str) -> int:
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = int(whole + fraction[:6].ljust(6, "0")) + (fraction[6:7] >= "5")
    return -digits if text.startswith("-") else digits


@pytest.mark.parametrize("name", PATTERNS)
def test_decimals_are_exact_from_the_line_to_the_column(name: str) -> None:
    patterns = PATTERNS[name]
    parsed = parse_lines([b'{"p":%s}' % text.encode() for text in patterns], PathKinds())
    kind, array = parsed.dense["p",]
    assert kind is ValueKind.NUMBER
    assert array.type == (COLUMN_DECIMAL if name == "coarse" else EXACT_DECIMAL)
    values, rescue = cast_column(kind, array, Type.DECIMAL)
    assert rescue is None
    raw = values.view(pa.decimal128(38, 0)).to_pylist()
    assert [int(value) for value in raw] == [millionths(text) for text in patterns]


def test_a_decimal_that_is_rounded_to_one_more_digit() -> None:
    column = pa.array([Decimal("99999999999999999999.9999995")], EXACT_DECIMAL)
    rounded = cast_column(ValueKind.NUMBER, column, Type.DECIMAL).values
    assert rounded.to_pylist() == [Decimal(10) ** 20]


def test_numbers_are_exact_as_strings() -> None:
    patterns = PATTERNS["coarse"][::7]
    parsed = parse_lines([b'{"p":%s}' % text.encode() for text in patterns], PathKinds())
    values, _ = cast_column(*parsed.dense["p",], Type.STRING)
    assert values.to_pylist() == [types.plain(text) for text in patterns]


def test_there_are_enough_patterns() -> None:
    assert sum(map(len, PATTERNS.values())) > 20_000
