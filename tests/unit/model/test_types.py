"""The five types: what is observed, how types join, what casts to what (the contract)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.model.types import (
    MAX_PLAIN_DIGITS,
    MISFIT,
    Cast,
    Json,
    NumberText,
    Type,
    cast,
    join,
    number,
    observe,
    plain,
    round_decimal,
    timestamp,
    timestamp_like,
)

BOOLEAN, BIGINT, DECIMAL = Type.BOOLEAN, Type.BIGINT, Type.DECIMAL
STRING, TIMESTAMP = Type.STRING, Type.TIMESTAMP
TYPES = st.sampled_from(Type)

LARGEST = "9" * 32 + ".999999"
"""The largest that decimal(38,6) holds."""


# The join


@given(TYPES, TYPES, TYPES)
def test_the_join_is_commutative_associative_and_idempotent(a: Type, b: Type, c: Type) -> None:
    assert join(a, b) is join(b, a)
    assert join(join(a, b), c) is join(a, join(b, c))
    assert join(a, a) is a
    assert join(a, STRING) is STRING


@pytest.mark.parametrize(("one", "other"), [*product(Type, Type)])
def test_the_join_of_two(one: Type, other: Type) -> None:
    numbers = {BIGINT, DECIMAL}
    expected = one if one is other else DECIMAL if {one, other} == numbers else STRING
    assert join(one, other) is expected


@given(st.lists(TYPES, min_size=1, max_size=4))
def test_the_order_of_values_does_not_matter(seen: list[Type]) -> None:
    assert len({reduce(join, order) for order in permutations(seen)}) == 1


# What is observed


@pytest.mark.parametrize(
    ("value", "observed"),
    [
        (True, BOOLEAN),
        (False, BOOLEAN),
        (NumberText("0"), BIGINT),
        (NumberText("-0"), BIGINT),
        (NumberText("9223372036854775807"), BIGINT),
        (NumberText("-9223372036854775808"), BIGINT),
        (NumberText("9223372036854775808"), DECIMAL),
        (NumberText("-9223372036854775809"), DECIMAL),
        (NumberText("1.0"), DECIMAL),
        (NumberText("1e3"), DECIMAL),
        (NumberText("1E0"), DECIMAL),
        (NumberText("-0.0"), DECIMAL),
        (NumberText("0e999999999999999999999"), DECIMAL),
        (NumberText("1e-999999999999999999999"), DECIMAL),
        (NumberText("9" * 32), DECIMAL),
        (NumberText("9" * 32 + ".9999995"), DECIMAL),
        (NumberText("-" + "9" * 32), DECIMAL),
        (NumberText("1" + "0" * 32), STRING),
        (NumberText("-1e32"), STRING),
        (NumberText("1e400"), STRING),
        (NumberText("-1e999999999999999999999"), STRING),
        ("2026-11-01T07:30:00Z", TIMESTAMP),
        ("2026-11-01T07:30:00", TIMESTAMP),
        ("2026-11-01T07:30:00.123456789+05:30", TIMESTAMP),
        ("2026-11-01", STRING),
        ("2026-11-01 07:30:00", STRING),
        ("2026-02-29T00:00:00Z", STRING),
        ("", STRING),
        ("5", STRING),
        ("true", STRING),
        ([], STRING),
        ([True], STRING),
        ([NumberText("1")], STRING),
    ],
)
def test_what_a_value_is_observed_as(value: Json, observed: Type) -> None:
    assert observe(value) is observed


# The cast table, cell by cell: each value with what it is in each type


def at(text: str) -> int:
    """Microseconds since 1970, reckoned by the standard library alone."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def dec(text: str) -> Cast:
    return Cast(Decimal(text), False)


def kept(value: str | int | bool) -> Cast:
    return Cast(value, False)


