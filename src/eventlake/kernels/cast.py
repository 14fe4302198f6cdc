"""Columns of JSON kinds into the five column types: the cast table, a column at a time.

The common pairs are Arrow's own kernels. Every other pair goes by the scalar rules of
`model.types`, once for each distinct value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.dense import EXACT, MONEY
from eventlake.kernels.jsontext import decode, encode
from eventlake.kernels.kinds import Kind
from eventlake.kernels.times import MICROS, all_times, parse_times
from eventlake.model import types
from eventlake.model.types import Cast, Type, timestamp_like

ARROW = {
    Type.BOOLEAN: pa.bool_(),
    Type.BIGINT: pa.int64(),
    Type.DECIMAL: MONEY,
    Type.STRING: pa.string(),
    Type.TIMESTAMP: MICROS,
}


class Column(NamedTuple):
    """Values in a column's type, and which of the originals must be rescued (None: not one)."""

    values: pa.Array
    rescue: pa.BooleanArray | None


def cast_column(kind: Kind, array: pa.Array, to: Type) -> Column:
    """A path's values in the type of their column."""
    direct = _DIRECT.get((kind, to))
    if direct:
        return Column(direct(array), None)
    if (kind, to) == (Kind.STRING, Type.TIMESTAMP):
        return _checked(array, parse_times(array, timestamp_like))
    if (kind, to) == (Kind.JSON, Type.STRING) and pc.all(pc.starts_with(array, "[")).as_py():
        return Column(array, None)  # arrays, whose text is what lands
    return _by_value(json_text(kind, array), to)


def json_text(kind: Kind, array: pa.Array) -> pa.StringArray:
    """The values as JSON text."""
    if kind is Kind.JSON:
        return array
    if kind is Kind.STRING:
        return _each(array, encode, pa.string())
    return _plain_numbers(array) if kind is Kind.NUMBER else array.cast(pa.string())


def _checked(before: pa.Array, after: pa.Array) -> Column:
    if after.null_count == before.null_count:
        return Column(after, None)
    return Column(after, pc.and_(before.is_valid(), after.is_null()))


def _plain_numbers(numbers: pa.Array) -> pa.StringArray:
    """Shortest decimal form, without the zeros that a fixed scale adds."""
    if numbers.type == EXACT:  # Arrow writes small ones with an exponent
        return _each(numbers, lambda number: types.plain(str(number)), pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(numbers.cast(pa.string()), "0"), ".")


def _round(numbers: pa.Array) -> pa.Array:
    return numbers if numbers.type == MONEY else _each(numbers, types.round_decimal, MONEY)


def _each(array: pa.Array, rule: Callable[[Any], Any], to: pa.DataType) -> pa.Array:
    """A rule applied once to every distinct value."""
    distinct = array.dictionary_encode()
    return pa.array(map(rule, distinct.dictionary.to_pylist()), to).take(distinct.indices)


def _same(array: pa.Array) -> pa.Array:
    return array


_DIRECT = {
    (Kind.INT, Type.BIGINT): _same,
    (Kind.INT, Type.DECIMAL): lambda array: array.cast(MONEY),
    (Kind.INT, Type.STRING): lambda array: array.cast(pa.string()),
    (Kind.NUMBER, Type.DECIMAL): _round,
    (Kind.NUMBER, Type.STRING): _plain_numbers,
    (Kind.BOOL, Type.BOOLEAN): _same,
    (Kind.BOOL, Type.STRING): lambda array: array.cast(pa.string()),
    (Kind.STRING, Type.STRING): _same,
    (Kind.TIME, Type.TIMESTAMP): _same,
}


def _by_value(texts: pa.StringArray, to: Type) -> Column:
    distinct = texts.dictionary_encode()
    casts = [cast_text(text, to) for text in distinct.dictionary.to_pylist()]
    values = _typed([cast.value for cast in casts], to).take(distinct.indices)
    rescue = pa.array([cast.rescue for cast in casts], pa.bool_())
    if not pc.any(rescue).as_py():
        return Column(values, None)
    return Column(values, rescue.take(distinct.indices).fill_null(False))


def _typed(values: list[types.Scalar], to: Type) -> pa.Array:
    if to is Type.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(MICROS)
    return pa.array(values, ARROW[to])


def cast_text(text: str, to: Type) -> Cast:
    """One value, given as JSON text, in a column's type."""
    if text.startswith("["):
        return Cast(text, False) if to is Type.STRING else types.MISFIT
    return types.cast(decode(text), to)


def observe_column(kind: Kind, array: pa.Array) -> Type:
    """The type that holds all the values of a path; there is at least one."""
    if kind is Kind.JSON:
        return _observe_texts(array)
    if kind is Kind.STRING:
        return Type.TIMESTAMP if all_times(array) else Type.STRING
    return _OBSERVED[kind]


_OBSERVED = {Kind.INT: Type.BIGINT, Kind.NUMBER: Type.DECIMAL, Kind.BOOL: Type.BOOLEAN}


def observe_text(text: str) -> Type:
    """The type that one value, given as JSON text, asks for."""
    return Type.STRING if text.startswith("[") else types.observe(decode(text))


def _observe_texts(texts: pa.StringArray) -> Type:
    found: Type | None = None
    for text in pc.unique(texts.drop_null()).to_pylist():
        one = observe_text(text)
        found = one if found is None else types.join(found, one)
        if found is Type.STRING:
            break
    return found or Type.STRING
