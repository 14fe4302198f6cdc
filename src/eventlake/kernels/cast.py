"""Cast a path's values to the type of their column, and find the type that fits a path's values.

The rules are those of `model.types`, which casts and observes one value; here they are applied to
whole columns. `_ARROW_CASTS` has the pairs of kind and type that Arrow casts by the same rule. For
all others the values become JSON text, each distinct text is cast once by the scalar rule, and the
results are spread over the rows. A cast gives the values, and a mask of those that were changed or
dropped, whose originals must be rescued.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.arrow_reader import COLUMN_DECIMAL, EXACT_DECIMAL
from eventlake.kernels.jsontext import decode, encode
from eventlake.kernels.kinds import ValueKind
from eventlake.kernels.times import MICROS, are_all_times, parse_times
from eventlake.model import types
from eventlake.model.types import Cast, Type, timestamp_like

ARROW_BY_TYPE = {
    Type.BOOLEAN: pa.bool_(),
    Type.BIGINT: pa.int64(),
    Type.DECIMAL: COLUMN_DECIMAL,
    Type.STRING: pa.string(),
    Type.TIMESTAMP: MICROS,
}


class CastResult(NamedTuple):
    """Values in a column's type, and a mask of the originals to rescue (None if there are none)."""

    values: pa.Array
    rescue: pa.BooleanArray | None


def cast_column(kind: ValueKind, array: pa.Array, to: Type) -> CastResult:
    """Cast a path's values to the type of their column; null where a value does not fit.

    The mask of the result has the values that became null or lost something, such as the fraction
    of 1.5 in a bigint column. Rounding to six decimal places is not a loss.
    """
    arrow_cast = _ARROW_CASTS.get((kind, to))
    if arrow_cast:
        return CastResult(arrow_cast(array), None)
    if (kind, to) == (ValueKind.STRING, Type.TIMESTAMP):
        return _rescue_new_nulls(array, parse_times(array, timestamp_like))
    if (kind, to) == (ValueKind.JSON, Type.STRING) and pc.all(pc.starts_with(array, "[")).as_py():
        return CastResult(array, None)  # a string column holds the JSON text of arrays
    return _cast_distinct(json_text(kind, array), to)


def json_text(kind: ValueKind, array: pa.Array) -> pa.StringArray:
    """Return a path's values as JSON text, one for each row; null stays null.

    Not for the kinds TIME and STRINGS.
    """
    if kind is ValueKind.JSON:
        return array
    if kind is ValueKind.STRING:
        return _map_distinct(array, encode, pa.string())
    return _format_decimals(array) if kind is ValueKind.NUMBER else array.cast(pa.string())


def _rescue_new_nulls(before: pa.Array, after: pa.Array) -> CastResult:
    """Return the cast values, `after`, with a mask of those that the cast made null."""
    if after.null_count == before.null_count:
        return CastResult(after, None)
    return CastResult(after, pc.and_(before.is_valid(), after.is_null()))


def _format_decimals(numbers: pa.Array) -> pa.StringArray:
    """Format decimals as text without trailing zeros or exponent; null stays null."""
    if numbers.type == EXACT_DECIMAL:  # Arrow formats small ones with an exponent
        return _map_distinct(numbers, lambda number: types.plain(str(number)), pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(numbers.cast(pa.string()), "0"), ".")


_WIDE_DECIMAL = pa.decimal256(40, 18)


def _round_decimals(numbers: pa.Array) -> pa.Array:
    """Round to the column type decimal(38,6), half away from zero; it holds all exact decimals."""
    if numbers.type == COLUMN_DECIMAL:
        return numbers
    wide = numbers.cast(_WIDE_DECIMAL)  # 99999999999999999999.9999999 gets one more digit
    return pc.round(wide, 6, "half_towards_infinity").cast(COLUMN_DECIMAL)


def _map_distinct(array: pa.Array, rule: Callable[[Any], Any], to: pa.DataType) -> pa.Array:
    """Return an array of type `to` with the rule applied to each value; null stays null.

    The rule is called once for each distinct value.
    """
    distinct = array.dictionary_encode()
    return pa.array(map(rule, distinct.dictionary.to_pylist()), to).take(distinct.indices)


def _keep(array: pa.Array) -> pa.Array:
    """Return the array as it is, for kinds that are in their column's type already."""
    return array


_ARROW_CASTS = {
    (ValueKind.INT, Type.BIGINT): _keep,
    (ValueKind.INT, Type.DECIMAL): lambda array: array.cast(COLUMN_DECIMAL),
    (ValueKind.INT, Type.STRING): lambda array: array.cast(pa.string()),
    (ValueKind.NUMBER, Type.DECIMAL): _round_decimals,
    (ValueKind.NUMBER, Type.STRING): _format_decimals,
    (ValueKind.BOOL, Type.BOOLEAN): _keep,
    (ValueKind.BOOL, Type.STRING): lambda array: array.cast(pa.string()),
    (ValueKind.STRING, Type.STRING): _keep,
    (ValueKind.TIME, Type.TIMESTAMP): _keep,
}


def _cast_distinct(texts: pa.StringArray, to: Type) -> CastResult:
    """Cast JSON texts by the rules of `cast_text`, each distinct text once; null stays null."""
    distinct = texts.dictionary_encode()
    casts = [cast_text(text, to) for text in distinct.dictionary.to_pylist()]
    values = _make_array([cast.value for cast in casts], to).take(distinct.indices)
    rescue = pa.array([cast.rescue for cast in casts], pa.bool_())
    if not pc.any(rescue).as_py():
        return CastResult(values, None)
    return CastResult(values, rescue.take(distinct.indices).fill_null(False))


def _make_array(values: list[types.Scalar], to: Type) -> pa.Array:
    """Make an array of a column's type; timestamps are given in microseconds since 1970."""
    if to is Type.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(MICROS)
    return pa.array(values, ARROW_BY_TYPE[to])


def cast_text(text: str, to: Type) -> Cast:
    """Cast one value, given as JSON text, to a column's type; an array only fits STRING."""
    if text.startswith("["):
        return Cast(text, False) if to is Type.STRING else types.MISFIT
    return types.cast(decode(text), to)


def observe_column(kind: ValueKind, array: pa.Array) -> Type:
    """Return the type that fits all values of a path, of which there is at least one.

    Strings are TIMESTAMP if all are timestamps. Not for the kinds TIME and STRINGS.
    """
    if kind is ValueKind.JSON:
        return _observe_texts(array)
    if kind is ValueKind.STRING:
        return Type.TIMESTAMP if are_all_times(array) else Type.STRING
    return _TYPE_BY_KIND[kind]


_TYPE_BY_KIND = {
    ValueKind.INT: Type.BIGINT,
    ValueKind.NUMBER: Type.DECIMAL,
    ValueKind.BOOL: Type.BOOLEAN,
}


def observe_text(text: str) -> Type:
    """Return the type that fits one value, given as JSON text; STRING for an array."""
    return Type.STRING if text.startswith("[") else types.observe(decode(text))


def _observe_texts(texts: pa.StringArray) -> Type:
    """Return the type that fits all JSON texts, STRING if there are none; null is ignored."""
    joined: Type | None = None
    for text in pc.unique(texts.drop_null()).to_pylist():
        observed = observe_text(text)
        joined = observed if joined is None else types.join(joined, observed)
        if joined is Type.STRING:
            break
    return joined or Type.STRING
