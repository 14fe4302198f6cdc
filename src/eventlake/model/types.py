"""The five column types: the type of a JSON value, the common type of two, and casts.

A value here is what `kernels.jsontext` decodes: str, `NumberText` (a number as it was
sent), bool, or a list. Timestamps are integers: microseconds since 1970 in UTC.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import NamedTuple


class Type(StrEnum):
    """The type of a column."""

    BOOLEAN = "boolean"
    BIGINT = "bigint"
    DECIMAL = "decimal(38,6)"
    STRING = "string"
    TIMESTAMP = "timestamp"


class NumberText(str):
    """A JSON number as it was sent, so that no digit is lost."""

    __slots__ = ()


Json = str | NumberText | bool | list["Json"] | dict[str, "Json"] | None
Scalar = str | int | bool | Decimal | None


class Cast(NamedTuple):
    """A value in its column's type, and whether to put the original into `_rescued_data`."""

    value: Scalar
    rescue: bool


MISFIT = Cast(None, True)

DECIMAL_BOUND = Decimal(10) ** 32
# Longer numbers, such as 1e999999999, are not expanded: one value could fill the memory.
MAX_PLAIN_DIGITS = 10_000

_MICRO = Decimal("0.000001")
_WIDE = Context(prec=80, rounding=ROUND_HALF_UP)
_NUMERIC = Type.BIGINT, Type.DECIMAL
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_INTEGER_TEXT = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL_TEXT = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_ZONE = r"(?P<zone>Z|[+-]\d{2}:?\d{2})?"
_DATE = r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d+))?"
_TIMESTAMP = re.compile(f"{_DATE}T{_TIME}{_ZONE}", re.ASCII)
_TIMESTAMP_LIKE = re.compile(f"{_DATE}(?:[T ]{_TIME}{_ZONE})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def join(one: Type, other: Type) -> Type:
    """The type that can hold values of both; commutative and associative."""
    if one is other:
        return one
    return Type.DECIMAL if one in _NUMERIC and other in _NUMERIC else Type.STRING


def observe(value: Json) -> Type:
    """The type of a single value."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, NumberText):
        return _observe_number(value)
    if isinstance(value, str):
        return Type.STRING if timestamp(value) is None else Type.TIMESTAMP
    return Type.STRING


def _observe_number(text: NumberText) -> Type:
    if _INTEGER.fullmatch(text) and fits_bigint(number(text)):
        return Type.BIGINT
    return Type.DECIMAL if number(text).copy_abs() < DECIMAL_BOUND else Type.STRING


def cast(value: Json, to: Type) -> Cast:
    """Convert a value to a column's type; a list is always a misfit here."""
    if isinstance(value, NumberText):
        return _FROM_NUMBER[to](value)
    if isinstance(value, bool):
        return _cast_boolean(value, to)
    return _FROM_STRING[to](value) if isinstance(value, str) else MISFIT


def _cast_boolean(value: bool, to: Type) -> Cast:
    if to is Type.BOOLEAN:
        return Cast(value, False)
    return Cast("true" if value else "false", False) if to is Type.STRING else MISFIT


def number(text: str) -> Decimal:
    """The exact value of a number's text."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return _out_of_range(text.lower())


def _out_of_range(text: str) -> Decimal:
    """Return 0, a tiny number or infinity for exponents that Decimal cannot hold."""
    mantissa, _, exponent = text.partition("e")
    if not mantissa.strip("-.0"):
        return Decimal(0)
    size = Decimal("1e-100000") if exponent.startswith("-") else Decimal("Infinity")
    return size.copy_negate() if mantissa.startswith("-") else size


def plain(text: str) -> str:
    """A number in shortest decimal form without exponent: `1.10` → `1.1`, `1e3` → `1000`."""
    value = number(text)
    if not value.is_finite() or abs(value.adjusted()) > MAX_PLAIN_DIGITS:
        return "0" if value == 0 else str(text)
    digits = format(value, "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    if len(digits) > MAX_PLAIN_DIGITS:
        return str(text)
    return "0" if digits == "-0" else digits


def round_decimal(value: Decimal) -> Decimal | None:
    """Rounded at the sixth digit, half away from zero; None where decimal(38,6) cannot hold it."""
    if value.copy_abs() >= DECIMAL_BOUND:
        return None
    rounded = value.quantize(_MICRO, context=_WIDE)
    return rounded if rounded.copy_abs() < DECIMAL_BOUND else None


def timestamp(text: str) -> int | None:
    """Parse an ISO 8601 timestamp with `T`; None for any other string."""
    match = _TIMESTAMP.fullmatch(text)
    return _moment(match) if match else None


def timestamp_like(text: str) -> int | None:
    """As `timestamp`, but a date alone and a space instead of `T` are accepted too."""
    match = _TIMESTAMP_LIKE.fullmatch(text)
    return _moment(match) if match else None


def _moment(match: re.Match[str]) -> int | None:
    part = match.groupdict(default="0")
    fields = (part[name] for name in ("year", "month", "day", "hour", "minute", "second"))
    micros = int(part["fraction"][:6].ljust(6, "0"))
    try:
        local = datetime(*map(int, fields), micros, tzinfo=UTC)  # type: ignore[misc, arg-type]
        return (local - _offset(match["zone"]) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta(0)
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"no such offset: {zone}")
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


def fits_bigint(value: Decimal | int) -> bool:
    return -(2**63) <= value < 2**63


def _number_to_bigint(text: str) -> Cast:
    value = number(text)
    if not -(2**63) - 1 < value < 2**63:
        return MISFIT
    whole = value.to_integral_value(ROUND_DOWN)
    return Cast(int(whole), rescue=whole != value)


def _number_to_boolean(text: str) -> Cast:
    value = number(text)
    return Cast(value == 1, False) if value in (0, 1) else MISFIT


def _to_decimal(text: str) -> Cast:
    value = round_decimal(number(text))
    return MISFIT if value is None else Cast(value, False)


def _string_to_decimal(text: str) -> Cast:
    return _to_decimal(text) if _DECIMAL_TEXT.fullmatch(text) else MISFIT


def _string_to_bigint(text: str) -> Cast:
    if not _INTEGER_TEXT.fullmatch(text) or not fits_bigint(number(text)):
        return MISFIT
    return Cast(int(number(text)), False)


def _string_to_boolean(text: str) -> Cast:
    lowered = text.lower()
    return Cast(lowered == "true", False) if lowered in ("true", "false") else MISFIT


def _string_to_timestamp(text: str) -> Cast:
    moment = timestamp_like(text)
    return MISFIT if moment is None else Cast(moment, False)


_FROM_NUMBER: dict[Type, Callable[[str], Cast]] = {
    Type.STRING: lambda text: Cast(plain(text), False),
    Type.DECIMAL: _to_decimal,
    Type.BIGINT: _number_to_bigint,
    Type.BOOLEAN: _number_to_boolean,
    Type.TIMESTAMP: lambda _: MISFIT,
}
_FROM_STRING: dict[Type, Callable[[str], Cast]] = {
    Type.STRING: lambda text: Cast(text, False),
    Type.DECIMAL: _string_to_decimal,
    Type.BIGINT: _string_to_bigint,
    Type.BOOLEAN: _string_to_boolean,
    Type.TIMESTAMP: _string_to_timestamp,
}