N, P = MISFIT, NumberText
TO = (STRING, DECIMAL, BIGINT, BOOLEAN, TIMESTAMP)
TABLE: list[tuple[Json, Cast, Cast, Cast, Cast, Cast]] = [
    # value, to string, to decimal, to bigint, to boolean, to timestamp
    (True, kept("true"), N, N, kept(True), N),
    (False, kept("false"), N, N, kept(False), N),
    (P("1"), kept("1"), dec("1"), kept(1), kept(True), N),
    (P("0"), kept("0"), dec("0"), kept(0), kept(False), N),
    (P("-0"), kept("0"), dec("0"), kept(0), kept(False), N),
    (P("-0.0"), kept("0"), dec("0"), kept(0), kept(False), N),
    (P("1.0"), kept("1"), dec("1"), kept(1), kept(True), N),
    (P("10e-1"), kept("1"), dec("1"), kept(1), kept(True), N),
    (P("0.00e9"), kept("0"), dec("0"), kept(0), kept(False), N),
    (P("2"), kept("2"), dec("2"), kept(2), N, N),
    (P("-1"), kept("-1"), dec("-1"), kept(-1), N, N),
    (P("1.10"), kept("1.1"), dec("1.1"), Cast(1, True), N, N),
    (P("-5.7"), kept("-5.7"), dec("-5.7"), Cast(-5, True), N, N),
    (P("0.5"), kept("0.5"), dec("0.5"), Cast(0, True), N, N),
    (P("1e3"), kept("1000"), dec("1000"), kept(1000), N, N),
    (P("1.5E+3"), kept("1500"), dec("1500"), kept(1500), N, N),
    (P("0.0000005"), kept("0.0000005"), dec("0.000001"), Cast(0, True), N, N),
    (P("-0.0000005"), kept("-0.0000005"), dec("-0.000001"), Cast(0, True), N, N),
    (P("5e-8"), kept("0.00000005"), dec("0"), Cast(0, True), N, N),
    (P("2.5000005"), kept("2.5000005"), dec("2.500001"), Cast(2, True), N, N),
    (P("1" + "0" * 31), kept("1" + "0" * 31), dec("1e31"), N, N, N),
    (P("1e32"), kept("1" + "0" * 32), N, N, N, N),
    (P(LARGEST), kept(LARGEST), dec(LARGEST), N, N, N),
    (P(LARGEST + "4"), kept(LARGEST + "4"), dec(LARGEST), N, N, N),
    (P(LARGEST + "5"), kept(LARGEST + "5"), N, N, N, N),
    (P("1e400"), kept("1" + "0" * 400), N, N, N, N),
    (
        P("9223372036854775807"),
        kept("9223372036854775807"),
        dec("9223372036854775807"),
        kept(2**63 - 1),
        N,
        N,
    ),
    (P("9223372036854775808"), kept("9223372036854775808"), dec("9223372036854775808"), N, N, N),
    (
        P("9223372036854775807.9"),
        kept("9223372036854775807.9"),
        dec("9223372036854775807.9"),
        Cast(2**63 - 1, True),
        N,
        N,
    ),
    (
        P("-9223372036854775808.9"),
        kept("-9223372036854775808.9"),
        dec("-9223372036854775808.9"),
        Cast(-(2**63), True),
        N,
        N,
    ),
    (P("-9223372036854775809"), kept("-9223372036854775809"), dec("-9223372036854775809"), N, N, N),
    ("1", kept("1"), dec("1"), kept(1), N, N),
    ("+007", kept("+007"), dec("7"), kept(7), N, N),
    ("-5", kept("-5"), dec("-5"), kept(-5), N, N),
    ("-1.10", kept("-1.10"), dec("-1.1"), N, N, N),
    ("5.0", kept("5.0"), dec("5"), N, N, N),
    ("0.1234565", kept("0.1234565"), dec("0.123457"), N, N, N),
    (
        "9223372036854775807",
        kept("9223372036854775807"),
        dec(str(2**63 - 1)),
        kept(2**63 - 1),
        N,
        N,
    ),
    ("9223372036854775808", kept("9223372036854775808"), dec(str(2**63)), N, N, N),
    ("1" + "0" * 32, kept("1" + "0" * 32), N, N, N, N),
    (LARGEST + "5", kept(LARGEST + "5"), N, N, N, N),
    ("1e3", kept("1e3"), N, N, N, N),
    ("1.", kept("1."), N, N, N, N),
    (".5", kept(".5"), N, N, N, N),
    (" 5", kept(" 5"), N, N, N, N),
    ("5\n", kept("5\n"), N, N, N, N),
    ("1_000", kept("1_000"), N, N, N, N),
    ("٣", kept("٣"), N, N, N, N),
    ("NaN", kept("NaN"), N, N, N, N),
    ("Infinity", kept("Infinity"), N, N, N, N),
    ("", kept(""), N, N, N, N),
    ("true", kept("true"), N, N, kept(True), N),
    ("fAlSe", kept("fAlSe"), N, N, kept(False), N),
    (" true", kept(" true"), N, N, N, N),
    ("true\n", kept("true\n"), N, N, N, N),
    ("fal\u017fe", kept("fal\u017fe"), N, N, N, N),
    ("yes", kept("yes"), N, N, N, N),
    (
        "2026-11-01T07:30:00Z",
        kept("2026-11-01T07:30:00Z"),
        N,
        N,
        N,
        kept(at("2026-11-01T07:30:00")),
    ),
    ("2026-11-01", kept("2026-11-01"), N, N, N, kept(at("2026-11-01"))),
    (
        "2026-11-01 07:30:00.5",
        kept("2026-11-01 07:30:00.5"),
        N,
        N,
        N,
        kept(at("2026-11-01T07:30:00.5")),
    ),
    ("2026-02-30", kept("2026-02-30"), N, N, N, N),
    ("2026-11-01 ", kept("2026-11-01 "), N, N, N, N),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{type(row[0]).__name__}-{row[0]!a:.24}")
def test_a_row_of_the_cast_table(row: tuple[Json, Cast, Cast, Cast, Cast, Cast]) -> None:
    value, *expected = row
    results = [cast(value, to) for to in TO]
    assert dict(zip(TO, results, strict=True)) == dict(zip(TO, expected, strict=True))
    for result, right in zip(results, expected, strict=True):
        assert type(result.value) is type(right.value)


@pytest.mark.parametrize("to", [DECIMAL, BIGINT, BOOLEAN, TIMESTAMP])
@pytest.mark.parametrize("array", [[], [NumberText("1")], ["2026-11-01"], [True]])
def test_an_array_fits_a_string_alone(array: Json, to: Type) -> None:
    assert cast(array, to) == MISFIT


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_are_exact_in_every_type_that_takes_them(value: int) -> None:
    sent = NumberText(str(value))
    assert cast(sent, BIGINT) == (value, False)
    assert cast(sent, DECIMAL) == (Decimal(value), False)
    assert cast(sent, STRING) == (str(value), False)


NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**33).map(str),
    st.one_of(st.just(""), st.integers(0, 10**12).map(".{}".format)),
    st.one_of(st.just(""), st.integers(-45, 40).map("e{}".format)),
).map(NumberText)


