"""Rows as JSON, JSON lines or CSV, without loss of digits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec
    import pyarrow as pa

BATCH_ROWS = 10_000

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^$')


class OutputFormat(StrEnum):
    """The format of a query result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def to_json(value: object) -> str:
    """Encode a value as JSON: decimals with all digits, timestamps in ISO format."""
    return _encoder().encode(value).decode()


def to_text(value: object) -> str:
    """Return a value as the text of a cell: as in JSON, but strings without quotes."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    text = str(value) if isinstance(value, float) else to_json(value)
    return text[1:-1] if text.startswith('"') else text


def iterate_rows(table: "pa.Table") -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an Arrow table, converting a batch at a time."""
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def iterate_objects(table: "pa.Table") -> Iterator[dict[str, Any]]:
    """Yield the rows as dictionaries; duplicate column names are numbered."""
    names = number_duplicates(table.column_names)
    return (dict(zip(names, row, strict=True)) for row in iterate_rows(table))


def decode_rows(rows: "pa.Table | Iterable[Mapping[str, Any]]") -> list[dict[str, Any]]:
    """Return rows with bytes as text; bytes that are not UTF-8 are escaped."""
    dicts = rows.to_pylist() if hasattr(rows, "to_pylist") else rows
    return [{key: _decode_bytes(value) for key, value in row.items()} for row in dicts]


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Make names unique by appending `_2`, `_3` and so on to later ones."""
    unique: dict[str, None] = {}
    for name in names:
        candidates = (name if n == 1 else f"{name}_{n}" for n in count(1))
        unique[next(one for one in candidates if one not in unique)] = None
    return list(unique)


def csv_lines(table: "pa.Table") -> Iterator[str]:
    """Yield CSV lines with a header; null is an empty cell, an empty string is quoted."""
    yield ",".join(map(_csv_cell, table.column_names))
    for row in iterate_rows(table):
        yield ",".join(map(_csv_cell, row))


def json_lines(table: "pa.Table") -> Iterator[str]:
    return map(to_json, iterate_objects(table))


def _decode_bytes(value: object) -> object:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    text = to_text(value)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


@cache
def _encoder() -> "msgspec.json.Encoder":
    import msgspec

    return msgspec.json.Encoder(enc_hook=_encode_unknown, decimal_format="number")


def _encode_unknown(value: Any) -> object:
    """Convert types that msgspec does not know: pydantic models, paths, Arrow intervals."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