def rounded(text: str) -> int:
    """The number in millionths, half away from zero, by integers alone."""
    mantissa, _, power = text.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    shift = int(power or 0) - len(fraction) + 6
    digits = int(whole + fraction)
    size = digits * 10**shift if shift >= 0 else (2 * digits + 10**-shift) // (2 * 10**-shift)
    return -size if text.startswith("-") else size


@given(NUMBERS)
def test_decimals_round_half_away_from_zero(sent: NumberText) -> None:
    value, rescue = cast(sent, DECIMAL)
    if abs(rounded(sent)) < 10**38 and Decimal(sent).copy_abs() < Decimal(10) ** 32:
        whole, _, fraction = f"{value:f}".partition(".")
        assert (int(whole + fraction), len(fraction), rescue) == (rounded(sent), 6, False)
    else:
        assert (value, rescue) == MISFIT


@given(NUMBERS)
def test_a_number_as_a_string_is_the_same_number_in_its_shortest_form(sent: NumberText) -> None:
    text = plain(sent)
    assert Decimal(text) == Decimal(sent)
    assert plain(text) == text
    assert "e" not in text.lower()
    assert not (("." in text) and text.endswith(("0", ".")))
    assert text != "-0"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("1.10", "1.1"),
        ("1e3", "1000"),
        ("5.0", "5"),
        ("100", "100"),
        ("1E-3", "0.001"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("0e999999999999999999999", "0"),
        ("123456789012345678.123456", "123456789012345678.123456"),
        ("0." + "1234567890" * 4, "0." + "1234567890" * 3 + "123456789"),
        ("1e9999", "1" + "0" * 9999),
        ("1e-9998", "0." + "0" * 9997 + "1"),
        # A longer plain form than this is no use to anyone: the spelling stays.
        ("1e10000", "1e10000"),
        ("1e-9999", "1e-9999"),
        ("7" * (MAX_PLAIN_DIGITS + 1), "7" * (MAX_PLAIN_DIGITS + 1)),
        ("1e999999999999999999999", "1e999999999999999999999"),
        ("-1E-999999999999999999999", "-1E-999999999999999999999"),
    ],
)
def test_the_plain_form(sent: str, text: str) -> None:
    assert plain(sent) == text


def test_numbers_beyond_decimals_own_exponents_have_their_size() -> None:
    assert number("1e999999999999999999999") == Decimal("Infinity")
    assert number("-1e999999999999999999999") == Decimal("-Infinity")
    assert 0 < number("1e-999999999999999999999") < Decimal("1e-1000")
    assert -Decimal("1e-1000") < number("-1e-999999999999999999999") < 0
    assert number("-0.0e999999999999999999999") == 0
    assert round_decimal(number("1e-999999999999999999999")) == 0


# Timestamps


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("1970-01-01T00:00:00.5", 500_000),
        ("1970-01-01T05:30:00+05:30", 0),
        ("1970-01-01T05:30:00+0530", 0),
        ("1969-12-31T16:00:00-08:00", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1970-01-01T23:59:00+23:59", 0),
        ("2026-11-01T07:30:00Z", 1_793_518_200_000_000),
        ("2024-02-29T12:00:00Z", 1_709_208_000_000_000),
        ("2000-02-29T00:00:00Z", 951_782_400_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799_999_999),
        ("1582-10-10T00:00:00Z", -12_219_724_800_000_000),
    ],
)
def test_a_moment(text: str, micros: int) -> None:
    assert timestamp(text) == micros
    assert timestamp_like(text) == micros
    assert timestamp_like(text.replace("T", " ")) == micros
    assert timestamp(text.replace("T", " ")) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-01T24:00:00Z",
        "2026-11-01T07:60:00Z",
        "2026-11-01T07:30:60Z",
        "2026-11-01T07:30Z",
        "2026-11-01t07:30:00Z",
        "2026-11-01T07:30:00z",
        "2026-11-01T07:30:00.Z",
        "2026-11-01T07:30:00,5Z",
        "2026-11-01T07:30:00+05",
        "2026-11-01T07:30:00+24:00",
        "2026-11-01T07:30:00+05:60",
        "2026-11-01T07:30:00 Z",
        "2026-11-01T07:30:00Z\n",
        " 2026-11-01T07:30:00Z",
        "2026-1-1T07:30:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "20261101T073000Z",
        "\uff12026-11-01T07:30:00Z",
        "2026-11-01T",
        "2026-11-01T07:30:00\u221205:00",
    ],
)
def test_no_moment(text: str) -> None:
    assert timestamp(text) is None
    assert timestamp_like(text) is None


def test_a_date_alone_is_a_moment_for_a_cast_only() -> None:
    assert timestamp("1970-01-02") is None
    assert timestamp_like("1970-01-02") == 86_400_000_000
    assert timestamp_like("1970-01-02\n") is None


@given(st.datetimes(), st.integers(-1439, 1439), st.sampled_from(["T", " "]))
def test_a_moment_is_the_one_that_the_standard_library_names(
    local: datetime, minutes: int, between: str
) -> None:
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    text = f"{local.isoformat(between)}{sign}{size // 60:02}:{size % 60:02}"
    try:
        moment = (local - timedelta(minutes=minutes)).replace(tzinfo=UTC)
    except OverflowError:
        assert timestamp_like(text) is None
        return
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert timestamp_like(text) == micros
    assert timestamp(text) == (micros if between == "T" else None)
